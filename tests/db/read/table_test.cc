// SPDX-License-Identifier: Apache-2.0
// Tables of one rank: rows of every kind, scans and look-ups.
#include <gmock/gmock.h>

#include <algorithm>
#include <atomic>
#include <limits>

#include "schema/types.h"
#include "tests/db/store_fixture.h"
#include "tests/support/seed.h"

namespace ckptdb::testing {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class TableTest : public StoreFixture {
 protected:
  absl::Status SaveRows(int64_t step, const std::vector<Slot>& slots,
                        const RowSource& rows,
                        SliceHash hash = SliceHash::kModulo) {
    RankState state;
    state.AddTable("user", slots, &rows, hash);
    return store_->Save({.step = step}, state).status();
  }
  void SaveTable(int64_t step, const TableContent& table) {
    RankContent content;
    content.tables["user"] = table;
    ASSERT_OK(Save(step, content));
  }
  std::unique_ptr<StepReader> Open(int64_t step) {
    auto reader = store_->OpenStep(step);
    EXPECT_OK(reader);
    return reader.ok() ? *std::move(reader) : nullptr;
  }
};

std::string RowOf(int64_t id, uint64_t bytes) {
  std::mt19937_64 random(static_cast<uint64_t>(id));
  return RandomBytes(&random, bytes);
}

TableContent TableOf(const std::vector<int64_t>& ids, std::vector<Slot> slots) {
  TableContent table;
  table.slots = std::move(slots);
  for (const int64_t id : ids) table.rows[id] = RowOf(id, table.row_bytes());
  return table;
}

const std::vector<Slot> kTwoSlots = {{"embedding", DType::kF32, 3},
                                     {"freq", DType::kI32, 1}};

void ExpectLookups(const StepReader& step, const TableContent& table) {
  for (const auto& [id, values] : table.rows) {
    ASSERT_OK_AND_ASSIGN(const std::vector<std::string> row,
                         step.LookupRow("user", id));
    ASSERT_EQ(row.size(), table.slots.size());
    std::string all;
    for (size_t s = 0; s < row.size(); ++s) {
      EXPECT_EQ(row[s].size(), table.slots[s].row_bytes());
      all += row[s];
    }
    EXPECT_TRUE(all == values) << "id " << id;
  }
}

TEST_F(TableTest, ExtremeIds) {
  constexpr int64_t kMin = std::numeric_limits<int64_t>::min();
  constexpr int64_t kMax = std::numeric_limits<int64_t>::max();
  const TableContent table =
      TableOf({0, 1, -1, kMin, kMin + 1, kMax, kMax - 1, 65535, 65536, -65536},
              kTwoSlots);
  SaveTable(1, table);
  Reopen();
  RankContent content;
  content.tables["user"] = table;
  ExpectStep(1, {content});
  const auto step = Open(1);
  ExpectLookups(*step, table);
  for (const int64_t absent : {kMin + 2, kMax - 2, int64_t{2}, int64_t{-2}}) {
    EXPECT_THAT(step->LookupRow("user", absent),
                StatusIs(absl::StatusCode::kNotFound,
                         HasSubstr(std::to_string(absent))));
  }
}

TEST_F(TableTest, IdsOfOneSlice) {
  std::vector<int64_t> ids;
  for (int64_t i = -3000; i < 3000; ++i) ids.push_back(i * 65536 + 77);
  const TableContent table = TableOf(ids, {{"embedding", DType::kF32, 64}});
  SaveTable(1, table);
  const auto step = Open(1);
  ExpectLookups(*step, table);
  ScanOptions only;
  only.slices = {77, 78};
  ASSERT_OK_AND_ASSIGN(const Rows all, Scan(*step, "user", only));
  EXPECT_TRUE(all == table.rows);
  only.slices = {78, kSlices};
  ASSERT_OK_AND_ASSIGN(const Rows none, Scan(*step, "user", only));
  EXPECT_THAT(none, IsEmpty());
  EXPECT_THAT(step->LookupRow("user", 77 + 65536 * int64_t{3000}),
              StatusIs(absl::StatusCode::kNotFound, HasSubstr("196608077")));
}

TEST_F(TableTest, BlocksInAnyOrderWithStridesAndPlaces) {
  std::mt19937_64 random(TestSeed());
  TableContent table;
  table.slots = kTwoSlots;
  table.rows = RandomRows(&random, table.row_bytes(), 5000);
  std::vector<BlockRows::Row> rows(table.rows.begin(), table.rows.end());
  int64_t step = 0;
  for (const size_t rows_per_block : {1, 7, 4096, 5000, 9999}) {
    std::shuffle(rows.begin(), rows.end(), random);
    for (const bool scattered : {false, true}) {
      const BlockRows source(table.slots, rows, rows_per_block,
                             rows_per_block % 5, scattered);
      ASSERT_OK(SaveRows(++step, table.slots, source));
      const auto reader = Open(step);
      ASSERT_OK_AND_ASSIGN(const Rows read, Scan(*reader, "user"));
      EXPECT_TRUE(read == table.rows)
          << rows_per_block << " rows a block, scattered: " << scattered;
    }
  }
}

TEST_F(TableTest, RejectsAStrideBelowTheRow) {
  const std::vector<int64_t> ids = {5, 3, 4};
  const std::vector<float> values(6);
  for (const uint64_t stride : {0, 7}) {
    const RowSource::Arrays rows(ids, {{values.data(), stride}});
    EXPECT_THAT(SaveRows(1, {{"v", DType::kF32, 2}}, rows),
                StatusIs(absl::StatusCode::kInvalidArgument,
                         AllOf(HasSubstr("\"user\""), HasSubstr("\"v\""),
                               HasSubstr("stride " + std::to_string(stride)))));
  }
  const RowSource::Arrays rows(ids, {{values.data(), 8}});
  EXPECT_OK(SaveRows(1, {{"v", DType::kF32, 2}}, rows));
}

TEST_F(TableTest, RowsOfOneArrayInTheOrderAskedFor) {
  const std::vector<int64_t> ids = {7, -1, 3};
  const std::vector<uint32_t> places = {2, 0, 4};
  const std::string values = "aa..bb..cc";
  const RowSource::Arrays rows(ids, {{values.data(), 2}}, places);
  ASSERT_OK(SaveRows(1, {{"v", DType::kU8, 2}}, rows));
  const auto step = Open(1);
  ASSERT_OK_AND_ASSIGN(const Rows read, Scan(*step, "user"));
  EXPECT_EQ(read, (Rows{{7, "bb"}, {-1, "aa"}, {3, "cc"}}));
}

TEST_F(TableTest, RejectsAWrongNumberOfPlaces) {
  const std::vector<int64_t> ids = {7, -1, 3};
  const std::vector<uint32_t> places = {2, 0};
  const RowSource::Arrays rows(ids, {{"abcdef", 2}}, places);
  EXPECT_THAT(SaveRows(1, {{"v", DType::kU8, 2}}, rows),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       AllOf(HasSubstr("\"user\""),
                             HasSubstr("places of 2 rows, and 3 ids"))));
}

