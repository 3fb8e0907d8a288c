// SPDX-License-Identifier: Apache-2.0
// What a scan would read, from the records alone.

#include "tests/db/delta_fixture.h"

namespace ckptdb::testing {
namespace {

class EstimateTest : public DeltaFixture {
 protected:
  // Four ids of each of two ranks in step 1, then two changes of one of each.
  void SaveTwo() {
    spec_ = {.step = 1, .world_size = 2};
    spec_.slice_bounds = EvenSliceBounds(2);
    ASSERT_OK_AND_ASSIGN(const SaveResult base, SaveRanks(spec_, Ranks()));
    versions_.push_back(base.version);
    for (const int64_t step : {2, 3}) {
      std::vector<Deltas> deltas(2);
      deltas[0]["user"] = {{{1, RowOf(1, 2)}}, {2}};
      deltas[1]["user"] = {{{40001, RowOf(40001, 2)}}, {}};
      spec_.step = step;
      spec_.parent = versions_.back();
      ASSERT_OK_AND_ASSIGN(const SaveResult saved,
                           SaveRanks(spec_, Ranks(), deltas));
      versions_.push_back(saved.version);
    }
  }
  static std::vector<RankContent> Ranks() {
    return {UserContent({1, 2, 3, 4}),
            UserContent({40001, 40002, 40003, 40004})};
  }
  uint64_t StoredBytes(int64_t step, uint32_t rank) {
    return FindItem(step, "user", rank).stored_bytes;
  }
  SaveSpec spec_;
  std::vector<Version> versions_;
};

TEST_F(EstimateTest, SlicesOfARankAddUpItsRuns) {
  SaveTwo();
  ASSERT_OK_AND_ASSIGN(const auto step, store_->OpenStep(3));
  for (const uint32_t rank : {0u, 1u}) {
    const SliceRange slices = {rank * 32768, (rank + 1) * 32768};
    ASSERT_OK_AND_ASSIGN(const StepReader::ScanEstimate read,
                         step->EstimateScan("user", slices));
    EXPECT_EQ(read.base_runs, 1u);
    EXPECT_EQ(read.delta_runs, 2u);
    EXPECT_EQ(read.rows, 4u + 1 + 1);
    EXPECT_EQ(read.max_rows, 4u + 1 + 1);
    EXPECT_EQ(read.erased_rows, rank == 0 ? 2u : 0u);
    EXPECT_EQ(read.stored_bytes, StoredBytes(1, rank) + StoredBytes(2, rank) +
                                     StoredBytes(3, rank));
  }
}

TEST_F(EstimateTest, ChangesCountTheDeltasBetween) {
  SaveTwo();
  ASSERT_OK_AND_ASSIGN(
      const StepReader::ScanEstimate read,
      store_->OpenChanges(versions_[1], 3).value()->EstimateScan("user", {}));
  EXPECT_EQ(read.base_runs, 0u);
  EXPECT_EQ(read.delta_runs, 2u);
  EXPECT_EQ(read.rows, 2u);
  EXPECT_EQ(read.erased_rows, 1u);
  EXPECT_EQ(read.stored_bytes, StoredBytes(3, 0) + StoredBytes(3, 1));
}

TEST_F(EstimateTest, OtherSlicesCountAnEvenShare) {
  SaveTwo();
  ASSERT_OK_AND_ASSIGN(const auto step, store_->OpenStep(1));
  const auto estimate = [&](const SliceRange& slices) {
    return step->EstimateScan("user", slices).value();
  };
  const StepReader::ScanEstimate half = estimate({0, 16384});
  EXPECT_EQ(half.base_runs, 1u);
  EXPECT_EQ(half.rows, 2u);
  EXPECT_EQ(half.max_rows, 4u);
  EXPECT_EQ(half.stored_bytes, StoredBytes(1, 0) / 2);
  EXPECT_EQ(estimate({16384, 49152}).base_runs, 2u);
  EXPECT_EQ(estimate({16384, 49152}).max_rows, 8u);
  EXPECT_EQ(estimate({7, 7}).base_runs, 0u);
  EXPECT_EQ(estimate({7, 7}).stored_bytes, 0u);
  // The errors are those of a scan.
  EXPECT_THAT(step->EstimateScan("item", {}), NotFound("\"item\""));
  EXPECT_THAT(step->EstimateScan("user", {9, 8}), InvalidArgument("9"));
  ASSERT_OK_AND_ASSIGN(const auto changes,
                       store_->OpenChanges(versions_[0], 3));
  EXPECT_THAT(changes->EstimateScan("item", {}), NotFound("\"item\""));
  EXPECT_THAT(changes->EstimateScan("user", {0, 65537}),
              InvalidArgument("65537"));
}

}  // namespace
}  // namespace ckptdb::testing
