// SPDX-License-Identifier: Apache-2.0
// Overwriting, deleting, pinning, quarantining, retiring, sweeping.
#include <gmock/gmock.h>

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <stdexcept>

#include "db/options.h"
#include "db/state.h"
#include "tests/db/store_fixture.h"

namespace ckptdb::testing {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

class StoreChangesTest : public StoreFixture {
 protected:
  StoreChangesTest() { options_.background_sweep = false; }

  int64_t Latest() {
    const auto latest = store_->Latest();
    return latest.ok() ? latest->version.step : -1;
  }
};

RankContent BadContent() {
  RankContent content = BulkContent(9);
  content.blobs[""] = "no name";
  return content;
}

TEST_F(StoreChangesTest, ExistingStepIsAlreadyExists) {
  ASSERT_OK(Save(5, SmallContent(1)));
  EXPECT_THAT(Save(5, SmallContent(2)),
              StatusIs(absl::StatusCode::kAlreadyExists, HasSubstr("step 5")));
  EXPECT_THAT(store_->Begin({.step = 5}),
              StatusIs(absl::StatusCode::kAlreadyExists, HasSubstr("step 5")));
  ExpectStep(5, {SmallContent(1)});
}

TEST_F(StoreChangesTest, OverwriteReplaces) {
  ASSERT_OK_AND_ASSIGN(const SaveResult first, Save(5, BulkContent(1)));
  ASSERT_OK_AND_ASSIGN(const SaveResult second, Overwrite(5, BulkContent(2)));
  EXPECT_NE(first.version, second.version);
  EXPECT_THAT(ListSteps(), ElementsAre(5));
  ExpectStep(5, {BulkContent(2)});
  ASSERT_OK_AND_ASSIGN(const Store::SweepResult swept, store_->Sweep());
  EXPECT_THAT(swept.swept_versions, ElementsAre(first.version));
  Reopen();
  ExpectStep(5, {BulkContent(2)});
}

TEST_F(StoreChangesTest, OverwriteOfNothingIsASave) {
  ASSERT_OK(Overwrite(5, SmallContent(1)));
  ExpectStep(5, {SmallContent(1)});
}

TEST_F(StoreChangesTest, OldStepStaysUntilTheNewOneIsCommitted) {
  ASSERT_OK(Save(5, BulkContent(1)));
  ASSERT_OK_AND_ASSIGN(const Store::Attempt save,
                       store_->Begin({.step = 5, .overwrite = true}));
  ExpectStep(5, {BulkContent(1)});
  const HeldState held(BulkContent(2));
  ASSERT_OK_AND_ASSIGN(const StagedRank staged,
                       Stage(path(), save.tickets.at(0), held.state()));
  ASSERT_OK(store_->Sweep());
  ExpectStep(5, {BulkContent(1)});
  ASSERT_OK(store_->Publish(save.version, {staged}));
  ExpectStep(5, {BulkContent(2)});
}

TEST_F(StoreChangesTest, FailingOverwriteKeepsTheOldStep) {
  ASSERT_OK(Save(5, BulkContent(1)));
  EXPECT_THAT(Overwrite(5, BadContent()),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("name")));
  ExpectStep(5, {BulkContent(1)});
  ASSERT_OK(store_->Sweep());
  Reopen();
  ExpectStep(5, {BulkContent(1)});
}

TEST_F(StoreChangesTest, SecondSaveOfAStepIsAlreadyExists) {
  ASSERT_OK_AND_ASSIGN(const Store::Attempt first, store_->Begin({.step = 5}));
  ASSERT_OK_AND_ASSIGN(const Store::Attempt second, store_->Begin({.step = 5}));
  EXPECT_NE(first.version, second.version);
  const HeldState held1(SmallContent(1));
  const HeldState held2(SmallContent(2));
  ASSERT_OK_AND_ASSIGN(const StagedRank staged1,
                       Stage(path(), first.tickets.at(0), held1.state()));
  ASSERT_OK_AND_ASSIGN(const StagedRank staged2,
                       Stage(path(), second.tickets.at(0), held2.state()));
  ASSERT_OK(store_->Publish(first.version, {staged1}));
  EXPECT_THAT(store_->Publish(second.version, {staged2}),
              StatusIs(absl::StatusCode::kAlreadyExists, HasSubstr("step 5")));
  ExpectStep(5, {SmallContent(1)});
}

