// SPDX-License-Identifier: Apache-2.0
#include "tools/step_diff.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <map>
#include <memory>
#include <set>
#include <tuple>
#include <utility>

#include "absl/strings/str_cat.h"
#include "schema/status.h"
#include "schema/types.h"
#include "tools/json.h"
#include "tools/tensor_scan.h"

namespace ckptdb::tool {
namespace {

// Tensors are read and compared in boxes of at most this size, up to the first
// box that differs.
constexpr uint64_t kPieceBytes = uint64_t{16} << 20;

using PartsByName = std::map<std::string, std::vector<const Item*>>;

// A step's items by name, with their parts by rank.
struct ItemIndex {
  explicit ItemIndex(const StepReader& step) {
    for (const StepRecord::Rank& rank : step.ranks()) {
      for (const Item& item : rank.items) {
        if (item.kind == Item::Kind::kTensor)
          tensors[item.name].push_back(&item);
        if (item.kind == Item::Kind::kRows) tables[item.name].push_back(&item);
        if (item.kind == Item::Kind::kBlob)
          blobs[{item.name, rank.rank}] = &item;
      }
    }
  }

  PartsByName tensors;
  PartsByName tables;
  std::map<std::pair<std::string, uint32_t>, const Item*> blobs;
};

// Returns the keys of both maps.
template <typename Map>
std::set<typename Map::key_type> KeysOf(const Map& a, const Map& b) {
  std::set<typename Map::key_type> keys;
  for (const auto& [key, value] : a) keys.insert(key);
  for (const auto& [key, value] : b) keys.insert(key);
  return keys;
}

template <typename Map>
const typename Map::mapped_type* FindIn(const Map& map,
                                        const typename Map::key_type& key) {
  const auto found = map.find(key);
  return found == map.end() ? nullptr : &found->second;
}

// NaN equals itself here, because it has not changed.
bool SameNumber(double a, double b) {
  return a == b || (std::isnan(a) && std::isnan(b));
}

std::vector<MetricDiff> CompareMetrics(const Metrics& from, const Metrics& to) {
  std::vector<MetricDiff> diffs;
  for (const std::string& name : KeysOf(from, to)) {
    const double* const old_value = FindIn(from, name);
    const double* const new_value = FindIn(to, name);
    if (old_value != nullptr && new_value != nullptr &&
        SameNumber(*old_value, *new_value)) {
      continue;
    }
    MetricDiff& diff = diffs.emplace_back();
    diff.name = name;
    if (old_value != nullptr) diff.from = *old_value;
    if (new_value != nullptr) diff.to = *new_value;
  }
  return diffs;
}

std::vector<BlobDiff> CompareBlobs(const ItemIndex& from, const ItemIndex& to) {
  std::vector<BlobDiff> diffs;
  for (const auto& key : KeysOf(from.blobs, to.blobs)) {
    const auto* const old_blob = FindIn(from.blobs, key);
    const auto* const new_blob = FindIn(to.blobs, key);
    if (old_blob != nullptr && new_blob != nullptr &&
        (*old_blob)->digest == (*new_blob)->digest &&
        (*old_blob)->raw_bytes == (*new_blob)->raw_bytes) {
      continue;
    }
    BlobDiff& diff = diffs.emplace_back();
    std::tie(diff.name, diff.rank) = key;
    if (old_blob != nullptr) diff.from_bytes = (*old_blob)->raw_bytes;
    if (new_blob != nullptr) diff.to_bytes = (*new_blob)->raw_bytes;
  }
  return diffs;
}

enum class Answer { kSame, kDiffer, kUnknown };

// The digest of each part by offset and shape; replicas have the same digest.
using PartDigests = std::map<std::pair<Shape, Shape>, uint64_t>;

PartDigests DigestsOf(const std::vector<const Item*>& parts) {
  PartDigests digests;
  for (const Item* const part : parts) {
    digests.emplace(std::make_pair(part->offset, part->shape), part->digest);
  }
  return digests;
}

// Compares parts at the same place. If some parts have no counterpart and no
// digest differs, the data must be read.
Answer CompareDigests(const PartDigests& from, const PartDigests& to) {
  bool all = from.size() == to.size();
  for (const auto& [box, digest] : from) {
    const uint64_t* const other = FindIn(to, box);
    if (other != nullptr && *other != digest) return Answer::kDiffer;
    all = all && other != nullptr;
  }
  return all ? Answer::kSame : Answer::kUnknown;
}

class Comparer {
 public:
  Comparer(const StepReader& from, const StepReader& to,
           const ChangeReader* changes, const DiffOptions& options,
           StepDiff* diff)
      : from_(from),
        to_(to),
        changes_(changes),
        options_(options),
        diff_(diff) {}

