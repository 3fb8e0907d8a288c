// SPDX-License-Identifier: Apache-2.0
// Owners, collectors, lost replies and services that do not do their part.
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "remote/layout/object_keys.h"
#include "remote/remote_store.h"
#include "remote/sync/catalog_log.h"
#include "remote/sync/catalog_steps.h"
#include "remote/sync/shipper.h"
#include "remote/sync/version_object.h"
#include "schema/records/records.h"
#include "tests/remote/fake_source.h"
#include "tests/remote/memory_store.h"
#include "tests/remote/remote_steps.h"
#include "tests/support/status_matchers.h"

namespace ckptdb::testing {
namespace {

class ProtocolTest : public ::testing::Test {
 protected:
  ProtocolTest() { remote_.set_names_as_files(true); }

  absl::StatusOr<PushResult> Push(const FakeSource& source,
                                  const PushOptions& options = {}) {
    return internal::Shipper(&remote_, &options).Push(source);
  }
  std::vector<int64_t> Steps() { return StepsOfRemote(&remote_); }
  Metrics MetricsOf(int64_t step) {
    const auto catalog = internal::NewestCatalog(&remote_);
    if (!catalog.ok() || !catalog->has_value()) return {};
    const internal::RemoteEntry* const entry =
        internal::FindStepEntry(**catalog, step);
    const auto version = internal::ReadVersionObject(&remote_, *entry);
    return DecodeStepRecord(version.value().step_record).value().metrics;
  }
  void ExpectSound() {
    ASSERT_OK_AND_ASSIGN(const VerifyRemoteResult verified,
                         VerifyRemote(&remote_, {.data = true}));
    for (const auto& damage : verified.damage) {
      ADD_FAILURE() << damage.key << ": " << damage.problem;
    }
  }
  // Pushes source_, and collects days later until so many catalogs are deleted.
  // Returns whether the collection was cut.
  bool PushAndCollect(int deletions) {
    remote_.set_before(nullptr);
    EXPECT_OK(Push(source_));
    remote_.Advance(absl::Hours(48));
    remote_.set_before([&](absl::string_view call, absl::string_view key) {
      const bool is_catalog = absl::StartsWith(key, "catalog/");
      return call == "delete" && is_catalog && deletions-- == 0
                 ? absl::UnavailableError("cut")
                 : absl::OkStatus();
    });
    const bool cut = !CollectRemote(&remote_).ok();
    remote_.set_before(nullptr);
    return cut;
  }
  // Saves steps 20 to 80, keeps two, and pushes them. With `restarts`, each is
  // saved by another process.
  void SkipSteps(bool restarts) {
    for (uint64_t content = 2; content < 9; ++content) {
      if (restarts) source_.set_owner(content);
      source_.Save(true, content);
      source_.KeepNewest(2);
    }
    ASSERT_OK(Push(source_));
    EXPECT_THAT(Steps(), ElementsAre(10, 70, 80));
    ExpectSound();
  }
  void ExpectNewest(int64_t step) {
    const auto catalog = internal::NewestCatalog(&remote_);
    ASSERT_OK(catalog);
    ASSERT_TRUE(catalog->has_value());
    EXPECT_EQ(internal::NewestStep(**catalog)->version.step, step);
  }
  // How often each call was made, whatever its key.
  std::map<std::string, int> Totals() {
    std::map<std::string, int> totals;
    for (const auto& [call, count] : remote_.calls()) {
      if (!absl::StrContains(call, " ")) totals[call] = count;
    }
    return totals;
  }
  size_t CountOf(const std::string& prefix) {
    size_t count = 0;
    for (const auto& [key, object] : remote_.objects()) {
      if (absl::StartsWith(key, prefix)) ++count;
    }
    return count;
  }

