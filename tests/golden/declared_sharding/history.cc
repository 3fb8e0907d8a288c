// SPDX-License-Identifier: Apache-2.0
#include "tests/golden/declared_sharding/history.h"

#include <algorithm>
#include <array>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "schema/types.h"

namespace ckptdb::testing {
namespace {

// The step that last wrote each row, by table and id.
using Written = std::map<std::string, std::map<int64_t, int64_t>>;

struct Layout {
  std::string name;
  SliceHash hash;
  std::vector<Slot> slots;
};

std::vector<Slot> ThreeSlots(uint8_t first_dtype) {
  constexpr std::array kCodecs = {Codec::kNone, Codec::kLz4, Codec::kShuffleLz4,
                                  Codec::kAuto};
  std::vector<Slot> slots;
  for (uint8_t i = 0; i < 3; ++i) {
    const auto dtype = static_cast<DType>(first_dtype + i);
    slots.push_back({std::string(DTypeName(dtype)), dtype, 1U << (2 * i),
                     kCodecs.at((first_dtype + i) % kCodecs.size())});
  }
  return slots;
}

// Together, their slots have all dtypes; rows of "wide" are 64 KiB.
const std::vector<Layout>& Layouts() {
  static const auto* const kLayouts = new std::vector<Layout>{
      {"by_slices", SliceHash::kMix, ThreeSlots(0)},
      {"by_modulo", SliceHash::kModulo, ThreeSlots(3)},
      {"by_function", SliceHash::kMix, ThreeSlots(6)},
      {"replicated", SliceHash::kModulo, ThreeSlots(9)},
      {"unchecked", SliceHash::kMix, ThreeSlots(12)},
      {"wide",
       SliceHash::kMix,
       {{"pixels", DType::kU8, uint32_t{1} << 16, Codec::kLz4}}}};
  return *kLayouts;
}

// A save with slice bounds has the tables divided by slices, a save without
// them the undeclared table. A save of one rank has all tables.
bool HasTable(const GoldenPlan& plan, const std::string& table) {
  if (plan.world_size == 1) return true;
  const bool by_slices = table == "by_slices" || table == "wide";
  if (plan.slice_bounds.empty()) return !by_slices;
  return table != "unchecked";
}

// Returns `bytes` bytes that are unique to the three numbers: eight, repeated.
std::string Pattern(uint64_t a, uint64_t b, uint64_t c, uint64_t bytes) {
  const uint64_t mixed = MixId(a * 0x9e3779b97f4a7c15 + b * 131 + c);
  std::string pattern(bytes, '\0');
  for (uint64_t i = 0; i < bytes; ++i) {
    pattern[i] = static_cast<char>(mixed >> (8 * (i % 8)));
  }
  return pattern;
}

std::string Elements(DType dtype, std::string bytes) {
  if (dtype == DType::kBool) {
    for (char& byte : bytes) byte = static_cast<char>(byte & 1);
  }
  return bytes;
}

std::string RowAt(const Layout& table, int64_t id, int64_t step) {
  std::string row;
  for (size_t slot = 0; slot < table.slots.size(); ++slot) {
    row +=
        Elements(table.slots[slot].dtype,
                 Pattern(static_cast<uint64_t>(id), static_cast<uint64_t>(step),
                         slot, table.slots[slot].row_bytes()));
  }
  return row;
}

int64_t IdOf(const Layout& table, int64_t k) {
  return (k - 10) * (table.name == "wide" ? 1'000'003 : 7919);
}

// Rows 0 to 39 of a table, and one more in each delta.
constexpr int64_t kRows = 40;

void SaveWhole(const GoldenPlan& plan, Written* written) {
  for (const Layout& table : Layouts()) {
    if (!HasTable(plan, table.name)) continue;
    for (int64_t k = 0; k < kRows; ++k) {
      (*written)[table.name][IdOf(table, k)] = plan.step;
    }
  }
}

// Writes every seventh row, erases every eleventh, and adds one.
void Train(int64_t step, Written* written) {
  const int64_t round = step / 10;
  for (const Layout& table : Layouts()) {
    const auto rows = written->find(table.name);
    if (rows == written->end()) continue;
    for (int64_t k = 0; k < kRows; ++k) {
      const int64_t id = IdOf(table, k);
      if (k % 7 == round % 7) {
        rows->second[id] = step;
      } else if (k % 11 == round % 11) {
        rows->second.erase(id);
      }
    }
    rows->second[IdOf(table, kRows + round)] = step;
  }
}

Written WrittenAt(const GoldenPlan& plan) {
  Written written;
  if (!plan.parent.has_value()) {
    SaveWhole(plan, &written);
    return written;
  }
  written = WrittenAt(GoldenPlanOf(*plan.parent));
  Train(plan.step, &written);
  return written;
}

std::map<std::string, TableContent> TablesAt(const GoldenPlan& plan) {
  const Written written = WrittenAt(plan);
  std::map<std::string, TableContent> tables;
  for (const Layout& table : Layouts()) {
    const auto rows = written.find(table.name);
    if (rows == written.end()) continue;
    TableContent& content = tables[table.name];
    content = {table.slots, table.hash, {}};
    for (const auto& [id, step] : rows->second) {
      content.rows[id] = RowAt(table, id, step);
    }
  }
  return tables;
}

uint64_t CountElements(const Shape& shape) {
  uint64_t count = 1;
  for (const int64_t dimension : shape) {
    count *= static_cast<uint64_t>(dimension);
  }
  return count;
}

// Each element contains its own index.
TensorContent Tensor(DType dtype, const Shape& shape, Codec codec,
                     int64_t step) {
  TensorContent tensor{dtype, shape, {}, codec, {}, {}};
  for (uint64_t i = 0; i < CountElements(shape); ++i) {
    tensor.bytes += Pattern(i, static_cast<uint64_t>(step),
                            static_cast<uint64_t>(dtype), DTypeBytes(dtype));
  }
  tensor.bytes = Elements(dtype, std::move(tensor.bytes));
  return tensor;
}

// Makes a tensor of `rows` rows with few distinct values, which compresses
// well.
TensorContent Large(int64_t rows, int64_t step, Codec codec) {
  TensorContent tensor{DType::kF32, {rows, 1024}, {}, codec, {}, {}};
  for (int64_t row = 0; row < rows; ++row) {
    tensor.bytes += Pattern(static_cast<uint64_t>(row / 64),
                            static_cast<uint64_t>(step), 0, 4096);
  }
  return tensor;
}

std::map<std::string, TensorContent> TensorsAt(const GoldenPlan& plan) {
  std::map<std::string, TensorContent> tensors;
  const int64_t ranks = plan.world_size;
  tensors["rows"] =
      Tensor(DType::kF32, {2 * ranks, 3}, Codec::kAuto, plan.step);
  tensors["columns"] =
      Tensor(DType::kI16, {3, 2 * ranks}, Codec::kNone, plan.step);
  tensors["scalar"] = Tensor(DType::kI64, {}, Codec::kNone, plan.step);
  tensors["empty"] = Tensor(DType::kU8, {0, 4}, Codec::kNone, plan.step);
  if (plan.slice_bounds.empty()) {
    for (uint8_t number = 0; number < kDTypes; ++number) {
      const auto dtype = static_cast<DType>(number);
      tensors[absl::StrCat("all/", DTypeName(dtype))] =
          Tensor(dtype, {2, 3}, Codec::kNone, plan.step);
    }
    return tensors;
  }
  // Does not change in each step: larger than a write batch, and two chunks.
  tensors["large"] = Large(760, plan.step < 130 ? 100 : 130, Codec::kLz4);
  tensors["frozen"] = Large(65, 0, Codec::kShuffleLz4);
  return tensors;
}

std::vector<std::map<std::string, std::string>> BlobsAt(
    const GoldenPlan& plan) {
  std::vector<std::map<std::string, std::string>> blobs(plan.world_size);
  for (uint32_t rank = 0; rank < plan.world_size; ++rank) {
    blobs[rank]["reader"] = absl::StrCat("step ", plan.step, " rank ", rank);
  }
  blobs.front()["nothing"] = "";
  if (!plan.slice_bounds.empty()) {
    blobs.back()["vocabulary"] = Pattern(1, 2, 3, 300'000);
  }
  return blobs;
}

bool IsColumns(const std::string& tensor) { return tensor == "columns"; }
bool IsSharded(const std::string& tensor) {
  return tensor == "rows" || IsColumns(tensor);
}

}  // namespace

const std::vector<GoldenPlan>& GoldenPlans() {
  static const auto* const kPlans = [] {
    const std::vector<uint32_t> three = {0, 10000, 40000, kSlices};
    const std::vector<uint32_t> two = {0, 50000, kSlices};
    return new std::vector<GoldenPlan>{
        {20, std::nullopt, 1, {}}, {30, std::nullopt, 2, {}},
        {40, 30, 2, {}},           {100, std::nullopt, 3, three},
        {110, 100, 3, three},      {120, 110, 3, three},
        {130, 120, 3, three},      {140, 130, 2, two},
        {150, 140, 2, two},        {160, 150, 2, two},
        {170, 140, 2, two},        {180, 170, 2, two},
        {190, 170, 3, three},      {200, 190, 2, two}};
  }();
  return *kPlans;
}

const GoldenPlan& GoldenPlanOf(int64_t step) {
  return *std::find_if(
      GoldenPlans().begin(), GoldenPlans().end(),
      [&](const GoldenPlan& plan) { return plan.step == step; });
}

GoldenStep GoldenStepOf(int64_t step) {
  GoldenStep golden;
  golden.plan = GoldenPlanOf(step);
  golden.tables = TablesAt(golden.plan);
  golden.tensors = TensorsAt(golden.plan);
  golden.blobs = BlobsAt(golden.plan);
  if (!golden.plan.parent.has_value()) return golden;
  const auto before = TablesAt(GoldenPlanOf(*golden.plan.parent));
  for (const auto& [name, table] : golden.tables) {
    golden.changes[name] = DeltaBetween(before.at(name).rows, table.rows);
  }
  return golden;
}

TableSharding GoldenSharding(const std::string& table) {
  if (table == "by_modulo") return TableSharding::ByModulo();
  if (table == "by_function") {
    return TableSharding::ByFunction(
        "negative_first", [](int64_t id, uint32_t world_size) -> uint32_t {
          return id < 0 ? 0 : world_size - 1;
        });
  }
  if (table == "replicated") return TableSharding::Replicated();
  if (table == "unchecked") return TableSharding::Unchecked();
  return TableSharding::BySlices();
}

bool GoldenRankSaves(const GoldenStep& step, const std::string& table,
                     int64_t id, uint32_t rank) {
  const uint32_t ranks = step.plan.world_size;
  if (ranks == 1) return true;
  if (table == "replicated") return true;  // every rank saves all rows
  if (table == "by_modulo") return static_cast<uint64_t>(id) % ranks == rank;
  if (table == "by_function") return rank == (id < 0 ? 0 : ranks - 1);
  if (table == "unchecked") return rank == (id % 5 == 0 ? 0 : 1);
  const uint32_t slice = SliceOf(id, SliceHash::kMix);
  return step.plan.slice_bounds[rank] <= slice &&
         slice < step.plan.slice_bounds[rank + size_t{1}];
}

std::optional<TensorContent> GoldenShard(const GoldenStep& step,
                                         const std::string& tensor,
                                         uint32_t rank) {
  const TensorContent& whole = step.tensors.at(tensor);
  if (!IsSharded(tensor)) {
    const bool all_ranks = tensor == "scalar";
    return rank == 0 || all_ranks ? std::optional(whole) : std::nullopt;
  }
  const size_t dimension = IsColumns(tensor) ? 1 : 0;
  TensorContent shard = whole;
  shard.global_shape = whole.shape;
  shard.shape[dimension] = 2;
  shard.offset = {0, 0};
  shard.offset[dimension] = int64_t{2} * rank;
  shard.bytes.clear();
  const uint64_t element = DTypeBytes(whole.dtype);
  for (int64_t row = 0; row < shard.shape[0]; ++row) {
    const int64_t first =
        (shard.offset[0] + row) * whole.shape[1] + shard.offset[1];
    shard.bytes +=
        whole.bytes.substr(static_cast<uint64_t>(first) * element,
                           static_cast<uint64_t>(shard.shape[1]) * element);
  }
  return shard;
}

}  // namespace ckptdb::testing
