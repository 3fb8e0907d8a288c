// SPDX-License-Identifier: Apache-2.0
// Delta saves of one rank: what a chain of runs comes to.
#include <gmock/gmock.h>

#include <algorithm>
#include <limits>

#include "tests/db/delta_fixture.h"
#include "tests/support/seed.h"

namespace ckptdb::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr int64_t kMin = std::numeric_limits<int64_t>::min();
constexpr int64_t kMax = std::numeric_limits<int64_t>::max();

class DeltaTest : public DeltaFixture {};

TEST_F(DeltaTest, UpsertsAndErasuresOverABase) {
  content_ = UserContent({1, 2, 3, 4, 5});
  SaveNext(10);
  rows()[2] = RowOf(2, 1);
  rows()[6] = RowOf(6, 1);
  rows().erase(4);
  SaveNext(20);
  ASSERT_OK_AND_ASSIGN(const StepRecord record, store_->FindStep(20));
  ASSERT_OK_AND_ASSIGN(const StepRecord base, store_->FindStep(10));
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
  const std::vector<int64_t> ids = {0,
                                    1,
                                    -1,
                                    kMin,
                                    kMin + 1,
                                    kMax,
                                    kMax - 1,
                                    65535,
                                    65536,
                                    -65536,
                                    int64_t{1} << 16,
                                    int64_t{1} << 40,
                                    int64_t{3} << 40,
                                    -(int64_t{1} << 40),
                                    (int64_t{1} << 62) | 7,
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

TEST_F(DeltaTest, EmptyDelta) {
  content_ = UserContent({1, 2});
  SaveNext(1);
  SaveNext(2);
  rows()[3] = RowOf(3, 1);
  SaveNext(3);
  SaveNext(4);
  EXPECT_EQ(FindItem(4, "user").stored_bytes, 0u);
  ExpectHistory({3, 4});
}

TEST_F(DeltaTest, DeltaOverAnEmptyBase) {
  content_ = UserContent({});
  SaveNext(1);
  rows()[-3] = RowOf(-3, 1);
  SaveNext(2);
  rows().clear();
  SaveNext(3);
  ExpectHistory({-3});
}

TEST_F(DeltaTest, OnlyErasures) {
  content_ = UserContent({1, 2, 3, -4});
  SaveNext(1);
  rows().erase(2);
  rows().erase(-4);
  SaveNext(2);
  EXPECT_EQ(FindItem(2, "user").rows, 0u);
  EXPECT_EQ(FindItem(2, "user").erased_rows, 2u);
  rows().clear();
  SaveNext(3);
  ExpectHistory({2, -4});
  ASSERT_OK_AND_ASSIGN(const auto reader, store_->OpenStep(3));
  ASSERT_OK_AND_ASSIGN(const Rows none, Scan(*reader, "user"));
  EXPECT_THAT(none, IsEmpty());
}

// A delta without a source of upserted rows has none.
TEST_F(DeltaTest, NoSourceOfUpsertedRows) {
  content_ = UserContent({1, 2, 3});
  SaveNext(1);
  const std::vector<int64_t> erased = {3};
  RankState state;
  RankState::Table item;
  item.name = "user";
  item.slots = content_.tables["user"].slots;
  item.changes = RankState::Changes{nullptr, erased};
  state.AddTable(item);
  ASSERT_OK(store_->Save({.step = 2, .parent = parent_}, state));
  ExpectRows(2, UserContent({1, 2}), {3});
}

TEST_F(DeltaTest, ErasesWhatIsNotThere) {
  content_ = UserContent({1, 2});
  SaveNext(1);
  ASSERT_OK_AND_ASSIGN(
      const SaveResult second,
      SaveDelta(2, *parent_, content_, {{"user", {{}, {7, -7, 65537}}}}));
  ExpectRows(2, content_, {7, -7, 65537});
  ASSERT_OK(SaveDelta(3, second.version, content_, {{"user", {{}, {7}}}}));
  ExpectRows(3, content_, {7});
}

TEST_F(DeltaTest, ReinsertAfterErase) {
  content_ = UserContent({1, 2, 3});
  SaveNext(1);
  rows().erase(2);
  SaveNext(2);
  SaveNext(3);
  rows()[2] = RowOf(2, 1);
  SaveNext(4);
  rows().erase(2);
  SaveNext(5);
  rows()[2] = RowOf(2, 0);  // as it was at first
  SaveNext(6);
  ExpectHistory({2});
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

TEST_F(DeltaTest, ScansOfPartsOfAChain) {
  std::mt19937_64 random(TestSeed());
  content_ = UserContent({});
  rows() = RandomRows(&random, 20, 5000);
  SaveNext(1);
  for (int64_t step = 2; step < 6; ++step) {
    const std::vector<int64_t> gone = RandomIds(&random, 300);
    for (const int64_t id : gone) rows().erase(id);
    for (auto& [id, values] : RandomRows(&random, 20, 700)) rows()[id] = values;
    SaveNext(step);
  }
  ASSERT_OK_AND_ASSIGN(const auto reader, store_->OpenStep(5));
  const TableContent& table = content_.tables["user"];
  for (const std::vector<std::string>& slots :
       {std::vector<std::string>{"freq"}, {"freq", "embedding"}}) {
    ScanOptions options;
    options.slots = slots;
    ASSERT_OK_AND_ASSIGN(const Rows read, Scan(*reader, "user", options));
    EXPECT_TRUE(read == Project(table, slots));
  }
  ScanOptions ids;
  ids.ids_only = true;
  ASSERT_OK_AND_ASSIGN(const Rows read, Scan(*reader, "user", ids));
  EXPECT_TRUE(read == Project(table, {}));
  for (const uint32_t parts : {2u, 3u, 50u}) {
    Rows all;
    size_t sum = 0;
    const std::vector<uint32_t> bounds = EvenSliceBounds(parts);
    for (uint32_t part = 0; part < parts; ++part) {
      ScanOptions options;
      options.slices = {bounds[part], bounds[part + 1]};
      options.read.threads = 1 + static_cast<int>(part % 5);
      ASSERT_OK_AND_ASSIGN(const Rows some, Scan(*reader, "user", options));
      all.insert(some.begin(), some.end());
      sum += some.size();
    }
    EXPECT_TRUE(all == table.rows);
    EXPECT_EQ(sum, all.size());
  }
  for (const uint64_t world : {2u, 7u}) {
    for (uint64_t rank = 0; rank < world; ++rank) {
      ScanOptions options;
      options.wanted = [&](int64_t id) {
        return static_cast<uint64_t>(id) % world == rank;
      };
      Rows expected;
      for (const auto& [id, values] : table.rows) {
        if (options.wanted(id)) expected[id] = values;
      }
      ASSERT_OK_AND_ASSIGN(const Rows some, Scan(*reader, "user", options));
      EXPECT_TRUE(some == expected);
    }
  }
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
  LiveRows cleared(slots, other);
  ASSERT_OK(reader->RestoreTable("user", LiveTable::RestoreMode::kClear, {},
                                 &cleared));
  EXPECT_TRUE(cleared.rows() == rows());
  LiveRows merged(slots, other);
  ASSERT_OK(reader->RestoreTable("user", LiveTable::RestoreMode::kMerge, {},
                                 &merged));
  Rows both = other;
  for (const auto& [id, values] : rows()) both[id] = values;
  EXPECT_TRUE(merged.rows() == both);
}

// Nothing is cleared by a call that is refused.
TEST_F(DeltaTest, RefusedRestoreLeavesTheLiveTable) {
  content_ = UserContent({1});
  SaveNext(1);
  ASSERT_OK_AND_ASSIGN(const auto reader, store_->OpenStep(1));
  LiveRows live(content_.tables["user"].slots, rows());
  ScanOptions slot;
  slot.slots = {"momentum"};
  EXPECT_THAT(
      reader->RestoreTable("user", LiveTable::RestoreMode::kClear, slot, &live),
      StatusIs(absl::StatusCode::kNotFound, HasSubstr("momentum")));
  ScanOptions slices;
  slices.slices = {7, 6};
  EXPECT_THAT(reader->RestoreTable("user", LiveTable::RestoreMode::kClear,
                                   slices, &live),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("7")));
  EXPECT_THAT(
      reader->RestoreTable("item", LiveTable::RestoreMode::kClear, {}, &live),
      StatusIs(absl::StatusCode::kNotFound, HasSubstr("item")));
  EXPECT_FALSE(live.cleared());
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