TEST_F(StoreChangesTest, FailedSaveLeavesNothing) {
  EXPECT_THAT(Save(5, BadContent()),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("name")));
  EXPECT_THAT(store_->Steps(), IsEmpty());
  ASSERT_OK(store_->Sweep());
  ASSERT_OK_AND_ASSIGN(const Usage usage, store_->GetUsage());
  EXPECT_THAT(usage.held_versions, IsEmpty());
  ASSERT_OK(Save(5, SmallContent(1)));
  ExpectStep(5, {SmallContent(1)});
}

TEST_F(StoreChangesTest, DeleteIsDurable) {
  ASSERT_OK(Save(1, SmallContent(1)));
  ASSERT_OK(Save(2, BulkContent(2)));
  ASSERT_OK(store_->Delete(1));
  ASSERT_OK(store_->Delete(2));
  EXPECT_THAT(store_->Steps(), IsEmpty());
  EXPECT_THAT(store_->OpenStep(1),
              StatusIs(absl::StatusCode::kNotFound, HasSubstr("step 1")));
  Reopen();
  EXPECT_THAT(store_->Steps(), IsEmpty());
  EXPECT_THAT(store_->Delete(1),
              StatusIs(absl::StatusCode::kNotFound, HasSubstr("step 1")));
}

TEST_F(StoreChangesTest, SweepFreesTheBytesOfADeletedStep) {
  ASSERT_OK_AND_ASSIGN(const SaveResult first, Save(1, BulkContent(1)));
  ASSERT_OK(Save(2, BulkContent(2)));
  ASSERT_OK(store_->Delete(1));
  ASSERT_OK_AND_ASSIGN(const Usage before, store_->GetUsage());
  ASSERT_THAT(before.held_versions, SizeIs(1));
  EXPECT_EQ(before.held_versions[0].version, first.version);
  EXPECT_EQ(before.held_versions[0].reason, Usage::Held::Reason::kGarbage);
  EXPECT_GE(before.held_versions[0].stored_bytes, uint64_t{9} << 20);
  ASSERT_OK_AND_ASSIGN(const Store::SweepResult swept, store_->Sweep());
  EXPECT_THAT(swept.swept_versions, ElementsAre(first.version));
  EXPECT_THAT(swept.quarantined_versions, IsEmpty());
  EXPECT_GE(swept.freed_bytes, uint64_t{9} << 20);
  ASSERT_OK_AND_ASSIGN(const Usage after, store_->GetUsage());
  EXPECT_THAT(after.held_versions, IsEmpty());
  EXPECT_LE(after.disk_bytes + (uint64_t{9} << 20), before.disk_bytes);
  ExpectStep(2, {BulkContent(2)});
}

TEST_F(StoreChangesTest, SweepOfACleanStoreDoesNothing) {
  ASSERT_OK(Save(1, BulkContent(1)));
  ASSERT_OK_AND_ASSIGN(const Store::SweepResult swept, store_->Sweep());
  EXPECT_THAT(swept.swept_versions, IsEmpty());
  EXPECT_THAT(swept.quarantined_versions, IsEmpty());
  EXPECT_EQ(swept.freed_bytes, 0u);
  EXPECT_OK(store_->sweep_status());
}

TEST_F(StoreChangesTest, SweepKeepsASaveInProgress) {
  ASSERT_OK_AND_ASSIGN(const Store::Attempt save, store_->Begin({.step = 1}));
  const HeldState held(BulkContent(1));
  ASSERT_OK_AND_ASSIGN(const StagedRank staged,
                       Stage(path(), save.tickets.at(0), held.state()));
  ASSERT_OK_AND_ASSIGN(const Store::SweepResult swept, store_->Sweep());
  EXPECT_THAT(swept.swept_versions, IsEmpty());
  ASSERT_OK(store_->Publish(save.version, {staged}));
  ExpectStep(1, {BulkContent(1)});
}

TEST_F(StoreChangesTest, SaveThatWasNotPublishedIsSweptAfterReopen) {
  ASSERT_OK_AND_ASSIGN(const Store::Attempt save, store_->Begin({.step = 1}));
  const HeldState held(BulkContent(1));
  ASSERT_OK_AND_ASSIGN(const StagedRank staged,
                       Stage(path(), save.tickets.at(0), held.state()));
  Reopen();
  EXPECT_THAT(
      store_->Publish(save.version, {staged}),
      StatusIs(absl::StatusCode::kNotFound, HasSubstr(ToString(save.version))));
  ASSERT_OK_AND_ASSIGN(const Store::SweepResult swept, store_->Sweep());
  EXPECT_THAT(swept.swept_versions, ElementsAre(save.version));
  ASSERT_OK_AND_ASSIGN(const Usage usage, store_->GetUsage());
  EXPECT_LT(usage.disk_bytes, uint64_t{9} << 20);
}

