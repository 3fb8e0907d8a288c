// SPDX-License-Identifier: Apache-2.0
// Loads of items whose dtype in the step differs.
#include "manager/load/load_cast.h"

#include <algorithm>
#include <atomic>
#include <functional>
#include <numeric>
#include <thread>

#include "manager/load/evolved_table.h"
#include "schema/bytes/shape.h"
#include "tests/manager/raw_table.h"
#include "tests/manager/run_ranks.h"
#include "tests/manager/test_options.h"
#include "tests/support/temp_dir.h"

namespace ckptdb::testing {
namespace {

using internal::TensorPieces;
using CastOutcome = LoadSummary::LoadedItem::Outcome;

TEST(TensorPiecesTest, CoverTheTensorInOrder) {
  const Shape shapes[] = {{},     {1},       {7},          {3, 4},
                          {4, 3}, {2, 3, 5}, {5, 1, 3, 2}, {1, 1, 9}};
  for (const Shape& shape : shapes) {
    SCOPED_TRACE(ToString(shape));
    ASSERT_OK_AND_ASSIGN(const int64_t all, ElementCount(shape, 1));
    for (uint64_t most = 1; most <= static_cast<uint64_t>(all) + 1; ++most) {
      const TensorPieces pieces(shape, most);
      EXPECT_LE(pieces.elements(), most);
      uint64_t next = 0;
      for (uint64_t i = 0; i < pieces.count(); ++i) {
        uint64_t first = 0;
        const Box box = pieces.At(i, &first);
        ASSERT_OK(CheckBoxWithin(box, shape));
        EXPECT_EQ(first, next);
        // The indices of its first element.
        uint64_t index = 0;
        for (size_t d = 0; d < shape.size(); ++d) {
          index = index * static_cast<uint64_t>(shape[d]) +
                  static_cast<uint64_t>(box.offset[d]);
        }
        EXPECT_EQ(index, first);
        ASSERT_OK_AND_ASSIGN(const int64_t elements,
                             ElementCount(box.shape, 1));
        EXPECT_GE(elements, 1);
        EXPECT_LE(static_cast<uint64_t>(elements), pieces.elements());
        next += static_cast<uint64_t>(elements);
      }
      EXPECT_EQ(next, static_cast<uint64_t>(all));
    }
  }
}

class LoadCastTest : public ::testing::Test {
 protected:
  std::string Path(const std::string& name) const {
    return dir_.path() + "/" + name;
  }
  // Saves a step of `model` to the store "base".
  void Save(ModelState* model) {
    ASSERT_OK_AND_ASSIGN(
        const auto manager,
        CheckpointManager::Open({.path = Path("base")}, model));
    ASSERT_OK(StepAndSave(manager.get()));
  }
  LoadRule Rule(bool cast = true) const {
    return {.path = Path("base"), .cast = cast};
  }
  absl::StatusOr<LoadSummary> Load(ModelState* model, const LoadRule& rule,
                                   bool dry_run = false) {
    ManagerOptions options;
    options.path = Path("own");
    options.restore.read.threads = 3;
    options.restore.read.progress = progress_;
    CKPTDB_ASSIGN_OR_RETURN(const auto manager,
                            CheckpointManager::Open(options, model));
    return manager->Load({rule}, dry_run);
  }
  void SaveTensor(const TensorState& tensor) {
    ModelState model;
    ASSERT_OK(model.AddTensor("w", tensor));
    Save(&model);
  }
  absl::StatusOr<LoadSummary> LoadTensor(const TensorState& tensor,
                                         const LoadRule& rule,
                                         bool dry_run = false) {
    ModelState model;
    CKPTDB_RETURN_IF_ERROR(model.AddTensor("w", tensor));
    return Load(&model, rule, dry_run);
  }
  // Saves an i32 tensor "w" [2, 3] to the store "base".
  void SaveNumbers(std::vector<int32_t> numbers) {
    SaveTensor(TensorState::Of(numbers.data(), {2, 3}));
  }
  template <typename T>
  absl::StatusOr<LoadSummary> LoadNumbers(const LoadRule& rule,
                                          std::vector<T>* numbers,
                                          bool dry_run = false) {
    numbers->assign(6, 9);
    return LoadTensor(TensorState::Of(numbers->data(), {2, 3}), rule, dry_run);
  }