TEST_F(TableTest, OneRowNeedsNoStride) {
  const std::vector<int64_t> ids = {5};
  const RowSource::Arrays rows(ids, {{"abcd", 0}});
  ASSERT_OK(SaveRows(1, {{"v", DType::kU8, 4}}, rows));
  const auto step = Open(1);
  ASSERT_OK_AND_ASSIGN(const Rows read, Scan(*step, "user"));
  EXPECT_EQ(read, (Rows{{5, "abcd"}}));
  // But when it is told where it lies.
  const std::vector<uint32_t> places = {0};
  EXPECT_THAT(SaveRows(2, {{"v", DType::kU8, 4}},
                       RowSource::Arrays(ids, {{"abcd", 0}}, places)),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("stride 0 of slot \"v\"")));
}

class DuplicateTest : public TableTest {
 protected:
  void ExpectDuplicate(const std::vector<int64_t>& ids, int64_t duplicate,
                       size_t rows_per_block, SliceHash hash) {
    std::vector<BlockRows::Row> rows;
    for (const int64_t id : ids) rows.emplace_back(id, "v");
    const std::vector<Slot> slots = {{"v", DType::kU8, 1}};
    const BlockRows source(slots, rows, rows_per_block);
    EXPECT_THAT(SaveRows(1, slots, source, hash),
                StatusIs(absl::StatusCode::kInvalidArgument,
                         AllOf(HasSubstr("\"user\""),
                               HasSubstr("duplicate id " +
                                         std::to_string(duplicate)))));
    EXPECT_THAT(store_->Steps(), IsEmpty());
  }
};