  absl::Status AddTensors(const PartsByName& from, const PartsByName& to);
  absl::Status AddTables(const PartsByName& from, const PartsByName& to);

 private:
  absl::Status CompareTensor(const std::vector<const Item*>& from,
                             const std::vector<const Item*>& to,
                             TensorDiff* diff);
  absl::Status CompareNumbers(TensorDiff* diff);
  absl::StatusOr<bool> HaveSameContent(const std::string& name,
                                       const Item& spec);
  absl::Status CompareRows(const std::vector<const Item*>& from,
                           const std::vector<const Item*>& to, TableDiff* diff);
  absl::Status CompareValues(const std::vector<const Item*>& from,
                             const std::vector<const Item*>& to,
                             TableDiff* diff);

  const StepReader& from_;
  const StepReader& to_;
  const ChangeReader* const changes_;  // null: no delta runs connect the steps
  const DiffOptions& options_;
  StepDiff* const diff_;
};

absl::Status Comparer::AddTensors(const PartsByName& from,
                                  const PartsByName& to) {
  for (const std::string& name : KeysOf(from, to)) {
    TensorDiff diff;
    diff.name = name;
    const auto* const old_parts = FindIn(from, name);
    const auto* const new_parts = FindIn(to, name);
    if (old_parts != nullptr) {
      CKPTDB_ASSIGN_OR_RETURN(diff.from, from_.FindTensor(name));
    }
    if (new_parts != nullptr) {
      CKPTDB_ASSIGN_OR_RETURN(diff.to, to_.FindTensor(name));
    }
    if (old_parts != nullptr && new_parts != nullptr) {
      CKPTDB_RETURN_IF_ERROR(CompareTensor(*old_parts, *new_parts, &diff));
      CKPTDB_RETURN_IF_ERROR(CompareNumbers(&diff));
      if (diff.differs.empty()) continue;
    }
    diff_->tensors.push_back(std::move(diff));
  }
  return absl::OkStatus();
}

absl::Status Comparer::CompareTensor(const std::vector<const Item*>& from,
                                     const std::vector<const Item*>& to,
                                     TensorDiff* diff) {
  if (diff->from->dtype != diff->to->dtype) diff->differs.emplace_back("dtype");
  if (diff->from->shape != diff->to->shape) diff->differs.emplace_back("shape");
  // Contents with different dtypes or shapes cannot be compared.
  if (!diff->differs.empty()) return absl::OkStatus();
  Answer answer = CompareDigests(DigestsOf(from), DigestsOf(to));
  if (answer == Answer::kUnknown) {
    CKPTDB_ASSIGN_OR_RETURN(const bool same,
                            HaveSameContent(diff->name, *diff->to));
    answer = same ? Answer::kSame : Answer::kDiffer;
  }
  if (answer == Answer::kDiffer) diff->differs.emplace_back("content");
  return absl::OkStatus();
}

// Compares the numbers of a tensor that differs. One within the tolerance does
// not.
absl::Status Comparer::CompareNumbers(TensorDiff* diff) {
  if (!options_.values || diff->differs.empty() ||
      diff->from->shape != diff->to->shape) {
    return absl::OkStatus();
  }
  CKPTDB_ASSIGN_OR_RETURN(
      diff->numbers, CompareTensorNumbers(from_, *diff->from, to_, *diff->to));
  ++diff_->tensors_read;
  ++diff_->tensors_compared;
  diff_->tensor_read_bytes += diff->from->raw_bytes + diff->to->raw_bytes;
  const bool within = options_.rows.tolerance.has_value() &&
                      diff->numbers->max_abs <= *options_.rows.tolerance;
  if (within && diff->from->dtype == diff->to->dtype) diff->differs.clear();
  return absl::OkStatus();
}

// Reads both tensors up to the first box that differs.
absl::StatusOr<bool> Comparer::HaveSameContent(const std::string& name,
                                               const Item& spec) {
  ++diff_->tensors_read;
  std::string old_bytes;
  std::string new_bytes;
  for (const TensorBox& box :
       DivideBox(WholeOf(spec), spec.dtype, kPieceBytes)) {
    const uint64_t bytes = BytesOf(box, spec.dtype);
    old_bytes.resize(bytes);
    new_bytes.resize(bytes);
    CKPTDB_RETURN_IF_ERROR(from_.ReadTensorPart(name, box.offset, box.shape,
                                                old_bytes.data(), bytes));
    CKPTDB_RETURN_IF_ERROR(to_.ReadTensorPart(name, box.offset, box.shape,
                                              new_bytes.data(), bytes));
    diff_->tensor_read_bytes += 2 * bytes;
    if (old_bytes != new_bytes) return false;
  }
  return true;
}

bool SameType(const Slot& a, const Slot& b) {
  return a.dtype == b.dtype && a.elements == b.elements;
}

const Slot* FindSlot(const std::vector<Slot>& slots, const std::string& name) {
  const auto found =
      std::find_if(slots.begin(), slots.end(),
                   [&](const Slot& slot) { return slot.name == name; });
  return found == slots.end() ? nullptr : &*found;
}

// Returns the slots whose position changed, if nothing else differs.
std::vector<SlotDiff> MovedSlots(const std::vector<Slot>& from,
                                 const std::vector<Slot>& to) {
  std::vector<SlotDiff> diffs;
  for (size_t i = 0; i < from.size(); ++i) {
    if (from[i].name == to[i].name) continue;
    diffs.push_back({from[i].name, from[i], from[i]});
  }
  return diffs;
}

std::vector<SlotDiff> CompareSlots(const std::vector<Slot>& from,
                                   const std::vector<Slot>& to) {
  std::vector<SlotDiff> diffs;
  for (const Slot& slot : from) {
    const Slot* const other = FindSlot(to, slot.name);
    if (other == nullptr) {
      diffs.push_back({slot.name, slot, std::nullopt});
    } else if (!SameType(slot, *other)) {
      diffs.push_back({slot.name, slot, *other});
    }
  }
  for (const Slot& slot : to) {
    if (FindSlot(from, slot.name) == nullptr) {
      diffs.push_back({slot.name, std::nullopt, slot});
    }
  }
  return diffs.empty() ? MovedSlots(from, to) : diffs;
}

// Returns whether the digests show that both full tables have the same rows.
// Different digests prove nothing, because pages may begin at different rows.
bool SameRuns(const std::vector<const Item*>& from,
              const std::vector<const Item*>& to) {
  return std::equal(from.begin(), from.end(), to.begin(), to.end(),
                    [](const Item* a, const Item* b) {
                      return a->run == Item::Run::kBase &&
                             b->run == Item::Run::kBase && a->rows == b->rows &&
                             a->digest == b->digest;
                    });
}

std::optional<uint64_t> WholeRows(const std::vector<const Item*>& parts) {
  uint64_t rows = 0;
  for (const Item* const part : parts) {
    if (part->run != Item::Run::kBase) return std::nullopt;
    rows += part->rows;
  }
  return rows;
}

absl::Status Comparer::AddTables(const PartsByName& from,
                                 const PartsByName& to) {
  for (const std::string& name : KeysOf(from, to)) {
    TableDiff diff;
    diff.name = name;
    const auto* const old_parts = FindIn(from, name);
    const auto* const new_parts = FindIn(to, name);
    diff.in_from = old_parts != nullptr;
    diff.in_to = new_parts != nullptr;
    if (diff.in_from) diff.from_rows = WholeRows(*old_parts);
    if (diff.in_to) diff.to_rows = WholeRows(*new_parts);
    if (diff.in_from && diff.in_to) {
      const Item& old_part = *old_parts->front();
      const Item& new_part = *new_parts->front();
      diff.slots = CompareSlots(old_part.slots, new_part.slots);
      diff.slice_hash_differs = old_part.slice_hash != new_part.slice_hash;
      CKPTDB_RETURN_IF_ERROR(options_.values
                                 ? CompareValues(*old_parts, *new_parts, &diff)
                                 : CompareRows(*old_parts, *new_parts, &diff));
      const bool same_rows = diff.values.has_value()
                                 ? diff.values->same()
                                 : diff.rows.has_value() &&
                                       diff.rows->upserted == 0 &&
                                       diff.rows->erased == 0;
      if (same_rows && !diff.layout_differs()) continue;
    }
    diff_->tables.push_back(std::move(diff));
  }
  return absl::OkStatus();
}

// Counts the rows that a table would receive.
class RowCounter : public LiveTable {
 public:
  absl::Status Clear() override { return absl::OkStatus(); }
  absl::Status Consume(int, const RowSink::Batch& batch) override {
    upserted_ += batch.ids.size();
    return absl::OkStatus();
  }
  absl::Status Erase(int, absl::Span<const int64_t> ids) override {
    erased_ += ids.size();
    return absl::OkStatus();
  }

