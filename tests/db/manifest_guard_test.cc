// A MANIFEST that cannot be written or synced while files are ingested:
// whatever of it is on disk, no file that it may name is gone, and the store
// opens again.
#include <gmock/gmock.h>

#include <atomic>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "ckptdb/tests/db/sim_store.h"
#include "ckptdb/tests/support/status_matchers.h"

namespace ckptdb::testing {
namespace {

using ::testing::HasSubstr;

std::shared_ptr<SimFileSystem> Copy(const SimFileSystem& files,
                                    PowerLoss variant) {
  return files.CrashAfter(files.operations(), variant);
}

// The calls of `save` that write or sync the MANIFEST: the number that calls()
// had before each.
std::vector<uint64_t> ManifestCalls(const SimFileSystem& prepared,
                                    const Action& save) {
  SimStore sim(Copy(prepared, PowerLoss::kKeepAll));
  EXPECT_OK(sim.Open());
  const uint64_t first = sim.files()->calls();
  std::vector<uint64_t> calls;
  sim.files()->SetOperationHook([&](size_t k) {
    const std::string text = sim.files()->OperationText(k - 1);
    if (absl::StrContains(text, "/MANIFEST-")) {
      calls.push_back(sim.files()->calls() - 1 - first);
    }
  });
  EXPECT_OK(save.run(&sim));
  sim.files()->SetOperationHook(nullptr);
  return calls;
}

class ManifestGuardTest : public ::testing::Test {
 protected:
  void SetUp() override {
    SimStore sim(prepared_);
    ASSERT_OK(sim.Open());
    const Action first = SaveAction(10, BulkStep(1));
    ASSERT_OK(first.run(&sim));
    first.apply(&model_);
  }

  // What a copy of the store holds after the call failed, in every variant.
  void FailCall(uint64_t call, bool sticky) {
    SCOPED_TRACE(absl::StrCat("call ", call, sticky ? " sticky" : ""));
    SimStore sim(Copy(*prepared_, PowerLoss::kKeepAll));
    ASSERT_OK(sim.Open());
    sim.files()->FailOperation(sim.files()->calls() + call,
                               rocksdb::IOStatus::IOError("injected"), sticky);
    const absl::Status saved = save_.run(&sim);
    if (!saved.ok()) ExpectOutOfUse(&sim, saved);
    sim.Close();
    sim.files()->ClearFault();
    for (const PowerLoss variant : kAllPowerLosses) {
      SCOPED_TRACE(PowerLossName(variant));
      CheckReopened(Copy(*sim.files(), variant), saved.ok());
    }
  }

  void ExpectOutOfUse(SimStore* sim, const absl::Status& saved) {
    ++failed_;
    EXPECT_THAT(
        saved, StatusIs(absl::StatusCode::kUnavailable, HasSubstr("injected")));
    EXPECT_THAT(
        sim->store()->Begin({.step = 30}),
        StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("injected")));
    EXPECT_OK(ReadModel(sim->store(), model_));
  }

  void CheckReopened(std::shared_ptr<SimFileSystem> files, bool saved) {
    StoreModel done = model_;
    save_.apply(&done);
    SimStore sim(std::move(files));
    ASSERT_OK(sim.Open());
    const StoreModel& found =
        saved || Outline(*sim.store()) == Outline(done) ? done : model_;
    ExpectModel(sim.store(), found);
    ASSERT_NO_FATAL_FAILURE(ExpectNoOrphans(&sim));
    ASSERT_OK(sim.Open());
    ExpectUsable(&sim, found);
  }

  const Action save_ = SaveAction(20, BulkStep(2));
  std::shared_ptr<SimFileSystem> prepared_ = std::make_shared<SimFileSystem>();
  StoreModel model_;
  std::atomic<size_t> failed_ = 0;
};

TEST_F(ManifestGuardTest, FilesStayAndTheStoreOpens) {
  const std::vector<uint64_t> calls = ManifestCalls(*prepared_, save_);
  // The ingestion's write and sync, and those of the flushes after it.
  ASSERT_GE(calls.size(), 4U);
  EachAtOnce(
      2 * calls.size(), [&](uint64_t i) { FailCall(calls[i / 2], i % 2 == 1); },
      /*stride=*/1);
  // Two families are flushed at once, so a call is not always the same one:
  // now and then the one that fails comes after the save.
  EXPECT_GE(failed_, calls.size());
}

}  // namespace
}  // namespace ckptdb::testing