  MemoryStore remote_;
  FakeSource source_{"store-1"};
};

TEST_F(ProtocolTest, ANewOwnerFencesTheOneBefore) {
  source_.Save(true, 1);
  source_.Save(false, 2);
  PushOptions options;
  bool once = true;
  options.on_point = [&](absl::string_view point) {
    if (point != point::kShipData || !once) return;
    once = false;
    ASSERT_OK(Push(source_).status());
  };
  EXPECT_THAT(Push(source_, options),
              Aborted("another process ships", "epoch 2", "had 1"));
  EXPECT_THAT(Steps(), ElementsAre(10, 20));
  ExpectSound();
}

TEST_F(ProtocolTest, UsesThePreviousCatalogOnceADamagedOneIsDeleted) {
  source_.Save(true, 1);
  ASSERT_OK(Push(source_));
  source_.Save(false, 2);
  ASSERT_OK(Push(source_));
  const auto newest = remote_.objects().lower_bound("catalog/");
  for (const size_t bytes : {newest->second.bytes.size() / 2, size_t{0}}) {
    newest->second.bytes.resize(bytes);
    EXPECT_THAT(ListRemote(&remote_), DataLoss("catalog/", "is deleted"));
    EXPECT_THAT(Push(source_), DataLoss("catalog/", "is deleted"));
  }
  remote_.objects().erase(newest);
  EXPECT_THAT(Steps(), ElementsAre(10));
  ASSERT_OK_AND_ASSIGN(const PushResult pushed, Push(source_));
  EXPECT_THAT(pushed.shipped, ElementsAre(20));
  EXPECT_THAT(Steps(), ElementsAre(10, 20));
  ExpectSound();
}

// Each request costs money: docs/remote.md, "Requests".
TEST_F(ProtocolTest, RequestsAreCounted) {
  source_.Save(true, 1);
  const PushOptions options;
  internal::Shipper shipper(&remote_, &options);
  ASSERT_OK(shipper.Push(source_));
  // The first push becomes the owner and ships a step.
  EXPECT_THAT(Totals(),
              ElementsAre(Pair("delete", 1), Pair("get", 2), Pair("head", 3),
                          Pair("list", 3), Pair("put", 7)));
  remote_.calls().clear();
  ASSERT_OK(shipper.Push(source_));
  EXPECT_THAT(remote_.calls(), IsEmpty());
  source_.Save(false, 2);
  source_.Save(false, 3);
  ASSERT_OK(shipper.Push(source_));
  // Two steps with a data file each.
  EXPECT_THAT(
      remote_.calls(),
      UnorderedElementsAre(Pair("put", 6), Pair("put data", 2),
                           Pair("put versions", 2), Pair("put catalog", 2),
                           Pair("head", 2), Pair("head catalog", 2)));
  // Changed metrics: the version object is replaced.
  remote_.calls().clear();
  source_.SetMetric(20, 0.5);
  ASSERT_OK(shipper.Push(source_));
  EXPECT_THAT(remote_.calls(),
              UnorderedElementsAre(Pair("get", 1), Pair("get versions", 1),
                                   Pair("put", 2), Pair("put versions", 1),
                                   Pair("put catalog", 1), Pair("head", 1),
                                   Pair("head catalog", 1)));
}

TEST_F(ProtocolTest, RefusesAnotherStore) {
  source_.Save(true, 1);
  ASSERT_OK(Push(source_));
  FakeSource other("store-2");
  other.Save(true, 1);
  EXPECT_THAT(Push(other), FailedPrecondition("store-1", "store-2"));
  PushOptions options;
  options.take_over = true;
  EXPECT_THAT(Push(other, options), FailedPrecondition("store-1"));
}

// The format decides before there is a catalog.
TEST_F(ProtocolTest, RefusesAnotherStoreThatIsJustBeginning) {
  PushOptions options;
  options.on_point = [](absl::string_view) {};
  remote_.set_before([](absl::string_view call, absl::string_view key) {
    return call == "put" && absl::StartsWith(key, "catalog/")
               ? absl::UnavailableError("down")
               : absl::OkStatus();
  });
  EXPECT_THAT(Push(source_), Unavailable("down"));
  remote_.set_before(nullptr);
  FakeSource other("store-2");
  EXPECT_THAT(Push(other), FailedPrecondition("store-1"));
  EXPECT_OK(Push(source_));
}

TEST_F(ProtocolTest, ARemoteThatIsAheadIsKept) {
  source_.Save(true, 1);
  const FakeSource old = source_;
  source_.Save(false, 2);
  ASSERT_OK(Push(source_));
  EXPECT_THAT(Push(old), FailedPrecondition("ahead", "step is 20", "step is 10",
                                            "--take-over"));
  EXPECT_THAT(Steps(), ElementsAre(10, 20));
  PushOptions options;
  options.take_over = true;
  ASSERT_OK_AND_ASSIGN(const PushResult pushed, Push(old, options));
  EXPECT_THAT(pushed.shipped, IsEmpty());
  EXPECT_THAT(Steps(), ElementsAre(10));
  ExpectSound();
}

// The copy uses attempt numbers again.
TEST_F(ProtocolTest, ACopyThatWentOnByItselfIsRefused) {
  source_.Save(true, 1);
  FakeSource copy = source_;
  source_.Save(false, 2);
  copy.Save(false, 3);
  copy.Save(false, 4);
  ASSERT_OK(Push(source_));
  EXPECT_THAT(Push(copy), FailedPrecondition("a different step 20 attempt 2",
                                             "--take-over"));
  PushOptions options;
  options.take_over = true;
  ASSERT_OK_AND_ASSIGN(const PushResult pushed, Push(copy, options));
  EXPECT_THAT(pushed.shipped, ElementsAre(20, 30));
  EXPECT_THAT(Steps(), ElementsAre(10, 20, 30));
  ExpectSound();
  EXPECT_THAT(Push(source_), FailedPrecondition("--take-over"));
}

// A trainer moved to another disk, such as a fetched copy or a restored
// snapshot. Then the old disk returned, and training continued on it, with the
// same attempt numbers.
TEST_F(ProtocolTest, RefusesAStaleCopyHoweverManyStepsItSaves) {
  source_.Save(true, 1);
  ASSERT_OK(Push(source_));
  FakeSource moved = source_;
  moved.set_owner(2);
  for (const uint64_t content : {2, 3, 4}) moved.Save(false, content);
  ASSERT_OK(Push(moved));
  source_.set_steps_apart(5);
  for (uint64_t content = 5; content < 20; ++content) {
    source_.Save(true, content);
    source_.KeepNewest(3);
    EXPECT_THAT(Push(source_), FailedPrecondition("--take-over"));
  }
  EXPECT_THAT(Steps(), ElementsAre(10, 20, 30, 40));
  moved.Save(false, 20);
  ASSERT_OK(Push(moved));
  EXPECT_THAT(Steps(), ElementsAre(10, 20, 30, 40, 50));
  ExpectSound();
}

// All files were copied while the trainer ran, and the trainer then shipped
// more steps. The copy saves the same steps as the trainer, at other times.
TEST_F(ProtocolTest, RefusesASnapshotOfTheDiskHoweverManyStepsItSaves) {
  source_.Save(true, 1);
  ASSERT_OK(Push(source_));
  FakeSource snapshot = source_;
  snapshot.set_owner(2);
  for (const uint64_t content : {2, 3, 4}) source_.Save(false, content);
  ASSERT_OK(Push(source_));
  for (uint64_t content = 2; content < 20; ++content) {
    snapshot.Save(true, content);
    snapshot.KeepNewest(2);
    snapshot.set_owner(content + 1);  // it was restarted
    EXPECT_THAT(Push(snapshot), FailedPrecondition("--take-over"));
  }
  EXPECT_THAT(Steps(), ElementsAre(10, 20, 30, 40));
  PushOptions options;
  options.take_over = true;
  ASSERT_OK(Push(snapshot, options));
  EXPECT_THAT(Push(source_), FailedPrecondition("--take-over"));
  ExpectSound();
}

// A deterministic training that is repeated on a copy makes the same bytes.
TEST_F(ProtocolTest, RefusesACopyThatRepeatsTheTraining) {
  source_.Save(true, 1);
  ASSERT_OK(Push(source_));
  FakeSource copy = source_;
  copy.set_owner(2);
  for (const uint64_t content : {2, 3}) {
    source_.Save(false, content);
    copy.Save(false, content);
  }
  source_.SetMetric(20, 0.5);
  ASSERT_OK(Push(source_));
  copy.Save(false, 4);
  EXPECT_THAT(Push(copy),
              FailedPrecondition("another copy of the store", "--take-over"));
  EXPECT_THAT(Steps(), ElementsAre(10, 20, 30));
  ExpectSound();
}

// A store that was restored from an older copy lacks metrics that were added
// since.
TEST_F(ProtocolTest, KeepsMetricsThatOnlyTheRemoteHas) {
  source_.Save(true, 1);
  FakeSource older = source_;
  source_.SetMetric(10, 0.5);
  ASSERT_OK(Push(source_));
  EXPECT_THAT(MetricsOf(10), ElementsAre(Pair("auc", 0.5)));
  ASSERT_OK(Push(older));
  EXPECT_THAT(MetricsOf(10), ElementsAre(Pair("auc", 0.5)));
  ASSERT_OK_AND_ASSIGN(const PushResult again, Push(older));
  EXPECT_THAT(again.shipped, IsEmpty());
  older.SetMetric(10, 0.75);
  ASSERT_OK(Push(older));
  EXPECT_THAT(MetricsOf(10), ElementsAre(Pair("auc", 0.75)));
  ExpectSound();
}

// A new process restores an older step and continues, which abandons the
// remote's newest step and possibly every step of the process that saved it.
TEST_F(ProtocolTest, AStoreThatWentBackContinues) {
  uint64_t content = 1;
  source_.Save(true, content);
  for (const uint64_t owner : {2, 3, 4}) {
    source_.set_owner(owner);
    source_.RollBack(10);
    for (int i = 0; i < 3; ++i) source_.Save(i == 1, ++content);
    ASSERT_OK(Push(source_));
    EXPECT_THAT(Steps(), ElementsAre(10, 20, 30, 40));
    ExpectNewest(40);
  }
  source_.RollBack(20);
  source_.KeepNewest(1);
  EXPECT_THAT(Push(source_), FailedPrecondition("ahead", "step is 20"));
  source_.Save(true, 100);
  ASSERT_OK(Push(source_));
  ExpectNewest(30);
  ExpectSound();
}

// Another copy of the disk has shipped newer steps. A push of this copy is
// refused after it restores an older step, once or repeatedly, and after its
// saves fail.
TEST_F(ProtocolTest, RefusesAStaleCopyThatWentBack) {
  for (uint64_t content = 1; content < 4; ++content) {
    source_.Save(true, content);
  }
  ASSERT_OK(Push(source_));
  const FakeSource stale = source_;
  for (uint64_t content = 4; content < 7; ++content) {
    source_.Save(true, content);
    FakeSource copy = stale;
    ASSERT_OK(Push(source_));
    uint64_t owner = 10;
    for (const int64_t back : {30, 20, 10}) {
      copy.set_owner(++owner);
      copy.RollBack(back);
      copy.Save(true, 20);
      EXPECT_THAT(Push(copy), FailedPrecondition("--take-over"));
      copy.WasteAttempts(2);
      copy.set_owner(++owner);
      copy.Save(true, 21);
      EXPECT_THAT(Push(copy), FailedPrecondition("--take-over"));
    }
    FakeSource wasteful = stale;
    wasteful.set_owner(2);
    wasteful.WasteAttempts(10);
    wasteful.Save(true, 30);
    EXPECT_THAT(Push(wasteful), FailedPrecondition("--take-over"));
  }
  EXPECT_THAT(Steps(), ElementsAre(10, 20, 30, 40, 50, 60));
  ExpectSound();
}

// A copy made after the newest step was shipped can continue the remote. Its
// first push fences the original.
TEST_F(ProtocolTest, OneOfTwoCopiesThatWentBackContinues) {
  for (uint64_t content = 1; content < 5; ++content) {
    source_.Save(true, content);
  }
  ASSERT_OK(Push(source_));
  FakeSource copy = source_;
  copy.set_owner(2);
  copy.RollBack(20);
  copy.Save(true, 5);
  ASSERT_OK(Push(copy));
  ExpectNewest(30);
  for (const int64_t back : {40, 20, 10}) {
    source_.RollBack(back);
    source_.Save(true, 6);
    EXPECT_THAT(Push(source_), FailedPrecondition("--take-over"));
  }
  copy.Save(true, 7);
  ASSERT_OK(Push(copy));
  ExpectNewest(40);
  ExpectSound();
}

TEST_F(ProtocolTest, AnOwnerContinuesAfterItRemovedUnshippedSteps) {
  source_.Save(true, 1);
  ASSERT_OK(Push(source_));
  SkipSteps(/*restarts=*/true);
}

// Records of older libraries have no owners.
TEST_F(ProtocolTest, AStoreOfAnOlderLibraryContinues) {
  source_.set_owner(0);
  source_.Save(true, 1);
  ASSERT_OK(Push(source_));
  source_.set_owner(1);
  SkipSteps(/*restarts=*/false);
}

TEST_F(ProtocolTest, AStoreWithoutStepsDoesNotReplaceSteps) {
  const FakeSource empty = source_;
  source_.Save(true, 1);
  ASSERT_OK(Push(source_));
  EXPECT_THAT(Push(empty), FailedPrecondition("the store has no step"));
}

// A put that was done, but whose reply was lost.
TEST_F(ProtocolTest, LostRepliesAreToldByTheToken) {
  source_.Save(true, 1);
  ASSERT_OK(Push(source_));
  source_.Save(false, 2);
  int lost = 0;
  remote_.set_after([&](absl::string_view call, absl::string_view key) {
    if (call != "put" || !absl::StartsWith(key, "catalog/")) {
      return absl::OkStatus();
    }
    ++lost;
    return absl::UnavailableError("lost");
  });
  ASSERT_OK(Push(source_));
  EXPECT_EQ(lost, 2);
  remote_.set_after(nullptr);
  EXPECT_THAT(Steps(), ElementsAre(10, 20));
}

// A lost reply followed by another owner is a success, and then a lost race.
TEST_F(ProtocolTest, AnUnknownOutcomeIsReported) {
  source_.Save(true, 1);
  ASSERT_OK(Push(source_));
  source_.Save(false, 2);
  int puts = 0;
  remote_.set_before([&](absl::string_view call, absl::string_view key) {
    const bool second =
        call == "put" && absl::StartsWith(key, "catalog/") && ++puts == 2;
    return second ? absl::UnavailableError("cut") : absl::OkStatus();
  });
  EXPECT_THAT(Push(source_), Unavailable("cut"));
  remote_.set_before(nullptr);
  EXPECT_THAT(Steps(), ElementsAre(10));
  ASSERT_OK(Push(source_));
  EXPECT_THAT(Steps(), ElementsAre(10, 20));
  ExpectSound();
}

TEST_F(ProtocolTest, AServiceThatIgnoresConditionsIsRefused) {
  remote_.set_overwrites(true);
  source_.Save(true, 1);
  EXPECT_THAT(Push(source_), FailedPrecondition("If-None-Match"));
  EXPECT_EQ(CountOf("catalog/") + CountOf("data/") + CountOf("probe/"), 0);
}

TEST_F(ProtocolTest, ACollectionKeepsForeignObjects) {
  source_.Save(true, 1);
  ASSERT_OK(Push(source_));
  source_.Save(false, 2);
  ASSERT_OK(Push(source_));
  const std::vector<std::string> foreign = {
      "catalog/copy/db/CURRENT",
      "catalog/notes",
      "data/notes",
      "probe/notes",
      "probe/0a1b2c3d-0000-4000-8000-000000000000/copy",
      "versions/notes"};
  for (const std::string& key : foreign) {
    ASSERT_OK(remote_.PutIfAbsent(key, "x", "t"));
  }
  const std::string probe = "probe/0a1b2c3d-0000-4000-8000-000000000000-b";
  ASSERT_OK(remote_.PutIfAbsent(probe, "x", "t"));
  remote_.Advance(absl::Hours(48));
  ASSERT_OK(CollectRemote(&remote_).status());
  for (const std::string& key : foreign) EXPECT_OK(remote_.Head(key)) << key;
  EXPECT_THAT(remote_.Head(probe), NotFound(""));
  EXPECT_THAT(Steps(), ElementsAre(10, 20));
}

TEST_F(ProtocolTest, ACollectionKeepsTheNewestAndPinnedSteps) {
  for (int i = 0; i < 5; ++i) source_.Save(i % 2 == 0, i);
  ASSERT_OK(Push(source_));
  const size_t before = CountOf("data/");
  EXPECT_EQ(before, 5);
  CollectOptions options;
  options.keep = 2;
  ASSERT_OK_AND_ASSIGN(CollectResult collected,
                       CollectRemote(&remote_, options));
  EXPECT_THAT(collected.dropped, ElementsAre(10, 20, 30));
  EXPECT_EQ(collected.deleted_objects, 0);
  EXPECT_GT(collected.waiting_bytes, 0);
  EXPECT_THAT(Steps(), ElementsAre(40, 50));
  // The dropped steps are not shipped again.
  ASSERT_OK_AND_ASSIGN(const PushResult again, Push(source_));
  EXPECT_THAT(again.shipped, IsEmpty());
  remote_.Advance(absl::Hours(25));
  ASSERT_OK_AND_ASSIGN(collected, CollectRemote(&remote_, options));
  // Step 40 is a delta of step 30.
  EXPECT_EQ(CountOf("data/"), 3);
  EXPECT_EQ(CountOf("versions/"), 3);
  EXPECT_EQ(collected.waiting_bytes, 0);
  ExpectSound();
  source_.Save(false, 9);
  ASSERT_OK(Push(source_));
  EXPECT_THAT(Steps(), ElementsAre(40, 50, 60));
}

TEST_F(ProtocolTest, CollectionsRefuseBadOptions) {
  CollectOptions options;
  options.keep = 0;
  EXPECT_THAT(CollectRemote(&remote_, options), InvalidArgument("keep"));
  options = CollectOptions();
  options.grace = -absl::Seconds(1);
  EXPECT_THAT(CollectRemote(&remote_, options), InvalidArgument("grace"));
}

// A collector commits between the objects of a step and its catalog.
TEST_F(ProtocolTest, AnOwnerGoesOnAfterACollection) {
  source_.Save(true, 1);
  source_.Save(false, 2);
  PushOptions options;
  options.on_point = [&](absl::string_view point) {
    if (point == point::kShipVersion) {
      ASSERT_OK(CollectRemote(&remote_).status());
    }
  };
  ASSERT_OK_AND_ASSIGN(const PushResult pushed, Push(source_, options));
  EXPECT_THAT(pushed.shipped, ElementsAre(10, 20));
  ExpectSound();
}

// The collector has deleted the objects of an owner that stalled for days.
TEST_F(ProtocolTest, AnOwnerThatStalledGivesUpItsObjects) {
  source_.Save(true, 1);
  ASSERT_OK(Push(source_));
  source_.Save(false, 2);
  PushOptions options;
  options.on_point = [&](absl::string_view point) {
    if (point != point::kShipVersion) return;
    remote_.Advance(absl::Hours(48));
    ASSERT_OK(CollectRemote(&remote_).status());
  };
  EXPECT_THAT(Push(source_, options), Aborted("push again"));
  EXPECT_THAT(Steps(), ElementsAre(10));
  ASSERT_OK(Push(source_));
  EXPECT_THAT(Steps(), ElementsAre(10, 20));
  ExpectSound();
}

// An owner stalls before it puts a catalog; others commit, and a collector
// deletes the catalog of that number. The put succeeds, but it is too late.
TEST_F(ProtocolTest, ACatalogInPlaceOfADeletedOneIsNotACommit) {
  source_.Save(true, 1);
  ASSERT_OK(Push(source_));
  FakeSource stalled = source_;
  source_.Save(false, 2);
  stalled.Save(false, 3);
  PushOptions options;
  options.on_point = [&](absl::string_view point) {
    if (point != point::kShipOwned) return;
    remote_.set_before([&](absl::string_view call, absl::string_view key) {
      if (call != "put" || !absl::StartsWith(key, "catalog/")) {
        return absl::OkStatus();
      }
      remote_.set_before(nullptr);
      EXPECT_OK(Push(source_));
      remote_.Advance(absl::Hours(48));
      EXPECT_OK(CollectRemote(&remote_));
      EXPECT_FALSE(remote_.objects().contains(std::string(key)));
      return absl::OkStatus();
    });
  };
  EXPECT_THAT(Push(stalled, options), Aborted("another process ships"));
  EXPECT_THAT(Steps(), ElementsAre(10, 20));
  ASSERT_OK_AND_ASSIGN(const auto newest, internal::NewestCatalog(&remote_));
  EXPECT_EQ(newest->entries.back().lineage, LineageDigest(*source_.Newest()));
  ExpectSound();
}

// The same if the collector ends after any of its deletions.
TEST_F(ProtocolTest, ACollectionThatIsCutDoesNotHideDeletedCatalogs) {
  bool cut = true;
  for (int deletions = 0; cut; ++deletions) {
    SCOPED_TRACE(deletions);
    cut = false;
    remote_.objects().clear();
    source_ = FakeSource("store-1");
    source_.Save(true, 1);
    ASSERT_OK(Push(source_));
    FakeSource stalled = source_;
    source_.Save(false, 2);
    stalled.Save(false, 3);
    PushOptions options;
    options.on_point = [&](absl::string_view point) {
      if (point != point::kShipOwned) return;
      remote_.set_before([&](absl::string_view call, absl::string_view key) {
        if (call != "put" || !absl::StartsWith(key, "catalog/")) {
          return absl::OkStatus();
        }
        cut = PushAndCollect(deletions);
        return absl::OkStatus();
      });
    };
    EXPECT_THAT(Push(stalled, options), Aborted("another process ships"));
    remote_.set_before(nullptr);
    EXPECT_THAT(Steps(), ElementsAre(10, 20));
    ASSERT_OK_AND_ASSIGN(const auto newest, internal::NewestCatalog(&remote_));
    EXPECT_EQ(newest->entries.back().lineage, LineageDigest(*source_.Newest()));
    ExpectSound();
  }
}

// Some services lack ListMultipartUploads, or the credentials do not allow it.
TEST_F(ProtocolTest, ACollectionReportsThatUploadsCannotBeListed) {
  source_.Save(true, 1);
  source_.Save(false, 2);
  ASSERT_OK(Push(source_));
  int asked = 0;
  absl::Status answer = absl::FailedPreconditionError("501 NotImplemented");
  remote_.set_before([&](absl::string_view call, absl::string_view) {
    if (call != "abort") return absl::OkStatus();
    ++asked;
    return answer;
  });
  CollectOptions options;
  options.keep = 1;
  ASSERT_OK_AND_ASSIGN(const CollectResult collected,
                       CollectRemote(&remote_, options));
  EXPECT_THAT(collected.uploads, FailedPrecondition("501 NotImplemented"));
  EXPECT_THAT(collected.dropped, ElementsAre(10));
  EXPECT_EQ(asked, 1);
  answer = absl::UnavailableError("down");
  EXPECT_THAT(CollectRemote(&remote_), Unavailable("down"));
  remote_.set_before(nullptr);
  ASSERT_OK_AND_ASSIGN(const CollectResult later, CollectRemote(&remote_));
  EXPECT_OK(later.uploads);
}

// A service that is refused contains no objects afterwards.
TEST_F(ProtocolTest, APushProbesTheServiceBeforeItPutsAnythingElse) {
  source_.Save(true, 1);
  remote_.set_overwrites(true);
  EXPECT_THAT(Push(source_), FailedPrecondition("If-None-Match"));
  EXPECT_THAT(remote_.objects(), IsEmpty());
  remote_.set_overwrites(false);
  EXPECT_OK(Push(source_));
}

TEST_F(ProtocolTest, CollectionsDeleteOldCatalogsProbesAndObjectsOfNobody) {
  source_.Save(true, 1);
  ASSERT_OK(Push(source_));
  ASSERT_OK(remote_.PutIfAbsent("probe/0a1b2c3d-0000-4000-8000-000000000000",
                                "x", "t"));
  ASSERT_OK(remote_.PutIfAbsent(internal::DataObjectKey({7, {10, 1}, 0}),
                                "orphan", "t"));
  ASSERT_OK(remote_.PutIfAbsent("data/notes/mine", "of a user", "t"));
  const size_t catalogs = CountOf("catalog/");
  ASSERT_OK(CollectRemote(&remote_).status());
  EXPECT_EQ(CountOf("catalog/"), catalogs + 2);
  remote_.Advance(absl::Hours(25));
  ASSERT_OK(CollectRemote(&remote_).status());
  EXPECT_EQ(CountOf("catalog/"), 2);
  EXPECT_EQ(CountOf("probe/"), 0);
  EXPECT_EQ(CountOf("data/"), 2);
  EXPECT_TRUE(remote_.objects().contains("data/notes/mine"));
  ExpectSound();
}

}  // namespace
}  // namespace ckptdb::testing