TEST_F(StoreChangesTest, BackgroundSweepComesToTheSame) {
  options_.background_sweep = true;
  Reopen();
  ASSERT_OK(Save(1, BulkContent(1)));
  ASSERT_OK(store_->Delete(1));
  ASSERT_OK(store_->Sweep());
  EXPECT_OK(store_->sweep_status());
  ASSERT_OK_AND_ASSIGN(const Usage usage, store_->GetUsage());
  EXPECT_THAT(usage.held_versions, IsEmpty());
  EXPECT_LT(usage.disk_bytes, uint64_t{9} << 20);
}

// Counts the sweeps of a store.
class SweepCount {
 public:
  std::function<void(absl::string_view point)> hook() {
    return [this](absl::string_view passed) {
      if (passed != point::kSweepDone) return;
      const std::lock_guard<std::mutex> lock(mutex_);
      ++count_;
      grew_.notify_all();
    };
  }
  // Whether it comes to `count` in half a minute.
  bool WaitFor(int count) {
    std::unique_lock<std::mutex> lock(mutex_);
    return grew_.wait_for(lock, std::chrono::seconds(30),
                          [&] { return count_ >= count; });
  }

 private:
  std::mutex mutex_;
  std::condition_variable grew_;
  int count_ = 0;
};

TEST_F(StoreChangesTest, ACommitIsSweptInTheBackground) {
  SweepCount sweeps;
  options_.background_sweep = true;
  options_.on_point = sweeps.hook();
  Reopen();
  int count = 1;  // that of the opening
  ASSERT_TRUE(sweeps.WaitFor(count));
  ASSERT_OK(Save(1, BulkContent(1)));
  ASSERT_TRUE(sweeps.WaitFor(++count));
  ASSERT_OK(Overwrite(1, BulkContent(2)));
  while (true) {
    ASSERT_OK_AND_ASSIGN(const Usage usage, store_->GetUsage());
    if (usage.held_versions.empty()) break;
    ASSERT_TRUE(sweeps.WaitFor(++count)) << usage.held_versions.size();
  }
  store_.reset();  // the hook goes with `sweeps`
}

// A store that was closed between the two knows as much.
TEST_F(StoreChangesTest, WhatACommitRetiresIsSweptAfterReopen) {
  ASSERT_OK_AND_ASSIGN(const SaveResult first, Save(1, BulkContent(1)));
  ASSERT_OK_AND_ASSIGN(const SaveResult second, Save(2, BulkContent(2)));
  ASSERT_OK(Overwrite(2, BulkContent(3), {.retire = {1}}));
  Reopen();
  ASSERT_OK_AND_ASSIGN(const Store::SweepResult swept, store_->Sweep());
  EXPECT_THAT(swept.swept_versions, ElementsAre(first.version, second.version));
  EXPECT_THAT(swept.quarantined_versions, IsEmpty());
  ExpectStep(2, {BulkContent(3)});
}

TEST_F(StoreChangesTest, ABeginThatFailedIsNotInProgress) {
  bool fail = false;
  options_.on_point = [&](absl::string_view passed) {
    if (fail && passed == point::kBegun) throw std::runtime_error("drill");
  };
  Reopen();
  fail = true;
  EXPECT_THAT(store_->Begin({.step = 1}),
              StatusIs(absl::StatusCode::kInternal, HasSubstr("drill")));
  fail = false;
  ASSERT_OK_AND_ASSIGN(const Store::Attempt save, store_->Begin({.step = 1}));
  EXPECT_EQ(save.version.attempt, 2U);  // the first one is in the log
  const Version failed = {1, 1};
  EXPECT_THAT(store_->Abandon(failed), StatusIs(absl::StatusCode::kNotFound,
                                                HasSubstr(ToString(failed))));
  ASSERT_OK_AND_ASSIGN(const Store::SweepResult swept, store_->Sweep());
  EXPECT_THAT(swept.swept_versions, ElementsAre(failed));
  store_.reset();  // the hook goes with `fail`
}