TEST_F(DuplicateTest, IsFoundInABlockAndAcrossBlocks) {
  std::vector<int64_t> ids;
  for (int64_t id = -5000; id < 5000; ++id) ids.push_back(id * 31);
  for (const int64_t duplicate : {int64_t{0}, int64_t{-155000}, int64_t{31}}) {
    std::vector<int64_t> with = ids;
    with.push_back(duplicate);
    for (const SliceHash hash : {SliceHash::kModulo, SliceHash::kMix}) {
      ExpectDuplicate(with, duplicate, with.size(), hash);
      ExpectDuplicate(with, duplicate, 100, hash);
      ExpectDuplicate(with, duplicate, 1, hash);
    }
  }
}

TEST_F(DuplicateTest, NextToEachOther) {
  ExpectDuplicate({7, 7}, 7, 2, SliceHash::kModulo);
  ExpectDuplicate({-7, -7}, -7, 1, SliceHash::kMix);
  ExpectDuplicate({1, 2, std::numeric_limits<int64_t>::min(),
                   std::numeric_limits<int64_t>::min()},
                  std::numeric_limits<int64_t>::min(), 3, SliceHash::kModulo);
}

TEST_F(TableTest, EmptyTables) {
  RankContent content;
  content.tables["none"] = {kTwoSlots, SliceHash::kModulo, {}};
  content.tables["user"] = TableOf({1}, kTwoSlots);
  ASSERT_OK(Save(1, content));
  Reopen();
  ExpectStep(1, {content});
  const auto step = Open(1);
  EXPECT_THAT(step->LookupRow("none", 1),
              StatusIs(absl::StatusCode::kNotFound, HasSubstr("1")));
  const BlockRows no_blocks(kTwoSlots, {}, 1);
  ASSERT_EQ(no_blocks.block_count(), 0u);
  ASSERT_OK(SaveRows(2, kTwoSlots, no_blocks));
  const RowSource::Arrays no_rows({}, {{nullptr, 0}, {nullptr, 0}});
  ASSERT_OK(SaveRows(3, kTwoSlots, no_rows));
  for (const int64_t empty : {2, 3}) {
    const auto reader = Open(empty);
    ASSERT_OK_AND_ASSIGN(const Rows rows, Scan(*reader, "user"));
    EXPECT_THAT(rows, IsEmpty());
  }
}

TEST_F(TableTest, UnknownTablesAndSlots) {
  ASSERT_OK(Save(1, SmallContent(1)));
  const auto step = Open(1);
  const auto not_found =
      StatusIs(absl::StatusCode::kNotFound, HasSubstr("\"item\""));
  CollectRows sink({});
  EXPECT_THAT(step->FindTable("item"), not_found);
  EXPECT_THAT(step->ScanTable("item", {}, &sink), not_found);
  EXPECT_THAT(step->LookupRow("item", 1), not_found);
  EXPECT_THAT(step->FindTable("w"),
              StatusIs(absl::StatusCode::kNotFound, HasSubstr("\"w\"")));
  ScanOptions options;
  options.slots = {"embedding", "momentum"};
  EXPECT_THAT(
      step->ScanTable("user", options, &sink),
      StatusIs(absl::StatusCode::kNotFound,
               AllOf(HasSubstr("\"momentum\""), HasSubstr("\"user\""))));
}

TEST_F(TableTest, RejectsNullSinks) {
  ASSERT_OK(Save(1, SmallContent(1)));
  const auto step = Open(1);
  const auto is_null =
      StatusIs(absl::StatusCode::kInvalidArgument,
               AllOf(HasSubstr("\"user\""), HasSubstr("null")));
  EXPECT_THAT(step->ScanTable("user", {}, nullptr), is_null);
  for (const LiveTable::RestoreMode mode :
       {LiveTable::RestoreMode::kClear, LiveTable::RestoreMode::kMerge}) {
    EXPECT_THAT(step->RestoreTable("user", mode, {}, nullptr), is_null);
  }
}

TEST_F(TableTest, RejectsInvalidScanOptions) {
  ASSERT_OK(Save(1, SmallContent(1)));
  const auto step = Open(1);
  CollectRows sink({});
  ScanOptions options;
  options.slices = {5, 4};
  EXPECT_THAT(step->ScanTable("user", options, &sink),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("5")));
  options.slices = {0, kSlices + 1};
  EXPECT_THAT(step->ScanTable("user", options, &sink),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("65537")));
}

