// SPDX-License-Identifier: Apache-2.0
// Which stores may push to a remote that contains steps.
#include <cstdint>

#include "absl/strings/match.h"
#include "absl/strings/string_view.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "remote/remote_store.h"
#include "remote/sync/catalog_log.h"
#include "remote/sync/catalog_steps.h"
#include "remote/sync/version_object.h"
#include "schema/records/records.h"
#include "tests/remote/fake_source.h"
#include "tests/remote/memory_store.h"
#include "tests/remote/protocol_fixture.h"
#include "tests/support/status_matchers.h"

namespace ckptdb::testing {
namespace {

class ContinuationTest : public ProtocolFixture {
 protected:
  Metrics MetricsOf(int64_t step) {
    const auto catalog = internal::NewestCatalog(&remote_);
    if (!catalog.ok() || !catalog->has_value()) return {};
    const internal::RemoteEntry* const entry =
        internal::FindStepEntry(**catalog, step);
    const auto version = internal::ReadVersionObject(&remote_, *entry);
    return DecodeStepRecord(version.value().step_record).value().metrics;
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
};

TEST_F(ContinuationTest, RefusesAnotherStore) {
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
TEST_F(ContinuationTest, RefusesAnotherStoreThatIsJustBeginning) {
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

TEST_F(ContinuationTest, ARemoteThatIsAheadIsKept) {
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
TEST_F(ContinuationTest, ACopyThatWentOnByItselfIsRefused) {
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
TEST_F(ContinuationTest, RefusesAStaleCopyHoweverManyStepsItSaves) {
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
TEST_F(ContinuationTest, RefusesASnapshotOfTheDiskHoweverManyStepsItSaves) {
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
TEST_F(ContinuationTest, RefusesACopyThatRepeatsTheTraining) {
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
TEST_F(ContinuationTest, KeepsMetricsThatOnlyTheRemoteHas) {
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
TEST_F(ContinuationTest, AStoreThatWentBackContinues) {
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
TEST_F(ContinuationTest, RefusesAStaleCopyThatWentBack) {
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
TEST_F(ContinuationTest, OneOfTwoCopiesThatWentBackContinues) {
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

TEST_F(ContinuationTest, AnOwnerContinuesAfterItRemovedUnshippedSteps) {
  source_.Save(true, 1);
  ASSERT_OK(Push(source_));
  SkipSteps(/*restarts=*/true);
}

// Records of older libraries have no owners.
TEST_F(ContinuationTest, AStoreOfAnOlderLibraryContinues) {
  source_.set_owner(0);
  source_.Save(true, 1);
  ASSERT_OK(Push(source_));
  source_.set_owner(1);
  SkipSteps(/*restarts=*/false);
}

TEST_F(ContinuationTest, AStoreWithoutStepsDoesNotReplaceSteps) {
  const FakeSource empty = source_;
  source_.Save(true, 1);
  ASSERT_OK(Push(source_));
  EXPECT_THAT(Push(empty), FailedPrecondition("the store has no step"));
}

}  // namespace
}  // namespace ckptdb::testing
