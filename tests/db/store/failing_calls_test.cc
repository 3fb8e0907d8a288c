// SPDX-License-Identifier: Apache-2.0
// Every call to the file system fails once, or fails and so do all changes
// after it. What the store was asked for succeeds or is a clean error, and
// after a reopening the store holds what it held before, or that and the
// change.

#include "absl/strings/str_cat.h"
#include "tests/db/sim_store.h"

namespace ckptdb::testing {
namespace {

using rocksdb::IOStatus;

struct Fault {
  IOStatus error;
  bool sticky = false;
  std::string ToString() const {
    return absl::StrCat(error.ToString(), sticky ? " from then on" : " once");
  }
};

// A full disk stops no call that reads; opening, which writes too, has a test
// of its own.
std::vector<Fault> FaultsOfReading() {
  const IOStatus error = IOStatus::IOError("injected");
  return {{error, false}, {error, true}};
}

std::vector<Fault> EveryFault() {
  std::vector<Fault> faults = FaultsOfReading();
  const IOStatus full = IOStatus::NoSpace("injected");
  faults.insert(faults.end(), {{full, false}, {full, true}});
  return faults;
}

class FailingCallsTest : public PreparedStoreTest {
 protected:
  // `action` on a copy of what is prepared, with the k-th call of it failing,
  // for each k and each fault.
  void FailEachCallOf(const Action& action,
                      const std::vector<Fault>& faults = EveryFault()) {
    uint64_t cases = 0;
    for (const Fault& fault : faults) {
      const uint64_t calls = CountCalls(action);
      cases += calls;
      EachAtOnce(calls, [&](uint64_t k) {
        SCOPED_TRACE(absl::StrCat(action.name, ": call ", k,
                                  " fails: ", fault.ToString()));
        FailOneCall(action, fault, k);
      });
    }
    EXPECT_GT(cases, 0U);
    std::cout << action.name << ": " << cases << " cases" << std::endl;
  }
  // Returns a few more calls than were made, because background work varies.
  uint64_t CountCalls(const Action& action) {
    constexpr uint64_t kMore = 4;
    SimStore sim(CopyOf(*files_));
    SetManifestBytes(&sim);
    if (open_first_) {
      EXPECT_OK(sim.Open());
    }
    const uint64_t before = sim.files()->calls();
    EXPECT_OK(action.run(&sim));
    return sim.files()->calls() - before + kMore;
  }
  void FailOneCall(const Action& action, const Fault& fault, uint64_t k) {
    SimStore sim(CopyOf(*files_));
    SetManifestBytes(&sim);
    if (open_first_) {
      ASSERT_OK(sim.Open());
    }
    sim.files()->FailOperation(sim.files()->calls() + k, fault.error,
                               fault.sticky);
    const absl::Status status = action.run(&sim);
    ExpectClean(status, fault);
    absl::Status after = absl::CancelledError();
    if (open_first_) {
      after = PinAction(kFirst).run(&sim);
      ExpectSticky(&sim, after);
    }
    sim.Close();
    sim.files()->ClearFault();
    CheckReopened(&sim, action, status, after);
  }
  void SetManifestBytes(SimStore* sim) const {
    if (!max_manifest_bytes_.has_value()) return;
    sim->environment()->set_max_manifest_bytes(*max_manifest_bytes_);
  }
  static void ExpectClean(const absl::Status& status, const Fault& fault) {
    if (status.ok()) return;
    const bool full = fault.error.IsNoSpace();
    // FailedPrecondition when the background came upon it first.
    const bool known = absl::IsUnavailable(status) ||
                       absl::IsFailedPrecondition(status) ||
                       absl::IsPermissionDenied(status) ||
                       (full && absl::IsResourceExhausted(status));
    EXPECT_TRUE(known) << status;
    EXPECT_THAT(std::string(status.message()),
                AnyOf(HasSubstr("injected"),
                      // RocksDB's guess when a first try to open fails.
                      HasSubstr("Direct I/O is not supported")));
  }
  // The database is used no more after an error of its own.
  static void ExpectSticky(SimStore* sim, const absl::Status& after) {
    if (!absl::IsFailedPrecondition(after)) return;
    EXPECT_THAT(std::string(after.message()), HasSubstr("injected"));
    sim->files()->ClearFault();
    const auto refused = FailedPrecondition("until it is reopened");
    EXPECT_THAT(after, refused);
    EXPECT_THAT(sim->store()->Delete(kFirst), refused);
    EXPECT_THAT(sim->store()->Begin({.step = 5}), refused);
    EXPECT_THAT(sim->store()->Sweep(), refused);
  }
  void CheckReopened(SimStore* sim, const Action& action,
                     const absl::Status& status, const absl::Status& pinned) {
    ASSERT_OK(sim->Open());
    StoreModel done = model_;
    action.apply(&done);
    // What was acknowledged is there; what failed may be there.
    std::vector<StoreModel> models = {done};
    if (!status.ok()) models.push_back(model_);
    for (size_t i = models.size(); i-- > 0;) {
      if (!models[i].contains(kFirst)) continue;
      StoreModel with_pin = models[i];
      with_pin.at(kFirst).pinned = true;
      if (pinned.ok()) {
        models[i] = with_pin;
      } else {
        models.push_back(with_pin);
      }
    }
    const std::string outline = Outline(*sim->store());
    for (const StoreModel& model : models) {
      if (Outline(model) != outline) continue;
      ASSERT_OK(ReadModel(sim->store(), model));
      ASSERT_OK(FoldAll(sim));
      ASSERT_OK(ReadModel(sim->store(), model));
      ASSERT_NO_FATAL_FAILURE(ExpectNoOrphans(sim));
      ASSERT_OK(sim->Open());
      return ExpectUsable(sim, model);
    }
    ADD_FAILURE() << "steps " << outline << "instead of "
                  << Outline(models.front());
  }
  // Never deleted by the actions.
  static constexpr int64_t kFirst = 1;
  bool open_first_ = true;
  std::optional<uint64_t> max_manifest_bytes_;
};

TEST_F(FailingCallsTest, SaveInline) {
  Prepare({SaveAction(kFirst, InlineStep(1))});
  FailEachCallOf(SaveAction(20, InlineStep(2)));
}

TEST_F(FailingCallsTest, SaveBulk) {
  Prepare({SaveAction(kFirst, InlineStep(1))});
  FailEachCallOf(SaveAction(20, BulkStep(2)));
}

TEST_F(FailingCallsTest, OverwriteAndRetire) {
  Prepare({SaveAction(kFirst, InlineStep(1)), SaveAction(10, BulkStep(2)),
           SaveAction(20, BulkStep(3))});
  FailEachCallOf(SaveAction(20, BulkStep(4), {10}));
}

TEST_F(FailingCallsTest, SaveChanges) {
  const ModelStep base = InlineStep(1);
  const ModelStep second = ChangedStep(2, base);
  Prepare({SaveAction(kFirst, base), SaveOverAction(20, second, kFirst, base)});
  FailEachCallOf(SaveOverAction(30, ChangedStep(3, second), 20, second, {20}));
}

TEST_F(FailingCallsTest, Fold) {
  const ModelStep base = InlineStep(1);
  const ModelStep second = ChangedStep(2, base);
  Prepare({SaveAction(kFirst, base), SaveOverAction(20, second, kFirst, base)});
  FailEachCallOf(FoldAction(20));
}

TEST_F(FailingCallsTest, Delete) {
  Prepare({SaveAction(kFirst, InlineStep(1)), SaveAction(20, BulkStep(2))});
  FailEachCallOf(DeleteAction(20));
}

TEST_F(FailingCallsTest, Quarantine) {
  Prepare({SaveAction(kFirst, InlineStep(1))});
  FailEachCallOf(QuarantineAction(kFirst));
}

TEST_F(FailingCallsTest, Sweep) {
  Prepare({SaveAction(kFirst, InlineStep(1)), SaveAction(10, InlineStep(2)),
           SaveAction(20, BulkStep(3)), SaveAction(30, BulkStep(4)),
           UnfinishedAction(40, BulkStep(5)), DeleteAction(10),
           DeleteAction(20)});
  FailEachCallOf(SweepAction());
}

// The MANIFEST begins anew with each of its records, while the store is open.
TEST_F(FailingCallsTest, SaveWithManifestsThatBeginAnew) {
  Prepare({SaveAction(kFirst, InlineStep(1)), SaveAction(20, BulkStep(2))});
  max_manifest_bytes_ = 1;
  FailEachCallOf(SaveAction(30, BulkStep(3), {20}));
}

class FailingOpenTest : public FailingCallsTest {
 protected:
  FailingOpenTest() { open_first_ = false; }
};

TEST_F(FailingOpenTest, MakeTheStore) { FailEachCallOf(ReopenAction()); }

TEST_F(FailingOpenTest, OpenAndClose) {
  Prepare({SaveAction(10, InlineStep(2)), SaveAction(20, BulkStep(3)),
           SaveAction(30, BulkStep(4)), UnfinishedAction(40, BulkStep(5)),
           DeleteAction(20)});
  FailEachCallOf(ReopenAction());
}

TEST_F(FailingOpenTest, ReadEverything) {
  Prepare({SaveAction(10, InlineStep(2)), SaveAction(20, BulkStep(3))});
  FailEachCallOf({"read",
                  [this](SimStore* sim) {
                    const absl::Status opened = sim->Open();
                    return opened.ok() ? ReadModel(sim->store(), model_)
                                       : opened;
                  },
                  [](StoreModel*) {}},
                 FaultsOfReading());
}

TEST_F(FailingOpenTest, Follower) {
  Prepare({SaveAction(10, InlineStep(2)), SaveAction(20, BulkStep(3))});
  FailEachCallOf({"follow",
                  [](SimStore* sim) {
                    StoreOptions options{.environment = sim->environment()};
                    const auto reader = Reader::Open(SimStore::kPath, options);
                    if (!reader.ok()) return reader.status();
                    for (const int64_t step : {int64_t{10}, int64_t{20}}) {
                      const auto open = (*reader)->OpenStep(step);
                      if (!open.ok()) return open.status();
                      absl::Status verified = (*open)->Verify();
                      if (!verified.ok()) return verified;
                    }
                    return absl::OkStatus();
                  },
                  [](StoreModel*) {}});
}

}  // namespace
}  // namespace ckptdb::testing
