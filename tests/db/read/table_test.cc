// SPDX-License-Identifier: Apache-2.0
// Tables of one rank: rows of every kind, scans and look-ups.

#include "schema/types.h"
#include "tests/db/delta_content.h"
#include "tests/db/store_fixture.h"

namespace ckptdb::testing {
namespace {

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
    return store_->OpenStep(step).value();
  }
};

std::string RandomRowOf(int64_t id, uint64_t bytes) {
  std::mt19937_64 random(static_cast<uint64_t>(id));
  return RandomBytes(&random, bytes);
}

TableContent TableOf(const std::vector<int64_t>& ids, std::vector<Slot> slots) {
  TableContent table;
  table.slots = std::move(slots);
  for (const int64_t id : ids)
    table.rows[id] = RandomRowOf(id, table.row_bytes());
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
                NotFound(std::to_string(absent)));
  }
}

TEST_F(TableTest, IdsOfOneSlice) {
  std::vector<int64_t> ids;
  for (int64_t i = -3000; i < 3000; ++i) ids.push_back(i * 65536 + 77);
  const TableContent table = TableOf(ids, {{"embedding", DType::kF32, 64}});
  SaveTable(1, table);
  const auto step = Open(1);
  ExpectLookups(*step, table);
  EXPECT_TRUE(Scan(*step, "user", {.slices = {77, 78}}).value() == table.rows);
  EXPECT_THAT(Scan(*step, "user", {.slices = {78, kSlices}}).value(),
              IsEmpty());
  EXPECT_THAT(step->LookupRow("user", 77 + 65536 * int64_t{3000}),
              NotFound("196608077"));
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
      EXPECT_TRUE(Scan(*reader, "user").value() == table.rows)
          << rows_per_block << " rows a block, scattered: " << scattered;
    }
  }
}

TEST_F(TableTest, StridesAndPlacesOfArrays) {
  const std::vector<int64_t> ids = {7, -1, 3};
  const std::vector<int64_t> one = {5};
  const std::vector<float> values(6);
  const std::vector<Slot> floats = {{"v", DType::kF32, 2}};
  const std::vector<Slot> bytes = {{"v", DType::kU8, 2}};
  for (const uint64_t stride : {0, 7}) {
    EXPECT_THAT(
        SaveRows(1, floats, RowSource::Arrays(ids, {{values.data(), stride}})),
        InvalidArgument("\"user\"", "\"v\"",
                        "stride " + std::to_string(stride)));
  }
  EXPECT_OK(SaveRows(1, floats, RowSource::Arrays(ids, {{values.data(), 8}})));
  const std::vector<uint32_t> places = {2, 0, 4};
  ASSERT_OK(
      SaveRows(2, bytes, RowSource::Arrays(ids, {{"aa..bb..cc", 2}}, places)));
  EXPECT_EQ(Scan(*Open(2), "user").value(),
            (Rows{{7, "bb"}, {-1, "aa"}, {3, "cc"}}));
  const std::vector<uint32_t> few = {2, 0};
  EXPECT_THAT(SaveRows(3, bytes, RowSource::Arrays(ids, {{"abcdef", 2}}, few)),
              InvalidArgument("\"user\"", "places of 2 rows, and 3 ids"));
  // A single row needs no stride.
  ASSERT_OK(SaveRows(3, bytes, RowSource::Arrays(one, {{"ab", 0}})));
  EXPECT_EQ(Scan(*Open(3), "user").value(), (Rows{{5, "ab"}}));
  const std::vector<uint32_t> place = {0};
  EXPECT_THAT(SaveRows(4, bytes, RowSource::Arrays(one, {{"ab", 0}}, place)),
              InvalidArgument("stride 0 of slot \"v\""));
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
                InvalidArgument("\"user\"",
                                "duplicate id " + std::to_string(duplicate)));
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
  EXPECT_THAT(Open(1)->LookupRow("none", 1), NotFound("1"));
  const BlockRows no_blocks(kTwoSlots, {}, 1);
  ASSERT_EQ(no_blocks.block_count(), 0u);
  ASSERT_OK(SaveRows(2, kTwoSlots, no_blocks));
  const RowSource::Arrays no_rows({}, {{nullptr, 0}, {nullptr, 0}});
  ASSERT_OK(SaveRows(3, kTwoSlots, no_rows));
  for (const int64_t empty : {2, 3})
    EXPECT_THAT(Scan(*Open(empty), "user").value(), IsEmpty());
}

