// SPDX-License-Identifier: Apache-2.0
// Delta saves of one rank: what a chain of runs comes to.

#include "tests/db/delta_fixture.h"

namespace ckptdb::testing {
namespace {

constexpr int64_t kMin = std::numeric_limits<int64_t>::min();
constexpr int64_t kMax = std::numeric_limits<int64_t>::max();

using DeltaTest = DeltaFixture;

TEST_F(DeltaTest, UpsertsAndErasuresOverABase) {
  content_ = UserContent({1, 2, 3, 4, 5});
  SaveNext(10);
  rows()[2] = RowOf(2, 1);
  rows()[6] = RowOf(6, 1);
  rows().erase(4);
  SaveNext(20);
  const StepRecord record = Record(20);
  const StepRecord base = Record(10);
  EXPECT_EQ(record.kind, StepRecord::Kind::kDelta);
  EXPECT_EQ(record.parent, base.version);
  EXPECT_THAT(record.chain, ElementsAre(base.version, record.version));
  const Item item = FindItem(20, "user");
  EXPECT_EQ(item.run, Item::Run::kDelta);
  EXPECT_EQ(item.rows, 2u);
  EXPECT_EQ(item.erased_rows, 1u);
  EXPECT_EQ(record.delta_bytes, item.stored_bytes);
  EXPECT_EQ(record.base_bytes, FindItem(10, "user").stored_bytes);
  ExpectHistory({4, 6});
  Reopen();
  ExpectHistory({4, 6});
}

// Ids of each sign and end, and some that differ only above the bits that
// their slice is of.
TEST_F(DeltaTest, ExtremeIds) {
  constexpr int64_t kFar = int64_t{1} << 40;
  const std::vector<int64_t> ids = {
      0,     1,     -1,     kMin, kMin + 1, kMax,  kMax - 1,
      65535, 65536, -65536, kFar, 3 * kFar, -kFar, (kFar << 22) | 7,
      7};
  for (const SliceHash hash : {SliceHash::kModulo, SliceHash::kMix}) {
    SCOPED_TRACE(hash == SliceHash::kMix ? "mix" : "modulo");
    const int64_t first = hash == SliceHash::kMix ? 1000 : 0;
    content_ = UserContent({}, hash);
    parent_.reset();
    history_.clear();
    SaveNext(first);
    int64_t step = first;
    for (const int64_t id : ids) {
      rows()[id] = RowOf(id, 1);
      SaveNext(++step);
    }
    for (const int64_t id : ids) {
      rows().erase(id);
      SaveNext(++step);
    }
    const std::set<int64_t> all(ids.begin(), ids.end());
    ExpectHistory(all);
    for (const int64_t id : ids) rows()[id] = RowOf(id, 2);
    SaveNext(++step);
    ExpectRows(step, content_, all);
  }
}

// A delta without a source of upserted rows has none.
TEST_F(DeltaTest, NoSourceOfUpsertedRows) {
  content_ = UserContent({1, 2, 3});
  SaveNext(1);
  const std::vector<int64_t> erased = {3};
  RankState::Table item{"user", content_.tables["user"].slots};
  item.changes = RankState::Changes{nullptr, erased};
  RankState state;
  state.AddTable(item);
  ASSERT_OK(store_->Save({.step = 2, .parent = parent_}, state));
  ExpectRows(2, UserContent({1, 2}), {3});
}

TEST_F(DeltaTest, FewRowsOrNone) {
  content_ = UserContent({});
  SaveNext(1);
  for (const int64_t id : {1, 2, -3}) rows()[id] = RowOf(id, 0);
  SaveNext(2);  // over an empty base
  SaveNext(3);  // no changes
  EXPECT_EQ(FindItem(3, "user").stored_bytes, 0u);
  rows().erase(2);
  rows().erase(-3);
  SaveNext(4);
  EXPECT_EQ(FindItem(4, "user").rows, 0u);
  EXPECT_EQ(FindItem(4, "user").erased_rows, 2u);
  SaveNext(5);
  rows()[2] = RowOf(2, 1);
  SaveNext(6);
  rows().clear();
  SaveNext(7);
  EXPECT_THAT(Scan(*store_->OpenStep(7).value(), "user").value(), IsEmpty());
  rows()[2] = RowOf(2, 0);  // as it was at first
  SaveNext(8);
  ExpectHistory({1, 2, -3});
  // What is erased need not be there.
  ASSERT_OK_AND_ASSIGN(
      const SaveResult erased,
      SaveDelta(9, *parent_, content_, {{"user", {{}, {7, -7, 65537}}}}));
  ExpectRows(9, content_, {7, -7, 65537});
  ASSERT_OK(SaveDelta(10, erased.version, content_, {{"user", {{}, {7}}}}));
  ExpectRows(10, content_, {7});
}

// Runs of many pages that overlap in each way.
TEST_F(DeltaTest, ManyPages) {
  std::mt19937_64 random(TestSeed());
  for (const SliceHash hash : {SliceHash::kModulo, SliceHash::kMix}) {
    const int64_t first = hash == SliceHash::kMix ? 1000 : 0;
    content_ = UserContent({}, hash);
    content_.tables["user"].slots = {{"wide", DType::kF32, 256},
                                     {"freq", DType::kI32, 1}};
    const uint64_t row_bytes = content_.tables["user"].row_bytes();
    rows() = RandomRows(&random, row_bytes, 4000);
    parent_.reset();
    history_.clear();
    SaveNext(first);
    for (int64_t step = first + 1; step < first + 6; ++step) {
      std::vector<int64_t> ids;
      for (const auto& [id, values] : rows()) ids.push_back(id);
      std::shuffle(ids.begin(), ids.end(), random);
      ids.resize(ids.size() / 2);
      for (size_t i = 0; i < ids.size(); ++i) {
        if (i % 5 == 0) rows().erase(ids[i]);
        if (i % 5 != 0) rows()[ids[i]] = RandomBytes(&random, row_bytes);
      }
      rows().merge(RandomRows(&random, row_bytes, 500));
      SaveNext(step);
    }
    for (const auto& [step, content] : history_) ExpectStep(step, {content});
  }
}

TEST_F(DeltaTest, ScansOfSomeSlotsOfAChain) {
  std::mt19937_64 random(TestSeed());
  content_ = UserContent({});
  rows() = RandomRows(&random, 20, 5000);
  SaveNext(1);
  for (int64_t step = 2; step < 6; ++step) {
    for (const int64_t id : RandomIds(&random, 300)) rows().erase(id);
    for (auto& [id, values] : RandomRows(&random, 20, 700)) rows()[id] = values;
    SaveNext(step);
  }
  ASSERT_OK_AND_ASSIGN(const auto reader, store_->OpenStep(5));
  const TableContent& table = content_.tables["user"];
  for (const std::vector<std::string>& slots :
       {std::vector<std::string>{"freq"}, {"freq", "embedding"}}) {
    EXPECT_TRUE(Scan(*reader, "user", {.slots = slots}).value() ==
                Project(table, slots));
  }
  EXPECT_TRUE(Scan(*reader, "user", {.ids_only = true}).value() ==
              Project(table, {}));
}

TEST_F(DeltaTest, RestoreIntoALiveTable) {
  content_ = UserContent({1, 2, 3});
  SaveNext(1);
  rows().erase(2);
  rows()[4] = RowOf(4, 1);
  SaveNext(2);
  ASSERT_OK_AND_ASSIGN(const auto reader, store_->OpenStep(2));
  const std::vector<Slot>& slots = content_.tables["user"].slots;
  const Rows other = {{2, RowOf(2, 9)}, {99, RowOf(99, 9)}};
  constexpr auto kClear = LiveTable::RestoreMode::kClear;
  LiveRows live(slots, other);
  // Nothing is cleared by a call that is refused.
  EXPECT_THAT(
      reader->RestoreTable("user", kClear, {.slots = {"momentum"}}, &live),
      NotFound("momentum"));
  EXPECT_THAT(reader->RestoreTable("user", kClear, {.slices = {7, 6}}, &live),
              InvalidArgument("7"));
  EXPECT_THAT(reader->RestoreTable("item", kClear, {}, &live),
              NotFound("item"));
  EXPECT_FALSE(live.cleared());
  ASSERT_OK(reader->RestoreTable("user", kClear, {}, &live));
  EXPECT_TRUE(live.rows() == rows());
  LiveRows merged(slots, other);
  ASSERT_OK(reader->RestoreTable("user", LiveTable::RestoreMode::kMerge, {},
                                 &merged));
  Rows both = rows();
  both.insert(other.begin(), other.end());
  EXPECT_TRUE(merged.rows() == both);
}

TEST_F(DeltaTest, CodecOfASlotMayChange) {
  content_ = UserContent({1, 2, 3});
  SaveNext(1);
  content_.tables["user"].slots[0].codec = Codec::kLz4;
  rows()[2] = std::string(20, '\0');
  SaveNext(2);
  content_.tables["user"].slots[0].codec = Codec::kShuffleLz4;
  rows()[3] = std::string(20, '\1');
  SaveNext(3);
  ExpectHistory();
}

}  // namespace
}  // namespace ckptdb::testing
