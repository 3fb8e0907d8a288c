// SPDX-License-Identifier: Apache-2.0
// Overwriting, deleting, pinning, quarantining, retiring, sweeping.

#include <stdexcept>

#include "db/options.h"
#include "tests/db/store_fixture.h"

namespace ckptdb::testing {
namespace {

using StoreChangesTest = SweptFixture;

RankContent BadContent() {
  RankContent content = BulkContent(9);
  content.blobs[""] = "no name";
  return content;
}

TEST_F(StoreChangesTest, OverwriteReplacesOnceItIsCommitted) {
  ASSERT_OK_AND_ASSIGN(const SaveResult first, Overwrite(5, BulkContent(1)));
  const Store::Attempt save = Begin({.step = 5, .overwrite = true});
  EXPECT_NE(first.version, save.version);
  const auto staged = StageAll(save, {BulkContent(2)});
  EXPECT_THAT(Swept(), IsEmpty());
  ExpectStep(5, {BulkContent(1)});
  ASSERT_OK(store_->Publish(save.version, staged));
  EXPECT_THAT(ListSteps(), ElementsAre(5));
  ExpectStep(5, {BulkContent(2)});
  EXPECT_THAT(Swept(), ElementsAre(first.version));
  Reopen();
  ExpectStep(5, {BulkContent(2)});
}

TEST_F(StoreChangesTest, ExistingStepIsAlreadyExists) {
  const Store::Attempt first = Begin({.step = 5});
  const Store::Attempt second = Begin({.step = 5});
  EXPECT_NE(first.version, second.version);
  const auto staged1 = StageAll(first, {SmallContent(1)});
  const auto staged2 = StageAll(second, {SmallContent(2)});
  ASSERT_OK(store_->Publish(first.version, staged1));
  const auto exists = AlreadyExists("step 5", "set SaveSpec::overwrite");
  EXPECT_THAT(store_->Publish(second.version, staged2), exists);
  EXPECT_THAT(Save(5, SmallContent(2)), exists);
  EXPECT_THAT(store_->Begin({.step = 5}), exists);
  ExpectStep(5, {SmallContent(1)});
}

TEST_F(StoreChangesTest, FailedSaveLeavesWhatWasThere) {
  EXPECT_THAT(Save(5, BadContent()), InvalidArgument("name"));
  EXPECT_THAT(store_->Steps(), IsEmpty());
  ASSERT_OK(store_->Sweep());
  EXPECT_THAT(UsageNow().held_versions, IsEmpty());
  ASSERT_OK(Save(5, BulkContent(1)));
  EXPECT_THAT(Overwrite(5, BadContent()), InvalidArgument("name"));
  ExpectStep(5, {BulkContent(1)});
  ASSERT_OK(store_->Sweep());
  Reopen();
  ExpectStep(5, {BulkContent(1)});
}

TEST_F(StoreChangesTest, DeleteIsDurable) {
  ASSERT_OK(Save(1, SmallContent(1)));
  ASSERT_OK(Save(2, BulkContent(2)));
  DeleteSteps({1, 2});
  EXPECT_THAT(store_->OpenStep(1), NotFound("step 1"));
  for (const bool reopened : {false, true}) {
    if (reopened) Reopen();
    EXPECT_THAT(store_->Steps(), IsEmpty());
    EXPECT_THAT(store_->Delete(1), NotFound("step 1"));
  }
}

TEST_F(StoreChangesTest, SweepFreesTheBytesOfADeletedStep) {
  ASSERT_OK_AND_ASSIGN(const SaveResult first, Save(1, BulkContent(1)));
  ASSERT_OK(Save(2, BulkContent(2)));
  ASSERT_OK_AND_ASSIGN(const Store::SweepResult nothing, store_->Sweep());
  EXPECT_THAT(nothing.swept_versions, IsEmpty());
  EXPECT_EQ(nothing.freed_bytes, 0u);
  ASSERT_OK(store_->Delete(1));
  const Usage before = UsageNow();
  ASSERT_THAT(before.held_versions, SizeIs(1));
  EXPECT_EQ(before.held_versions[0].version, first.version);
  EXPECT_EQ(before.held_versions[0].reason, Usage::Held::Reason::kGarbage);
  EXPECT_GE(before.held_versions[0].stored_bytes, kBulkTensorBytes);
  ASSERT_OK_AND_ASSIGN(const Store::SweepResult swept, store_->Sweep());
  EXPECT_THAT(swept.swept_versions, ElementsAre(first.version));
  EXPECT_GE(swept.freed_bytes, kBulkTensorBytes);
  for (const Store::SweepResult& each : {nothing, swept})
    EXPECT_THAT(each.quarantined_versions, IsEmpty());
  EXPECT_OK(store_->sweep_status());
  EXPECT_THAT(UsageNow().held_versions, IsEmpty());
  EXPECT_LE(UsageNow().disk_bytes + kBulkTensorBytes, before.disk_bytes);
  ExpectStep(2, {BulkContent(2)});
}

TEST_F(StoreChangesTest, ACommitIsSweptInTheBackground) {
  PointCount sweeps(point::kSweepDone);
  options_.background_sweep = true;
  options_.on_point = sweeps.hook();
  Reopen();
  int count = 1;  // that of the opening
  ASSERT_TRUE(sweeps.WaitFor(count));
  ASSERT_OK(Save(1, BulkContent(1)));
  ASSERT_TRUE(sweeps.WaitFor(++count));
  ASSERT_OK(Overwrite(1, BulkContent(2)));
  while (!UsageNow().held_versions.empty()) {
    ASSERT_TRUE(sweeps.WaitFor(++count));
  }
  // One on demand comes to the same.
  ASSERT_OK(store_->Delete(1));
  ASSERT_OK(store_->Sweep());
  EXPECT_OK(store_->sweep_status());
  EXPECT_THAT(UsageNow().held_versions, IsEmpty());
  EXPECT_LT(UsageNow().disk_bytes, kBulkTensorBytes);
  store_.reset();
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
  EXPECT_THAT(store_->Begin({.step = 1}), Internal("drill"));
  fail = false;
  EXPECT_EQ(Begin({.step = 1}).version.attempt, 2U);  // the first is in the log
  const Version failed = {1, 1};
  EXPECT_THAT(store_->Abandon(failed), NotFound(ToString(failed)));
  EXPECT_THAT(Swept(), ElementsAre(failed));
  store_.reset();  // the hook goes with `fail`
}

TEST_F(StoreChangesTest, UsageOfAStepIsItsOwnAndItsParents) {
  RankContent content;
  content.tensors["bulk"] = BulkTensor(1);
  ASSERT_OK_AND_ASSIGN(const SaveResult first, Save(1, content));
  content.tensors["more"] = BulkTensor(2);
  ASSERT_OK_AND_ASSIGN(const SaveResult second, Save(2, content));
  const Usage usage = UsageNow();
  ASSERT_THAT(usage.steps, SizeIs(2));
  EXPECT_EQ(usage.steps[0].version, first.version);
  EXPECT_GE(usage.steps[0].exclusive_bytes, first.exclusive_bytes);
  EXPECT_EQ(usage.steps[0].borrowed_bytes, 0u);
  EXPECT_EQ(usage.steps[1].version, second.version);
  EXPECT_GE(usage.steps[1].exclusive_bytes, second.exclusive_bytes);
  EXPECT_GE(usage.steps[1].borrowed_bytes, second.borrowed_bytes);
  EXPECT_GT(second.borrowed_bytes, kBulkTensorBytes);
  EXPECT_GE(usage.disk_bytes, first.exclusive_bytes + second.exclusive_bytes);
  EXPECT_GT(usage.available_bytes, 0u);
  ASSERT_OK(store_->Delete(1));
  const Usage after = UsageNow();
  ASSERT_THAT(after.held_versions, SizeIs(1));
  EXPECT_EQ(after.held_versions[0].version, first.version);
  EXPECT_EQ(after.held_versions[0].reason, Usage::Held::Reason::kReferenced);
}

TEST_F(StoreChangesTest, PinnedStepIsNotDeletedOverwrittenOrRetired) {
  SaveSmall({1, 2});
  for (int twice = 0; twice < 2; ++twice) ASSERT_OK(store_->Pin(1));
  EXPECT_TRUE(Record(1).pinned);
  Reopen();
  const auto pinned = FailedPrecondition("step 1", "pinned");
  EXPECT_THAT(store_->Delete(1), pinned);
  EXPECT_THAT(Overwrite(1, SmallContent(9)), pinned);
  EXPECT_THAT(Save(3, SmallContent(3), {.retire = {2, 1}}), pinned);
  EXPECT_THAT(ListSteps(), ElementsAre(1, 2));
  ExpectSmall({1});
  for (int twice = 0; twice < 2; ++twice) ASSERT_OK(store_->Unpin(1));
  EXPECT_FALSE(Record(1).pinned);
  ASSERT_OK(store_->Delete(1));
}

TEST_F(StoreChangesTest, ChangesOfUnknownStepsAreNotFound) {
  SaveSmall({1});
  for (const absl::Status& status :
       {store_->Delete(2), store_->Pin(2), store_->Unpin(2),
        store_->Quarantine(2), store_->Unquarantine(2),
        store_->AddMetrics(2, {})}) {
    EXPECT_THAT(status, NotFound("no step 2"));
  }
}

TEST_F(StoreChangesTest, LatestSkipsQuarantinedSteps) {
  SaveSmall({1, 2, 3});
  ASSERT_OK(store_->Quarantine(3));
  EXPECT_EQ(LatestStep(), 2);
  EXPECT_THAT(ListSteps(), ElementsAre(1, 2, 3));
  EXPECT_TRUE(Record(3).quarantined);
  ExpectSmall({3});
  ASSERT_OK(store_->Quarantine(1));
  ASSERT_OK(store_->Quarantine(2));
  Reopen();
  EXPECT_THAT(store_->Latest(), DataLoss("quarantined"));
  ASSERT_OK(store_->Delete(3));
  ASSERT_OK(store_->Unquarantine(1));
  EXPECT_EQ(LatestStep(), 1);
  EXPECT_TRUE(Record(2).quarantined);
  Reopen();
  EXPECT_EQ(LatestStep(), 1);
}

TEST_F(StoreChangesTest, MetricsMayComeLate) {
  ASSERT_OK(Save(1, SmallContent(1), {.metrics = {{"auc", 0.5}, {"loss", 1}}}));
  ASSERT_OK(store_->AddMetrics(1, {{"auc", 0.75}, {"recall", 0.25}}));
  Reopen();
  EXPECT_EQ(Record(1).metrics,
            (Metrics{{"auc", 0.75}, {"loss", 1}, {"recall", 0.25}}));
  EXPECT_THAT(store_->AddMetrics(1, {{"", 1}}), InvalidArgument("metric name"));
  Metrics many;
  for (size_t i = 0; i < kMaxMetrics; ++i) many[std::to_string(i)] = 1;
  EXPECT_THAT(store_->AddMetrics(1, many),
              InvalidArgument("4099 metrics; the limit is 4096"));
  ExpectSmall({1});
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
  EXPECT_THAT(store_->SetUserMetadata({{"", "no name"}}),
              InvalidArgument("metadata name"));
  Reopen();
  EXPECT_EQ(store_->user_metadata(), second);
}

TEST_F(StoreChangesTest, FlagsDoNotTouchTheRestOfTheRecord) {
  ASSERT_OK(
      Save(1, SmallContent(1), {.metrics = {{"auc", 0.5}}, .ephemeral = true}));
  StepRecord expected = Record(1);
  SaveSmall({2});
  ASSERT_OK(store_->Pin(1));
  ASSERT_OK(store_->Quarantine(1));
  ASSERT_OK(store_->SetEphemeral(1, false));
  ASSERT_OK(store_->SetEphemeral(2, true));
  expected.pinned = true;
  expected.quarantined = true;
  expected.ephemeral = false;
  Reopen();
  EXPECT_EQ(Record(1), expected);
  EXPECT_TRUE(Record(2).ephemeral);
}

TEST_F(StoreChangesTest, RetiresWithTheCommitOrPublishesNothing) {
  SaveSmall({1, 2, 3});
  EXPECT_THAT(Save(4, BulkContent(2), {.retire = {1, 7}}), NotFound("step 7"));
  EXPECT_THAT(Save(4, SmallContent(2), {.retire = {4}}),
              InvalidArgument("step 4"));
  EXPECT_THAT(Overwrite(1, SmallContent(2), {.retire = {1}}),
              InvalidArgument("step 1"));
  Reopen();
  EXPECT_THAT(ListSteps(), ElementsAre(1, 2, 3));
  ExpectSmall({1});
  ASSERT_OK(store_->Sweep());
  ASSERT_OK(Save(4, SmallContent(4), {.retire = {1, 3}}));
  EXPECT_THAT(ListSteps(), ElementsAre(2, 4));
  ASSERT_OK_AND_ASSIGN(const Store::SweepResult swept, store_->Sweep());
  EXPECT_THAT(swept.swept_versions, SizeIs(2));
  EXPECT_THAT(swept.quarantined_versions, IsEmpty());
  Reopen();
  EXPECT_THAT(ListSteps(), ElementsAre(2, 4));
  ExpectSmall({2, 4});
}

TEST_F(StoreChangesTest, SweepKeepsASaveInProgressAlone) {
  const Store::Attempt published = Begin({.step = 1});
  const Store::Attempt abandoned = Begin({.step = 2});
  const Store::Attempt lost = Begin({.step = 3});
  const auto staged = StageAll(published, {BulkContent(1)});
  const auto staged2 = StageAll(abandoned, {BulkContent(2)});
  const auto staged3 = StageAll(lost, {BulkContent(3)});
  EXPECT_THAT(Swept(), IsEmpty());
  ASSERT_OK(store_->Publish(published.version, staged));
  ASSERT_OK(store_->Abandon(abandoned.version));
  for (const Version& version : {published.version, abandoned.version})
    EXPECT_THAT(store_->Abandon(version), NotFound(ToString(version)));
  EXPECT_THAT(store_->Publish(abandoned.version, staged2),
              NotFound(ToString(abandoned.version)));
  EXPECT_THAT(Swept(), ElementsAre(abandoned.version));
  Reopen();
  EXPECT_THAT(store_->Publish(lost.version, staged3),
              NotFound(ToString(lost.version)));
  EXPECT_THAT(Swept(), ElementsAre(lost.version));
  EXPECT_LT(UsageNow().disk_bytes, 2 * kBulkTensorBytes);
  ExpectStep(1, {BulkContent(1)});
}

TEST_F(StoreChangesTest, SpaceDoesNotGrowWithOverwrites) {
  for (uint64_t i = 0; i < 6; ++i) {
    ASSERT_OK(Overwrite(1, BulkContent(i)));
    ASSERT_OK(store_->Sweep());
    EXPECT_LT(UsageNow().disk_bytes, 2 * kBulkTensorBytes);
  }
}

}  // namespace
}  // namespace ckptdb::testing
