// SPDX-License-Identifier: Apache-2.0
// Records are checked before they are written: what a store was given, it can
// be opened with.

#include "db/meta/lease.h"
#include "schema/records/records.h"
#include "schema/types.h"
#include "tests/db/delta_fixture.h"

namespace ckptdb::testing {
namespace {

class RecordLimitsTest : public DeltaFixture {};

Metrics NamedMetrics(const std::string& prefix, size_t count) {
  Metrics metrics;
  for (size_t i = 0; i < count; ++i) metrics[prefix + std::to_string(i)] = 1;
  return metrics;
}

TEST_F(RecordLimitsTest, MetricsOfTwoThreadsStayBelowTheLimit) {
  constexpr int kRounds = 5;
  constexpr size_t kCount = 3000;
  for (int64_t step = 0; step < kRounds; ++step) {
    ASSERT_OK(Save(step, SmallContent(1)));
    absl::Status a;
    std::thread other(
        [&] { a = store_->AddMetrics(step, NamedMetrics("a", kCount)); });
    const absl::Status b = store_->AddMetrics(step, NamedMetrics("b", kCount));
    other.join();
    EXPECT_NE(a.ok(), b.ok());
    EXPECT_THAT(a.ok() ? b : a, InvalidArgument(std::to_string(2 * kCount),
                                                std::to_string(kMaxMetrics)));
  }
  Reopen();
  for (const StepRecord& record : store_->Steps())
    EXPECT_THAT(record.metrics, SizeIs(kCount));
}

TEST_F(RecordLimitsTest, MetricsUpToTheLimit) {
  ASSERT_OK(Save(1, SmallContent(1), {.metrics = {{"first", 1}}}));
  EXPECT_THAT(store_->AddMetrics(1, {{"\xff", 1}}), InvalidArgument("UTF-8"));
  EXPECT_OK(store_->AddMetrics(1, NamedMetrics("m", kMaxMetrics - 1)));
  EXPECT_OK(store_->AddMetrics(1, {{"first", 2}}));
  EXPECT_THAT(store_->AddMetrics(1, {{"another", 1}}),
              InvalidArgument(std::to_string(kMaxMetrics + 1)));
  Reopen();
  EXPECT_THAT(Record(1).metrics, SizeIs(kMaxMetrics));
  EXPECT_EQ(Record(1).metrics.at("first"), 2);
}

// Its tensors are in the version that it was folded from, which it needs for
// that as well as for its delta runs.
TEST_F(RecordLimitsTest, LeaseOnAFoldedStepHoldsIt) {
  content_ = UserContent({1, 2, 3});
  content_.tensors["w"] = BulkTensor(1);
  SaveNext(1);
  rows()[2] = RowOf(2, 1);
  content_.tensors["w"] = BulkTensor(2);
  SaveNext(2);
  ASSERT_OK_AND_ASSIGN(const Store::FoldResult folded, store_->Fold(2));
  ASSERT_TRUE(folded.folded);
  ASSERT_OK_AND_ASSIGN(const auto reader, Reader::Open(path()));
  ASSERT_OK_AND_ASSIGN(auto step, reader->OpenStep(2));
  ASSERT_OK_AND_ASSIGN(
      const std::vector<Lease> leases,
      internal::ReadLeases(rocksdb::FileSystem::Default().get(), path(), 0,
                           /*remove_expired=*/false));
  EXPECT_THAT(leases, SizeIs(1));
  DeleteSteps({2, 1});
  for (int i = 0; i < 2; ++i) ASSERT_OK(store_->Sweep());
  EXPECT_THAT(
      UsageNow().held_versions,
      Contains(::testing::Field(&Usage::Held::version, folded.version)));
  ExpectHolds(*step, {content_});
  step.reset();
  ASSERT_OK(store_->Sweep());
  EXPECT_THAT(store_->GetUsage().value().held_versions, IsEmpty());
}

}  // namespace
}  // namespace ckptdb::testing