TEST_F(StoreChangesTest, UsageOfAStepIsItsOwnAndItsParents) {
  RankContent content;
  content.tensors["bulk"] = BulkTensor(1);
  ASSERT_OK_AND_ASSIGN(const SaveResult first, Save(1, content));
  content.tensors["more"] = BulkTensor(2);
  ASSERT_OK_AND_ASSIGN(const SaveResult second, Save(2, content));
  ASSERT_OK_AND_ASSIGN(const Usage usage, store_->GetUsage());
  ASSERT_THAT(usage.steps, SizeIs(2));
  EXPECT_EQ(usage.steps[0].version, first.version);
  EXPECT_GE(usage.steps[0].exclusive_bytes, first.exclusive_bytes);
  EXPECT_EQ(usage.steps[0].borrowed_bytes, 0u);
  EXPECT_EQ(usage.steps[1].version, second.version);
  EXPECT_GE(usage.steps[1].exclusive_bytes, second.exclusive_bytes);
  EXPECT_GE(usage.steps[1].borrowed_bytes, second.borrowed_bytes);
  EXPECT_GT(second.borrowed_bytes, uint64_t{9} << 20);
  EXPECT_GE(usage.disk_bytes, first.exclusive_bytes + second.exclusive_bytes);
  EXPECT_GT(usage.available_bytes, 0u);
  ASSERT_OK(store_->Delete(1));
  ASSERT_OK_AND_ASSIGN(const Usage after, store_->GetUsage());
  ASSERT_THAT(after.held_versions, SizeIs(1));
  EXPECT_EQ(after.held_versions[0].version, first.version);
  EXPECT_EQ(after.held_versions[0].reason, Usage::Held::Reason::kReferenced);
}

TEST_F(StoreChangesTest, PinnedStepIsNotDeleted) {
  ASSERT_OK(Save(1, SmallContent(1)));
  ASSERT_OK(store_->Pin(1));
  ASSERT_OK_AND_ASSIGN(const StepRecord pinned, store_->FindStep(1));
  EXPECT_TRUE(pinned.pinned);
  Reopen();
  EXPECT_THAT(store_->Delete(1),
              StatusIs(absl::StatusCode::kFailedPrecondition,
                       AllOf(HasSubstr("step 1"), HasSubstr("pinned"))));
  ExpectStep(1, {SmallContent(1)});
  ASSERT_OK(store_->Unpin(1));
  ASSERT_OK_AND_ASSIGN(const StepRecord unpinned, store_->FindStep(1));
  EXPECT_FALSE(unpinned.pinned);
  ASSERT_OK(store_->Delete(1));
}

TEST_F(StoreChangesTest, PinnedStepIsNotOverwritten) {
  ASSERT_OK(Save(1, SmallContent(1)));
  ASSERT_OK(store_->Pin(1));
  EXPECT_THAT(Overwrite(1, SmallContent(2)),
              StatusIs(absl::StatusCode::kFailedPrecondition,
                       AllOf(HasSubstr("step 1"), HasSubstr("pinned"))));
  ExpectStep(1, {SmallContent(1)});
}

TEST_F(StoreChangesTest, StepThatRetiresItselfIsRefused) {
  ASSERT_OK(Save(1, SmallContent(1)));
  EXPECT_THAT(
      Overwrite(1, SmallContent(2), {.retire = {1}}),
      StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("step 1")));
  EXPECT_THAT(
      Save(2, SmallContent(2), {.retire = {2}}),
      StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("step 2")));
  ExpectStep(1, {SmallContent(1)});
}

TEST_F(StoreChangesTest, PinAndUnpinTwiceIsOnce) {
  ASSERT_OK(Save(1, SmallContent(1)));
  ASSERT_OK(store_->Pin(1));
  ASSERT_OK(store_->Pin(1));
  ASSERT_OK(store_->Unpin(1));
  ASSERT_OK(store_->Unpin(1));
  ASSERT_OK(store_->Delete(1));
}

TEST_F(StoreChangesTest, ChangesOfUnknownStepsAreNotFound) {
  ASSERT_OK(Save(1, SmallContent(1)));
  const auto not_found =
      StatusIs(absl::StatusCode::kNotFound, HasSubstr("step 2"));
  EXPECT_THAT(store_->Delete(2), not_found);
  EXPECT_THAT(store_->Pin(2), not_found);
  EXPECT_THAT(store_->Unpin(2), not_found);
  EXPECT_THAT(store_->Quarantine(2), not_found);
}