  TempDir dir_;
  std::function<void(uint64_t done_bytes, uint64_t all_bytes)> progress_;
};

TEST_F(LoadCastTest, CastsATensor) {
  SaveNumbers({1, -2, 3, 100'000, 5, 6});
  std::vector<float> floats;
  EXPECT_THAT(
      LoadNumbers(Rule(/*cast=*/false), &floats),
      FailedPrecondition("dense \"w\": expected f32 [2, 3], got i32 [2, 3]; a "
                         "load rule with \"cast\" converts it"));
  EXPECT_THAT(floats, Each(9));
  ASSERT_OK_AND_ASSIGN(const LoadSummary summary, LoadNumbers(Rule(), &floats));
  EXPECT_THAT(floats, ElementsAre(1, -2, 3, 100'000, 5, 6));
  const LoadSummary::LoadedItem& item = summary.rules[0].items[0];
  EXPECT_EQ(item.bytes, 24U) << "its size in the step";
  ASSERT_EQ(item.slot_changes.size(), 1U);
  EXPECT_EQ(item.slot_changes[0].slot, "");
  EXPECT_EQ(item.slot_changes[0].from, DType::kI32);
  EXPECT_EQ(item.slot_changes[0].to, DType::kF32);
  EXPECT_THAT(summary.ToString(),
              HasSubstr("  loaded: dense \"w\", 24 bytes, cast i32 to f32\n"));
  std::vector<int64_t> wide;
  ASSERT_OK(LoadNumbers(Rule(), &wide));
  EXPECT_THAT(wide, ElementsAre(1, -2, 3, 100'000, 5, 6));
  std::vector<int32_t> same;
  ASSERT_OK_AND_ASSIGN(const LoadSummary uncast, LoadNumbers(Rule(), &same));
  EXPECT_THAT(same, ElementsAre(1, -2, 3, 100'000, 5, 6));
  EXPECT_THAT(uncast.rules[0].items[0].slot_changes, IsEmpty());
}

TEST_F(LoadCastTest, DryRunListsCasts) {
  SaveNumbers({1, 2, 3, 4, 5, 6});
  std::vector<uint8_t> bytes;
  const LoadSummary dry = LoadNumbers(Rule(), &bytes, /*dry_run=*/true).value();
  EXPECT_THAT(bytes, Each(9));
  EXPECT_THAT(dry.ToString(), HasSubstr("loaded: dense \"w\", 24 bytes, cast "
                                        "i32 to u8\n"));
  ASSERT_OK_AND_ASSIGN(
      const LoadSummary without,
      LoadNumbers(Rule(/*cast=*/false), &bytes, /*dry_run=*/true));
  EXPECT_EQ(without.rules[0].items[0].outcome, CastOutcome::kMisfit);
  EXPECT_THAT(without.rules[0].items[0].slot_changes, IsEmpty());
  EXPECT_THAT(without.ToString(), HasSubstr("a load rule with \"cast\""));
}

TEST_F(LoadCastTest, ErrorDoesNotSuggestCast_WhenCastingCannotHelp) {
  std::vector<double> saved = {1, 2, 3, 4, 5, 6};
  SaveTensor(TensorState::Of(saved.data(), {2, 3}));
  std::vector<int64_t> integers;
  for (const bool cast : {false, true}) {
    EXPECT_THAT(LoadNumbers(Rule(cast), &integers),
                FailedPrecondition("expected i64 [2, 3], got f64 [2, 3]",
                                   Not(HasSubstr("\"cast\""))));
  }
  EXPECT_THAT(integers, Each(9));
  LoadRule lenient = {.path = Path("base"), .strict = false, .cast = true};
  EXPECT_EQ(LoadNumbers(lenient, &integers).value().rules[0].items[0].outcome,
            CastOutcome::kMisfit);
  EXPECT_THAT(integers, Each(9));
  // Another shape has nothing to do with dtypes.
  std::vector<float> floats(3);
  EXPECT_THAT(LoadTensor(TensorState::Of(floats.data(), {3}), Rule()),
              FailedPrecondition("expected f32 [3], got f64 [2, 3]",
                                 Not(HasSubstr("\"cast\""))));
}

TEST_F(LoadCastTest, ErrorNamesTheValueOutOfRange) {
  SaveNumbers({1, 2, 3, 4, 300, -6});
  std::vector<uint8_t> bytes;
  EXPECT_THAT(LoadNumbers(Rule(), &bytes),
              OutOfRange("tensor \"w\", element [1, 1]: 300 of i32 is out of "
                         "range for u8, 0 to 255"));
  LoadRule lenient = {.path = Path("base"), .cast = true, .ignore_error = true};
  EXPECT_THAT(LoadNumbers(lenient, &bytes).value().rules[0].note,
              HasSubstr("300 of i32"));
}

// Saved by two ranks, half of the rows each; loaded as some of the columns.
TEST_F(LoadCastTest, CastsAShard) {
  std::vector<std::vector<double>> halves(2, std::vector<double>(12));
  ASSERT_THAT(
      RunManagers(
          2, {.path = Path("base")},
          [&](uint32_t rank, ModelState* model) {
            std::iota(halves[rank].begin(), halves[rank].end(), 12.0 * rank);
            return model->AddTensor("w", ShardOf(halves[rank].data(), {2, 6},
                                                 {4, 6}, {2 * rank, 0}));
          },
          [](uint32_t, auto* manager) { return StepAndSave(manager); }),
      Each(IsOk()));
  std::vector<float> columns(8);
  ASSERT_OK(
      LoadTensor(ShardOf(columns.data(), {4, 2}, {4, 6}, {0, 3}), Rule()));
  EXPECT_THAT(columns, ElementsAre(3, 4, 9, 10, 15, 16, 21, 22));
}

// The element's indices are those in the global tensor.
TEST_F(LoadCastTest, ErrorNamesTheGlobalElementOutOfRange) {
  SaveNumbers({1, 2, 3, 4, 5, 256});
  std::vector<uint8_t> columns(4);
  EXPECT_THAT(
      LoadTensor(ShardOf(columns.data(), {2, 2}, {2, 3}, {0, 1}), Rule()),
      OutOfRange("element [1, 2]: 256 of i32"));
}

TEST_F(LoadCastTest, CastsScalarsAndEmptyTensors) {
  double scalar = 0.1;
  int64_t none = 0;
  ModelState saved;
  ASSERT_OK(saved.AddTensor("scalar", TensorState::Of(&scalar, {})));
  ASSERT_OK(saved.AddTensor("empty", TensorState::Of(&none, {3, 0})));
  Save(&saved);
  float loaded = 0;
  float nothing = 7;
  ModelState model;
  ASSERT_OK(model.AddTensor("scalar", TensorState::Of(&loaded, {})));
  ASSERT_OK(model.AddTensor("empty", TensorState::Of(&nothing, {3, 0})));
  ASSERT_OK(Load(&model, Rule()));
  EXPECT_EQ(loaded, 0.1F);
  EXPECT_EQ(nothing, 7);
}

// Consists of several pieces, which end within rows of chunks.
TEST_F(LoadCastTest, CastsALargeTensor) {
  const Shape shape = {1000, 2501};
  std::vector<int64_t> saved(1000 * 2501);
  std::iota(saved.begin(), saved.end(), 0);
  SaveTensor(TensorState::Of(saved.data(), shape));
  std::vector<int32_t> narrow(saved.size(), -1);
  ASSERT_OK(LoadTensor(TensorState::Of(narrow.data(), shape), Rule()));
  EXPECT_TRUE(std::equal(saved.begin(), saved.end(), narrow.begin()));
  std::vector<uint16_t> short_of(saved.size());
  EXPECT_THAT(LoadTensor(TensorState::Of(short_of.data(), shape), Rule()),
              OutOfRange("element [26, 510]: 65536 of i64"));
}

// Threads read the pieces of a tensor concurrently.
TEST_F(LoadCastTest, ReportsProgressOneCallAtATime) {
  std::vector<int64_t> saved(4'000'000);
  SaveTensor(TensorState::Of(saved.data(), {4'000'000}));
  std::atomic<int> calls = 0;
  std::atomic<int> most_calls = 0;
  std::vector<uint64_t> reports;
  progress_ = [&](uint64_t done_bytes, uint64_t all_bytes) {
    most_calls = std::max<int>(most_calls, ++calls);
    std::this_thread::yield();
    EXPECT_EQ(all_bytes, saved.size() * sizeof(int64_t));
    reports.push_back(done_bytes);
    --calls;
  };
  std::vector<int32_t> narrow(saved.size());
  ASSERT_OK(LoadTensor(TensorState::Of(narrow.data(), {4'000'000}), Rule()));
  EXPECT_EQ(most_calls, 1);
  // One for each piece of 8 MiB.
  EXPECT_EQ(reports.size(), 4U);
  EXPECT_TRUE(std::is_sorted(reports.begin(), reports.end()));
  EXPECT_EQ(reports.back(), saved.size() * sizeof(int64_t));
}

// Wide rows: f32 x 2, f64 x 1 and i32 x 2.
std::vector<Slot> WideSlots() {
  return {{"weight", DType::kF32, 2},
          {"sum", DType::kF64, 1},
          {"count", DType::kI32, 2}};
}
std::vector<Slot> NarrowSlots() {
  return {{"weight", DType::kBf16, 2},
          {"sum", DType::kF64, 1},
          {"count", DType::kI16, 2}};
}
constexpr int64_t kRowIds = 5000;  // more than one batch of each worker

class LoadCastTableTest : public LoadCastTest {
 protected:
  void SaveRows(int32_t last_count = 1) {
    RawTable table(WideSlots());
    for (int64_t id = 0; id < kRowIds; ++id) {
      const auto number = static_cast<float>(id % 128);
      const int32_t count = id == kRowIds - 1 ? last_count : 1;
      table.Set(id, {RawBytes<float>({number, -number}),
                     RawBytes<double>({number / 3.0}),
                     RawBytes<int32_t>({static_cast<int32_t>(id), count})});
    }
    ModelState model;
    ASSERT_OK(model.AddTable("user", &table));
    Save(&model);
  }
  static std::string Bf16(int64_t number) {
    const auto bits = std::bit_cast<uint32_t>(static_cast<float>(number));
    const auto negative = std::bit_cast<uint32_t>(-static_cast<float>(number));
    return RawBytes<uint16_t>({static_cast<uint16_t>(bits >> 16),
                               static_cast<uint16_t>(negative >> 16)});
  }
  absl::StatusOr<LoadSummary> LoadRows(RawTable* table, const LoadRule& rule,
                                       bool dry_run = false) {
    ModelState model;
    CKPTDB_RETURN_IF_ERROR(model.AddTable("user", table));
    return Load(&model, rule, dry_run);
  }
};

TEST_F(LoadCastTableTest, CastsSlots) {
  SaveRows();
  RawTable table(NarrowSlots());
  EXPECT_THAT(LoadRows(&table, Rule(/*cast=*/false)),
              FailedPrecondition("weight f32 x 2, sum f64 x 1, count i32 x 2]; "
                                 "a load rule with \"cast\" converts it"));
  const LoadSummary dry = LoadRows(&table, Rule(), /*dry_run=*/true).value();
  EXPECT_THAT(table.rows(), IsEmpty());
  ASSERT_OK_AND_ASSIGN(const LoadSummary summary, LoadRows(&table, Rule()));
  ASSERT_EQ(table.rows().size(), static_cast<size_t>(kRowIds));
  for (const auto& [id, row] : table.rows()) {
    const int64_t number = id % 128;
    ASSERT_EQ(row[0], Bf16(number)) << id;
    ASSERT_EQ(row[1], RawBytes<double>({static_cast<float>(number) / 3.0}));
    ASSERT_EQ(row[2], RawBytes<int16_t>({static_cast<int16_t>(id), 1}));
  }
  EXPECT_EQ(dry.ToString(), summary.ToString());
  EXPECT_THAT(summary.ToString(),
              HasSubstr("loaded: sparse \"user\", 5000 rows, 160000 bytes, "
                        "cast \"weight\" f32 to bf16, cast \"count\" i32 to "
                        "i16\n"));
}

TEST_F(LoadCastTableTest, CastsWeightsMergedIntoRows) {
  SaveRows();
  RawTable table(NarrowSlots());
  const RawTable::Row old = {Bf16(9), RawBytes<double>({9}),
                             RawBytes<int16_t>({9, 9})};
  table.Set(7, old);
  table.Set(-1, old);
  LoadRule rule = {.path = Path("base"),
                   .load = {"sparse"},
                   .hashtable_clear = false,
                   .cast = true};
  ASSERT_OK_AND_ASSIGN(const LoadSummary summary, LoadRows(&table, rule));
  EXPECT_EQ(table.rows().at(7)[0], Bf16(7));
  EXPECT_EQ(table.rows().at(7)[1], old[1]) << "unchanged";
  EXPECT_EQ(table.rows().at(-1), old);
  EXPECT_EQ(table.rows().size(), static_cast<size_t>(kRowIds) + 1);
  ASSERT_EQ(summary.rules[0].items[0].slot_changes.size(), 1U);
  EXPECT_EQ(summary.rules[0].items[0].slot_changes[0].slot, "weight");
  EXPECT_EQ(summary.rules[0].items[0].bytes, 5000U * (8 + 8));
}

TEST_F(LoadCastTableTest, ErrorNamesTheValueOutOfRange) {
  SaveRows(/*last_count=*/-40'000);
  RawTable table(NarrowSlots());
  EXPECT_THAT(
      LoadRows(&table, Rule()),
      OutOfRange("table \"user\": row 4999, slot \"count\", element 1: -40000 "
                 "of i32 is out of range for i16, -32768 to 32767"));
  EXPECT_FALSE(table.rows().contains(kRowIds - 1));
}

TEST_F(LoadCastTableTest, LoadFails_WhenASlotCannotBeCast) {
  SaveRows();
  const std::vector<Slot> wrong[] = {
      {{"weight", DType::kI32, 2}},                             // of floats
      {{"weight", DType::kBf16, 1}},                            // elements
      {{"weight", DType::kBf16, 2}, {"more", DType::kF32, 1}},  // not there
  };
  for (const std::vector<Slot>& slots : wrong) {
    RawTable table(slots);
    EXPECT_THAT(
        LoadRows(&table, Rule()),
        FailedPrecondition("expected [weight ", Not(HasSubstr("\"cast\""))));
    EXPECT_THAT(table.rows(), IsEmpty());
  }
}

// For changes: erased rows are passed on as they are.
TEST(EvolvedTableTest, ErasesAndClears) {
  RawTable table({{"weight", DType::kF64, 1}});
  table.Live({"weight"});
  internal::EvolvedTable cast("user",
                              {{.to = {"weight", DType::kF64, 1},
                                .from = Slot{"weight", DType::kF32, 1}}},
                              2, &table);
  const std::vector<int64_t> ids = {3, 4};
  const float numbers[] = {0.5, -1};
  const char* const slots[] = {reinterpret_cast<const char*>(numbers)};
  ASSERT_OK(cast.Consume(1, {ids, slots}));
  EXPECT_THAT(table.rows(),
              ElementsAre(Pair(3, ElementsAre(RawBytes<double>({0.5}))),
                          Pair(4, ElementsAre(RawBytes<double>({-1})))));
  ASSERT_OK(cast.Erase(0, {3}));
  EXPECT_EQ(table.erased(), 1);
  EXPECT_EQ(table.rows().size(), 1U);
  ASSERT_OK(cast.Clear());
  EXPECT_THAT(table.rows(), IsEmpty());
}

}  // namespace
}  // namespace ckptdb::testing