TEST_F(TableTest, UnknownTablesSlotsAndSlicesAndNullSinks) {
  SaveSmall({1});
  const auto step = Open(1);
  const auto not_found = NotFound("\"item\"");
  CollectRows sink({});
  EXPECT_THAT(step->FindTable("item"), not_found);
  EXPECT_THAT(step->ScanTable("item", {}, &sink), not_found);
  EXPECT_THAT(step->LookupRow("item", 1), not_found);
  EXPECT_THAT(step->FindTable("w"), NotFound("\"w\""));
  EXPECT_THAT(
      step->ScanTable("user", {.slots = {"embedding", "momentum"}}, &sink),
      NotFound("\"momentum\"", "\"user\""));
  EXPECT_THAT(step->ScanTable("user", {.slices = {5, 4}}, &sink),
              InvalidArgument("5"));
  EXPECT_THAT(step->ScanTable("user", {.slices = {0, kSlices + 1}}, &sink),
              InvalidArgument("65537"));
  const auto is_null = InvalidArgument("\"user\"", "null");
  EXPECT_THAT(step->ScanTable("user", {}, nullptr), is_null);
  for (const LiveTable::RestoreMode mode :
       {LiveTable::RestoreMode::kClear, LiveTable::RestoreMode::kMerge}) {
    EXPECT_THAT(step->RestoreTable("user", mode, {}, nullptr), is_null);
  }
}

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
  Rows Subset(const std::vector<size_t>& slots) const {
    std::vector<std::string> names;
    for (const size_t slot : slots) names.push_back(table_.slots[slot].name);
    return Project(table_, names);
  }
  TableContent table_;
  std::unique_ptr<StepReader> step_;
};

TEST_F(ScanTest, SlotSubsetsInTheOrderAskedFor) {
  SaveScanned(SliceHash::kMix, Codec::kAuto);
  const std::vector<std::vector<size_t>> subsets = {
      {0}, {1}, {2}, {2, 0}, {2, 1, 0}};
  for (const std::vector<size_t>& subset : subsets) {
    ScanOptions options;
    for (const size_t slot : subset)
      options.slots.push_back(table_.slots[slot].name);
    EXPECT_TRUE(Scan(*step_, "user", options).value() == Subset(subset));
  }
  EXPECT_TRUE(Scan(*step_, "user", {.ids_only = true}).value() == Subset({}));
}

TEST_F(ScanTest, SliceRangesMakeTheWhole) {
  for (const SliceHash hash : {SliceHash::kModulo, SliceHash::kMix}) {
    DeleteSteps(ListSteps());
    SaveScanned(hash, Codec::kNone);
    for (const uint32_t parts : {2u, 3u, 16u, 100u}) {
      const std::vector<uint32_t> bounds = EvenSliceBounds(parts);
      Rows all;
      for (uint32_t part = 0; part < parts; ++part) {
        ScanOptions options;
        options.slices = {bounds[part], bounds[part + 1]};
        options.read.threads = 1 + static_cast<int>(part % 8);
        ASSERT_OK_AND_ASSIGN(const Rows rows, Scan(*step_, "user", options));
        for (const auto& [id, values] : rows)
          EXPECT_TRUE(options.slices.Contains(SliceOf(id, hash))) << id;
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
    ScanOptions options{.slices = range};
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
          RandomRowOf(id, 32) + std::string(32, '\0') + std::string(3, 'o');
    }
    SaveTable(++number, table);
    const auto step = Open(number);
    EXPECT_TRUE(Scan(*step, "user").value() == table.rows) << CodecName(codec);
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
      EXPECT_THAT(step->LookupRow("user", id), NotFound(std::to_string(id)));
    }
  }
}

class FailingSink : public RowSink {
 public:
  absl::Status Consume(int, const RowSink::Batch&) override {
    return absl::CancelledError("enough rows");
  }
};

TEST_F(ScanTest, ErrorOfTheSinkIsTheScans) {
  SaveScanned(SliceHash::kModulo, Codec::kNone);
  FailingSink sink;
  EXPECT_THAT(step_->ScanTable("user", {}, &sink), Cancelled("enough"));
}

class WorkerSink : public RowSink {
 public:
  explicit WorkerSink(int threads)
      : busy_(std::make_unique<std::atomic<bool>[]>(
            static_cast<size_t>(threads))),
        threads_(threads) {}
  absl::Status Consume(int worker, const RowSink::Batch& batch) override {
    if (worker < 0 || worker >= threads_)
      return absl::InternalError("worker out of range");
    if (busy_[static_cast<size_t>(worker)].exchange(true))
      return absl::InternalError("worker called twice at once");
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
    ScanOptions options{.read = {.threads = threads}};
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