// A table of several slots, of which a page has rows of many.
class ScanTest : public TableTest {
 protected:
  void SaveScanned(SliceHash hash, Codec codec) {
    std::mt19937_64 random(TestSeed());
    table_.slots = {{"embedding", DType::kF32, 32, codec},
                    {"adagrad_sum", DType::kF32, 32, codec},
                    {"freq", DType::kU8, 1, codec}};
    table_.hash = hash;
    table_.rows = RandomRows(&random, table_.row_bytes(), 30'000);
    SaveTable(1, table_);
    step_ = Open(1);
  }
  // Of each row the slots of these numbers.
  Rows Subset(const std::vector<size_t>& slots) const {
    Rows subset;
    for (const auto& [id, values] : table_.rows) {
      std::string& row = subset[id];
      for (const size_t slot : slots) {
        uint64_t at = 0;
        for (size_t s = 0; s < slot; ++s) at += table_.slots[s].row_bytes();
        row += values.substr(at, table_.slots[slot].row_bytes());
      }
    }
    return subset;
  }

  TableContent table_;
  std::unique_ptr<StepReader> step_;
};

TEST_F(ScanTest, WholeWithAnyThreads) {
  SaveScanned(SliceHash::kModulo, Codec::kNone);
  for (int threads = 1; threads <= 8; ++threads) {
    ScanOptions options;
    options.read.threads = threads;
    ASSERT_OK_AND_ASSIGN(const Rows rows, Scan(*step_, "user", options));
    EXPECT_TRUE(rows == table_.rows) << threads << " threads";
  }
}

TEST_F(ScanTest, SlotSubsetsInTheOrderAskedFor) {
  SaveScanned(SliceHash::kMix, Codec::kAuto);
  const std::vector<std::vector<size_t>> subsets = {
      {0}, {1}, {2}, {2, 0}, {2, 1, 0}};
  for (const std::vector<size_t>& subset : subsets) {
    ScanOptions options;
    for (const size_t slot : subset) {
      options.slots.push_back(table_.slots[slot].name);
    }
    ASSERT_OK_AND_ASSIGN(const Rows rows, Scan(*step_, "user", options));
    EXPECT_TRUE(rows == Subset(subset));
  }
  ScanOptions ids;
  ids.ids_only = true;
  ASSERT_OK_AND_ASSIGN(const Rows rows, Scan(*step_, "user", ids));
  EXPECT_TRUE(rows == Subset({}));
}

TEST_F(ScanTest, SliceRangesMakeTheWhole) {
  for (const SliceHash hash : {SliceHash::kModulo, SliceHash::kMix}) {
    if (store_->FindStep(1).ok()) {
      ASSERT_OK(store_->Delete(1));
    }
    SaveScanned(hash, Codec::kNone);
    for (const uint32_t parts : {2u, 3u, 16u, 100u}) {
      const std::vector<uint32_t> bounds = EvenSliceBounds(parts);
      Rows all;
      for (uint32_t part = 0; part < parts; ++part) {
        ScanOptions options;
        options.slices = {bounds[part], bounds[part + 1]};
        options.read.threads = 1 + static_cast<int>(part % 8);
        ASSERT_OK_AND_ASSIGN(const Rows rows, Scan(*step_, "user", options));
        for (const auto& [id, values] : rows) {
          EXPECT_TRUE(options.slices.Contains(SliceOf(id, hash))) << id;
        }
        const size_t before = all.size();
        all.insert(rows.begin(), rows.end());
        EXPECT_EQ(all.size(), before + rows.size());
      }
      EXPECT_TRUE(all == table_.rows) << parts << " parts";
    }
    step_.reset();
  }
}

TEST_F(ScanTest, NarrowSliceRanges) {
  SaveScanned(SliceHash::kModulo, Codec::kNone);
  const std::vector<SliceRange> ranges = {
      {0, 0}, {0, 1}, {7, 8}, {65535, 65536}, {65536, 65536}, {999, 1001}};
  for (const SliceRange& range : ranges) {
    ScanOptions options;
    options.slices = range;
    ASSERT_OK_AND_ASSIGN(const Rows rows, Scan(*step_, "user", options));
    Rows expected;
    for (const auto& [id, values] : table_.rows) {
      if (range.Contains(SliceOf(id, table_.hash))) expected[id] = values;
    }
    EXPECT_TRUE(rows == expected) << range.begin << " to " << range.end;
  }
}

TEST_F(ScanTest, EveryCodec) {
  int64_t number = 0;
  for (const Codec codec :
       {Codec::kNone, Codec::kLz4, Codec::kShuffleLz4, Codec::kAuto}) {
    TableContent table;
    table.slots = {{"random", DType::kF32, 8, codec},
                   {"zeroes", DType::kF32, 8, codec},
                   {"odd", DType::kI8, 3, codec}};
    for (int64_t id = 0; id < 40'000; ++id) {
      table.rows[id * 7] =
          RowOf(id, 32) + std::string(32, '\0') + std::string(3, 'o');
    }
    SaveTable(++number, table);
    const auto step = Open(number);
    ASSERT_OK_AND_ASSIGN(const Rows rows, Scan(*step, "user"));
    EXPECT_TRUE(rows == table.rows) << CodecName(codec);
    const Item& item = step->ranks().at(0).items.at(0);
    if (codec != Codec::kNone) {
      EXPECT_LT(item.stored_bytes, item.raw_bytes * 8 / 10) << CodecName(codec);
    }
    EXPECT_OK(step->Verify());
  }
}

TEST_F(ScanTest, LookupOfEveryRow) {
  for (const SliceHash hash : {SliceHash::kModulo, SliceHash::kMix}) {
    TableContent table = TableOf({}, kTwoSlots);
    std::mt19937_64 random(TestSeed());
    table.hash = hash;
    table.rows = RandomRows(&random, table.row_bytes(), 2000);
    const int64_t number = hash == SliceHash::kMix ? 3 : 2;
    SaveTable(number, table);
    const auto step = Open(number);
    ExpectLookups(*step, table);
    for (int i = 0; i < 200; ++i) {
      const auto id = static_cast<int64_t>(random());
      if (table.rows.contains(id)) continue;
      EXPECT_THAT(
          step->LookupRow("user", id),
          StatusIs(absl::StatusCode::kNotFound, HasSubstr(std::to_string(id))));
    }
  }
}

// Fails at the first batch.
class FailingSink : public RowSink {
 public:
  absl::Status Consume(int, const RowSink::Batch&) override {
    return absl::CancelledError("enough rows");
  }
};

TEST_F(ScanTest, ErrorOfTheSinkIsTheScans) {
  SaveScanned(SliceHash::kModulo, Codec::kNone);
  FailingSink sink;
  EXPECT_THAT(step_->ScanTable("user", {}, &sink),
              StatusIs(absl::StatusCode::kCancelled, HasSubstr("enough")));
}

// Notes the workers that bring batches.
class WorkerSink : public RowSink {
 public:
  explicit WorkerSink(int threads)
      : busy_(std::make_unique<std::atomic<bool>[]>(
            static_cast<size_t>(threads))),
        threads_(threads) {}
  absl::Status Consume(int worker, const RowSink::Batch& batch) override {
    if (worker < 0 || worker >= threads_) {
      return absl::InternalError("worker out of range");
    }
    if (busy_[static_cast<size_t>(worker)].exchange(true)) {
      return absl::InternalError("worker called twice at once");
    }
    rows_ += batch.ids.size();
    busy_[static_cast<size_t>(worker)] = false;
    return absl::OkStatus();
  }
  uint64_t rows() const { return rows_; }