TEST_F(StoreChangesTest, LatestSkipsQuarantinedSteps) {
  for (const int64_t step : {1, 2, 3}) ASSERT_OK(Save(step, SmallContent(1)));
  ASSERT_OK(store_->Quarantine(3));
  EXPECT_EQ(Latest(), 2);
  EXPECT_THAT(ListSteps(), ElementsAre(1, 2, 3));
  ASSERT_OK_AND_ASSIGN(const StepRecord record, store_->FindStep(3));
  EXPECT_TRUE(record.quarantined);
  ExpectStep(3, {SmallContent(1)});
  ASSERT_OK(store_->Quarantine(1));
  ASSERT_OK(store_->Quarantine(2));
  Reopen();
  EXPECT_THAT(store_->Latest(),
              StatusIs(absl::StatusCode::kDataLoss, HasSubstr("quarantined")));
  ASSERT_OK(store_->Delete(3));
}

TEST_F(StoreChangesTest, FlagsDoNotTouchTheRestOfTheRecord) {
  ASSERT_OK(Save(1, SmallContent(1), {.metrics = {{"auc", 0.5}}}));
  ASSERT_OK_AND_ASSIGN(StepRecord expected, store_->FindStep(1));
  ASSERT_OK(store_->Pin(1));
  ASSERT_OK(store_->Quarantine(1));
  expected.pinned = true;
  expected.quarantined = true;
  Reopen();
  ASSERT_OK_AND_ASSIGN(const StepRecord record, store_->FindStep(1));
  EXPECT_EQ(record, expected);
}

TEST_F(StoreChangesTest, MetricsMayComeLate) {
  ASSERT_OK(Save(1, SmallContent(1), {.metrics = {{"auc", 0.5}, {"loss", 1}}}));
  ASSERT_OK(store_->AddMetrics(1, {{"auc", 0.75}, {"recall", 0.25}}));
  Reopen();
  ASSERT_OK_AND_ASSIGN(const StepRecord record, store_->FindStep(1));
  EXPECT_EQ(record.metrics,
            (Metrics{{"auc", 0.75}, {"loss", 1}, {"recall", 0.25}}));
  EXPECT_THAT(
      store_->AddMetrics(1, {{"", 1}}),
      StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("metric name")));
  Metrics many;
  for (size_t i = 0; i < kMaxMetrics; ++i) many[std::to_string(i)] = 1;
  EXPECT_THAT(store_->AddMetrics(1, many),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("4099 metrics; the limit is 4096")));
  EXPECT_THAT(store_->AddMetrics(2, {}),
              StatusIs(absl::StatusCode::kNotFound, HasSubstr("no step 2")));
  ExpectStep(1, {SmallContent(1)});
}

// Beside saves and folds, which write the record that has it.
TEST_F(StoreChangesTest, MetadataOfTheStoreIsReplaced) {
  EXPECT_THAT(store_->user_metadata(), IsEmpty());
  const UserMetadata first = {{"run", "a"}, {"raw", std::string("\0\xff", 2)}};
  ASSERT_OK(store_->SetUserMetadata(first));
  ASSERT_OK(Save(5, SmallContent(1)));
  EXPECT_EQ(store_->user_metadata(), first);
  Reopen();
  EXPECT_EQ(store_->user_metadata(), first);
  ExpectStep(5, {SmallContent(1)});
  const UserMetadata second = {{"run", "b"}};
  ASSERT_OK(store_->SetUserMetadata(second));
  EXPECT_THAT(
      store_->SetUserMetadata({{"", "no name"}}),
      StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("metadata name")));
  Reopen();
  EXPECT_EQ(store_->user_metadata(), second);
}

TEST_F(StoreChangesTest, EphemeralStepsBecomePermanent) {
  ASSERT_OK(Save(1, SmallContent(1), {.ephemeral = true}));
  ASSERT_OK(Save(2, SmallContent(2)));
  ASSERT_OK(store_->SetEphemeral(1, false));
  ASSERT_OK(store_->SetEphemeral(2, true));
  Reopen();
  ASSERT_OK_AND_ASSIGN(const StepRecord one, store_->FindStep(1));
  EXPECT_FALSE(one.ephemeral);
  ASSERT_OK_AND_ASSIGN(const StepRecord two, store_->FindStep(2));
  EXPECT_TRUE(two.ephemeral);
}