  RowCounts counts() const { return {upserted_, erased_}; }

 private:
  std::atomic<uint64_t> upserted_ = 0;
  std::atomic<uint64_t> erased_ = 0;
};

absl::Status Comparer::CompareRows(const std::vector<const Item*>& from,
                                   const std::vector<const Item*>& to,
                                   TableDiff* diff) {
  // Equal digests of full tables prove equal rows, so no ids need to be read.
  if (!diff->layout_differs() && SameRuns(from, to)) {
    diff->rows = RowCounts();
    return absl::OkStatus();
  }
  diff->not_counted_reason = diff_->not_incremental_reason;
  if (changes_ == nullptr) return absl::OkStatus();
  RowCounter counter;
  ScanOptions options;
  // Counting does not need values.
  options.ids_only = true;
  const absl::Status status =
      changes_->ScanTable(diff->name, options, &counter);
  // The table was saved in full in between: its rows are not counted, and the
  // reason is printed.
  if (absl::IsFailedPrecondition(status)) {
    diff->not_counted_reason = Str(status.message());
    return absl::OkStatus();
  }
  CKPTDB_RETURN_IF_ERROR(status);
  ++diff_->tables_counted;
  diff->rows = counter.counts();
  if (!options_.exact || diff->rows->upserted + diff->rows->erased == 0) {
    return absl::OkStatus();
  }
  CKPTDB_ASSIGN_OR_RETURN(
      diff->values,
      DiffRowsByChanges(from_, *changes_, diff->name, options_.rows));
  return absl::OkStatus();
}

absl::Status Comparer::CompareValues(const std::vector<const Item*>& from,
                                     const std::vector<const Item*>& to,
                                     TableDiff* diff) {
  if (!diff->layout_differs() && SameRuns(from, to)) {
    diff->values = RowDiff();
    return absl::OkStatus();
  }
  absl::StatusOr<RowDiff> values =
      absl::FailedPreconditionError("no delta runs are used");
  if (changes_ != nullptr && !options_.scan) {
    values = DiffRowsByChanges(from_, *changes_, diff->name, options_.rows);
  }
  // The table was saved in full in between, for example.
  if (absl::IsFailedPrecondition(values.status())) {
    values = DiffRowsByScan(from_, to_, diff->name, options_.rows);
  }
  CKPTDB_RETURN_IF_ERROR(values.status());
  diff->values = *std::move(values);
  return absl::OkStatus();
}

// Returns null, and sets the reason in the diff, if no delta runs connect the
// steps.
absl::StatusOr<std::unique_ptr<ChangeReader>> OpenDeltas(Reader* reader,
                                                         StepDiff* diff) {
  const Version& to = diff->to.version;
  if (reader == nullptr) {
    diff->not_incremental_reason = "the steps are in two stores";
    return nullptr;
  }
  auto changes = reader->OpenChanges(diff->from.version, to.step);
  if (absl::IsFailedPrecondition(changes.status())) {
    diff->not_incremental_reason = Str(changes.status().message());
    return nullptr;
  }
  if (absl::IsNotFound(changes.status())) {
    return absl::AbortedError(absl::StrCat(
        ToString(to),
        " was removed while it was compared: ", changes.status().message()));
  }
  CKPTDB_RETURN_IF_ERROR(changes.status());
  if ((*changes)->to().record().version == to) return changes;
  return absl::AbortedError(absl::StrCat(
      ToString(to), " was overwritten by ",
      ToString((*changes)->to().record().version), " while it was compared"));
}

}  // namespace

// One difference decides. A table whose difference is unknown leaves it open
// only if nothing else differs.
std::optional<bool> StepDiff::same() const {
  const auto unknown = [](const TableDiff& diff) { return diff.unknown(); };
  if (!metrics.empty() || !tensors.empty() || !blobs.empty() ||
      !std::all_of(tables.begin(), tables.end(), unknown)) {
    return false;
  }
  if (tables.empty()) return true;
  return std::nullopt;
}

absl::string_view ChangeName(bool in_from, bool in_to) {
  if (in_from && in_to) return "changed";
  return in_to ? "added" : "removed";
}

absl::StatusOr<StepDiff> CompareSteps(Reader* reader, const StepReader& from,
                                      const StepReader& to,
                                      const DiffOptions& options) {
  StepDiff diff;
  diff.from = from.record();
  diff.to = to.record();
  CKPTDB_ASSIGN_OR_RETURN(const auto changes, OpenDeltas(reader, &diff));
  const ItemIndex old_items(from);
  const ItemIndex new_items(to);
  diff.metrics = CompareMetrics(diff.from.metrics, diff.to.metrics);
  diff.blobs = CompareBlobs(old_items, new_items);
  Comparer comparer(from, to, changes.get(), options, &diff);
  CKPTDB_RETURN_IF_ERROR(
      comparer.AddTensors(old_items.tensors, new_items.tensors));
  CKPTDB_RETURN_IF_ERROR(
      comparer.AddTables(old_items.tables, new_items.tables));
  return diff;
}

}  // namespace ckptdb::tool