 private:
  std::unique_ptr<std::atomic<bool>[]> busy_;
  int threads_;
  std::atomic<uint64_t> rows_{0};
};

TEST_F(ScanTest, WorkersHaveNumbersOfTheirOwn) {
  SaveScanned(SliceHash::kModulo, Codec::kNone);
  for (const int threads : {1, 3, 8}) {
    ScanOptions options;
    options.read.threads = threads;
    WorkerSink sink(threads);
    ASSERT_OK(step_->ScanTable("user", options, &sink));
    EXPECT_EQ(sink.rows(), table_.rows.size());
  }
}

TEST_F(TableTest, RandomTablesAgainstAPlainMap) {
  std::mt19937_64 random(TestSeed());
  for (int64_t number = 0; number < 25; ++number) {
    RankContent content;
    for (uint64_t t = 0; t <= random() % 3; ++t) {
      TableContent& table = content.tables["t" + std::to_string(t)];
      table.hash = static_cast<SliceHash>(random() % 2);
      for (uint64_t s = 0; s <= random() % 4; ++s) {
        table.slots.push_back({"s" + std::to_string(s),
                               static_cast<DType>(random() % kDTypes),
                               static_cast<uint32_t>(1 + random() % 40),
                               static_cast<Codec>(random() % 3)});
      }
      table.rows = RandomRows(&random, table.row_bytes(),
                              random() % 5 == 0 ? 1 : random() % 3000);
    }
    const HeldState held(content, 1 + random() % 2000);
    ASSERT_OK(store_->Save({.step = number}, held.state()));
    ExpectStep(number, {content});
  }
}

}  // namespace
}  // namespace ckptdb::testing