TEST_F(StoreChangesTest, RetiresWithTheCommit) {
  for (const int64_t step : {1, 2, 3}) {
    ASSERT_OK(Save(step, SmallContent(static_cast<uint64_t>(step))));
  }
  ASSERT_OK(Save(4, SmallContent(4), {.retire = {1, 3}}));
  EXPECT_THAT(ListSteps(), ElementsAre(2, 4));
  ASSERT_OK_AND_ASSIGN(const Store::SweepResult swept, store_->Sweep());
  EXPECT_THAT(swept.swept_versions, SizeIs(2));
  EXPECT_THAT(swept.quarantined_versions, IsEmpty());
  Reopen();
  EXPECT_THAT(ListSteps(), ElementsAre(2, 4));
  ExpectStep(2, {SmallContent(2)});
  ExpectStep(4, {SmallContent(4)});
}

TEST_F(StoreChangesTest, RetiringAnUnknownStepPublishesNothing) {
  ASSERT_OK(Save(1, SmallContent(1)));
  EXPECT_THAT(Save(2, BulkContent(2), {.retire = {1, 7}}),
              StatusIs(absl::StatusCode::kNotFound, HasSubstr("step 7")));
  EXPECT_THAT(ListSteps(), ElementsAre(1));
  Reopen();
  EXPECT_THAT(ListSteps(), ElementsAre(1));
  ExpectStep(1, {SmallContent(1)});
}

TEST_F(StoreChangesTest, RetiringAPinnedStepPublishesNothing) {
  ASSERT_OK(Save(1, SmallContent(1)));
  ASSERT_OK(Save(2, SmallContent(2)));
  ASSERT_OK(store_->Pin(2));
  EXPECT_THAT(Save(3, SmallContent(3), {.retire = {1, 2}}),
              StatusIs(absl::StatusCode::kFailedPrecondition,
                       AllOf(HasSubstr("step 2"), HasSubstr("pinned"))));
  EXPECT_THAT(ListSteps(), ElementsAre(1, 2));
}

TEST_F(StoreChangesTest, RetiringTheParentKeepsItsBytes) {
  RankContent content;
  content.tensors["bulk"] = BulkTensor(1);
  ASSERT_OK(Save(1, content));
  ASSERT_OK(Save(2, content, {.retire = {1}}));
  ASSERT_OK(store_->Sweep());
  Reopen();
  EXPECT_THAT(ListSteps(), ElementsAre(2));
  ExpectStep(2, {content});
}

TEST_F(StoreChangesTest, AbandonedSaveGoesWithTheSweep) {
  ASSERT_OK_AND_ASSIGN(const Store::Attempt save, store_->Begin({.step = 1}));
  const HeldState held(BulkContent(1));
  ASSERT_OK_AND_ASSIGN(const StagedRank staged,
                       Stage(path(), save.tickets.at(0), held.state()));
  ASSERT_OK(store_->Abandon(save.version));
  const auto not_found =
      StatusIs(absl::StatusCode::kNotFound, HasSubstr(ToString(save.version)));
  EXPECT_THAT(store_->Abandon(save.version), not_found);
  EXPECT_THAT(store_->Publish(save.version, {staged}), not_found);
  ASSERT_OK_AND_ASSIGN(const Store::SweepResult swept, store_->Sweep());
  EXPECT_THAT(swept.swept_versions, ElementsAre(save.version));
  ASSERT_OK_AND_ASSIGN(const Usage usage, store_->GetUsage());
  EXPECT_LT(usage.disk_bytes, uint64_t{9} << 20);
}

TEST_F(StoreChangesTest, PublishedSaveIsNotInProgress) {
  ASSERT_OK_AND_ASSIGN(const SaveResult result, Save(1, SmallContent(1)));
  EXPECT_THAT(store_->Abandon(result.version),
              StatusIs(absl::StatusCode::kNotFound,
                       HasSubstr(ToString(result.version))));
  ExpectStep(1, {SmallContent(1)});
}

TEST_F(StoreChangesTest, SpaceDoesNotGrowWithOverwrites) {
  uint64_t most = 0;
  for (uint64_t i = 0; i < 6; ++i) {
    ASSERT_OK(Overwrite(1, BulkContent(i)));
    ASSERT_OK(store_->Sweep());
    ASSERT_OK_AND_ASSIGN(const Usage usage, store_->GetUsage());
    most = std::max(most, usage.disk_bytes);
  }
  EXPECT_LT(most, uint64_t{2} * (uint64_t{9} << 20));
}

}  // namespace
}  // namespace ckptdb::testing
