// SPDX-License-Identifier: Apache-2.0
// Chains whose versions were saved by different numbers of ranks, read by any
// other.

#include "tests/db/delta_fixture.h"

namespace ckptdb::testing {
namespace {

class DeltaWorldTest : public DeltaFixture {
 protected:
  // Which of `world` ranks has an id: by slice, or by the trainer's own rule.
  static size_t Owner(int64_t id, uint32_t world, bool bounded,
                      SliceHash hash) {
    if (!bounded) return static_cast<uint64_t>(id) % world;
    const std::vector<uint32_t> bounds = EvenSliceBounds(world);
    return static_cast<size_t>(std::distance(
               bounds.begin(), std::upper_bound(bounds.begin(), bounds.end(),
                                                SliceOf(id, hash)))) -
           1;
  }
  // The changes since the last save, by the ranks of a world; the first save
  // is whole.
  void SaveWorld(int64_t step, uint32_t world, bool bounded) {
    const TableContent& table = content_.tables["user"];
    const TableDelta changes =
        DeltaBetween(saved_.tables["user"].rows, table.rows);
    std::vector<RankContent> ranks(world, UserContent({}, table.hash));
    std::vector<Deltas> deltas(world);
    const auto owner = [&](int64_t id) {
      return Owner(id, world, bounded, table.hash);
    };
    for (Deltas& delta : deltas) delta["user"];
    for (const auto& [id, values] : table.rows)
      ranks[owner(id)].tables["user"].rows[id] = values;
    for (const auto& [id, values] : changes.upserted)
      deltas[owner(id)]["user"].upserted[id] = values;
    for (const int64_t id : changes.erased)
      deltas[owner(id)]["user"].erased.push_back(id);
    SaveSpec spec{.step = step, .world_size = world, .parent = parent_};
    if (bounded) spec.slice_bounds = EvenSliceBounds(world);
    if (!parent_.has_value()) deltas.clear();
    ASSERT_OK_AND_ASSIGN(const SaveResult saved,
                         SaveRanks(spec, ranks, deltas));
    parent_ = saved.version;
    saved_ = content_;
  }
  void Change(std::mt19937_64* random, size_t count) {
    for (const int64_t id : RandomIds(random, count))
      rows()[id] = RandomBytes(random, 20);
    for (const int64_t id : RandomIds(random, count)) rows().erase(id);
  }
  // Row by row, and by each of these numbers of ranks.
  void ExpectRead(int64_t step, const std::vector<uint32_t>& worlds) {
    ExpectRows(step);
    for (const uint32_t world : worlds) ExpectReadBySlices(step, world);
  }
  void ExpectReadBySlices(int64_t step, uint32_t world) {
    ASSERT_OK_AND_ASSIGN(const auto reader, store_->OpenStep(step));
    const TableContent& table = content_.tables["user"];
    const std::vector<uint32_t> bounds = EvenSliceBounds(world);
    for (uint32_t rank = 0; rank < world; ++rank) {
      ScanOptions options{.slices = {bounds[rank], bounds[rank + 1]}};
      Rows expected;
      for (const auto& [id, values] : table.rows) {
        if (options.slices.Contains(SliceOf(id, table.hash)))
          expected[id] = values;
      }
      ASSERT_OK_AND_ASSIGN(const Rows read, Scan(*reader, "user", options));
      EXPECT_TRUE(read == expected) << "rank " << rank << " of " << world;
    }
  }
  // Whole, and each row by itself; absent ones too.
  void ExpectRows(int64_t step) {
    ASSERT_OK_AND_ASSIGN(const auto reader, store_->OpenStep(step));
    EXPECT_OK(reader->Verify());
    const TableContent& table = content_.tables["user"];
    std::set<int64_t> ids;
    for (const auto& [id, values] : table.rows) ids.insert(id);
    for (int64_t id = -50; id < 50; ++id) ids.insert(id);
    ExpectLookups(*reader, "user", table, ids);
  }
};

// Two ranks over four, over one, over three; read by three.
TEST_F(DeltaWorldTest, EveryWorldOverEveryOther) {
  std::mt19937_64 random(TestSeed());
  int64_t step = 0;
  for (const SliceHash hash : {SliceHash::kModulo, SliceHash::kMix}) {
    for (const bool first_bounded : {true, false}) {
      content_ = UserContent({}, hash);
      saved_ = {};
      parent_.reset();
      Change(&random, 300);
      SaveWorld(++step, 4, first_bounded);
      bool bounded = true;
      for (const uint32_t world : {2u, 2u, 1u, 5u, 3u}) {
        SCOPED_TRACE(absl::StrCat("step ", step + 1, ", ", world, " ranks"));
        Change(&random, 100);
        SaveWorld(++step, world, bounded);
        bounded = !bounded;
        ExpectRead(step, {1, 3, 8});
      }
    }
  }
}

// Its old rank says that it is gone, its new one that it is there, in one
// version; whichever rank comes first.
TEST_F(DeltaWorldTest, ARowMovesToAnotherRank) {
  const std::vector<RankContent> ranks = {UserContent({1, 2}),
                                          UserContent({3, 4})};
  SaveSpec spec{.step = 1, .world_size = 2};
  spec.parent = SaveRanks(spec, ranks).value().version;
  content_ = UserContent({1, 2, 3, 4});
  const auto save = [&](const TableDelta& zero, const TableDelta& one) {
    ++spec.step;
    spec.parent = SaveRanks(spec, ranks, {{{"user", zero}}, {{"user", one}}})
                      .value()
                      .version;
    ExpectRead(spec.step, {3});
  };
  rows()[1] = RowOf(1, 1);
  rows()[3] = RowOf(3, 1);
  save({{{3, RowOf(3, 1)}}, {1}}, {{{1, RowOf(1, 1)}}, {3}});
  // Back, in a later version.
  rows()[1] = RowOf(1, 2);
  rows()[3] = RowOf(3, 2);
  save({{{1, RowOf(1, 2)}}, {3}}, {{{3, RowOf(3, 2)}}, {1}});
  // Gone from both.
  rows().erase(1);
  rows().erase(3);
  save({{}, {1}}, {{}, {1, 3}});
}

TEST_F(DeltaWorldTest, ARankWithoutTheTableOrWithoutChanges) {
  SaveSpec spec{.step = 1, .world_size = 2};
  spec.parent = SaveRanks(spec, {UserContent({1, 2}), {}}).value().version;
  spec.step = 2;
  EXPECT_THAT(
      SaveRanks(spec, {UserContent({}), UserContent({3})}, {{{"user", {}}}}),
      InvalidArgument("\"user\" of ranks 0 and 1", "rank 1 saved all rows",
                      "no changes were given"));
  EXPECT_THAT(ListSteps(), ElementsAre(1));
  ASSERT_OK(SaveRanks(spec, {{}, UserContent({3})},
                      {{}, {{"user", {{{3, RowOf(3, 1)}}, {1}}}}}));
  content_ = UserContent({2});
  rows()[3] = RowOf(3, 1);
  ExpectRead(2, {3});
}

// Slices of which a rank has none.
TEST_F(DeltaWorldTest, EmptySliceRanges) {
  const std::vector<uint32_t> bounds = {0, 0, kSlices, kSlices};
  ASSERT_OK_AND_ASSIGN(
      const SaveResult base,
      SaveRanks({.step = 1, .world_size = 3, .slice_bounds = bounds},
                {UserContent({}), UserContent({1, -1, 5}), UserContent({})}));
  std::vector<Deltas> deltas(2);
  deltas[0]["user"] = {{{7, RowOf(7, 1)}}, {5}};
  deltas[1]["user"];
  ASSERT_OK(SaveRanks({.step = 2,
                       .world_size = 2,
                       .slice_bounds = {0, kSlices, kSlices},
                       .parent = base.version},
                      {UserContent({}), UserContent({})}, deltas));
  content_ = UserContent({1, -1});
  rows()[7] = RowOf(7, 1);
  ExpectRead(2, {4});
}

}  // namespace
}  // namespace ckptdb::testing
