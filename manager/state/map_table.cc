// SPDX-License-Identifier: Apache-2.0
// Rows in the trainer's map: a save finds them and a restore inserts them.
#include <algorithm>
#include <cstring>
#include <limits>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/strings/str_cat.h"
#include "db/base/mutex.h"
#include "db/base/parallel.h"
#include "manager/map_table.h"
#include "schema/status.h"

namespace ckptdb::internal {
namespace {

// The number of rows that a thread looks up at a time.
constexpr size_t kIdsPerTask = 4096;

std::vector<Slot> SlotsOf(const std::vector<AnyField>& fields) {
  std::vector<Slot> slots;
  for (const AnyField& field : fields) slots.push_back(field.slot);
  return slots;
}

// Returns the first error in the constructor's arguments.
absl::Status CheckMap(const RowMap* map, const std::vector<AnyField>& fields) {
  if (map == nullptr) return absl::InvalidArgumentError("the map is null");
  for (const AnyField& field : fields) {
    CKPTDB_RETURN_IF_ERROR(field.status);
  }
  return absl::OkStatus();
}

}  // namespace

// Makes a field whose type has `type_elements` elements, or 0 for a
// std::vector, whose number of elements is `options.dim`. A field carries its
// error, as its constructor cannot return one.
AnyField NewField(std::string name, DType dtype, size_t type_elements,
                  const TableOptions::Field& options, bool is_null) {
  constexpr size_t kMost = std::numeric_limits<uint32_t>::max();
  AnyField field;
  if (is_null) {
    field.status = absl::InvalidArgumentError(
        absl::StrCat("the member of field \"", name, "\" is null"));
  } else if (type_elements == 0 && options.dim == 0) {
    field.status = absl::InvalidArgumentError(absl::StrCat(
        "field \"", name,
        "\" is a std::vector; set its TableOptions::Field::dim to the number "
        "of elements, at least 1"));
  } else if (type_elements != 0 && options.dim != 0 &&
             options.dim != type_elements) {
    field.status = absl::InvalidArgumentError(absl::StrCat(
        "field \"", name, "\" has TableOptions::Field::dim ", options.dim,
        " but a type of ", type_elements, " elements"));
  }
  const size_t elements = type_elements == 0 ? options.dim : type_elements;
  field.slot = {std::move(name), dtype,
                static_cast<uint32_t>(std::min(elements, kMost)),
                options.codec};
  return field;
}

// Has is called for each node of a walk. An unset filter bit answers it, so the
// sorted list is rarely searched.
void Cuts::Add(const void* address) {
  filter_[Bit(address) / kWordBits] |= uint64_t{1} << Bit(address) % kWordBits;
  sorted_.push_back(address);
}

void Cuts::Sort() { std::sort(sorted_.begin(), sorted_.end()); }

bool Cuts::IsThere(const void* address) const {
  return std::binary_search(sorted_.begin(), sorted_.end(), address);
}

// The rows in place, with one block for each task that found some.
class AnyMapTable::Rows : public RowSource {
 public:
  explicit Rows(const AnyMapTable& table) : table_(table) {}

  absl::Status FindAll() {
    const std::unique_ptr<RowWalk> walk = table_.map_->Walk();
    parts_.resize(walk->tasks());
    return ForParts([&](uint64_t task, Part* part) {
      walk->Run(task, &part->found);
      part->ids = part->found.ids;
      return Locate(part);
    });
  }

  absl::Status Find(absl::Span<const int64_t> ids) {
    parts_.resize((ids.size() + kIdsPerTask - 1) / kIdsPerTask);
    return ForParts([&](uint64_t task, Part* part) {
      part->ids = ids.subspan(task * kIdsPerTask, kIdsPerTask);
      std::vector<const void*>& rows = part->found.rows;
      rows.resize(part->ids.size());
      table_.map_->Find(part->ids, rows.data());
      const auto missing = std::find(rows.begin(), rows.end(), nullptr);
      if (missing == rows.end()) return Locate(part);
      return absl::InternalError(absl::StrCat(
          "row ", part->ids[static_cast<size_t>(missing - rows.begin())],
          " was marked as upserted but is not in the map; call MarkErased for "
          "each row that is removed"));
    });
  }

  uint64_t block_count() const override { return parts_.size(); }
  absl::StatusOr<RowBlock> Block(uint64_t block) const override {
    return RowBlock{parts_[block].ids, parts_[block].slots};
  }

 private:
  struct Part {
    absl::Span<const int64_t> ids;
    FoundRows found;
    std::vector<std::vector<const void*>> vectors;  // that rows point to
    std::vector<RowBlock::SlotValues> slots;
  };

  absl::Status ForParts(
      const std::function<absl::Status(uint64_t task, Part* part)>& find) {
    return ParallelFor(
        table_.options().threads, parts_.size(),
        [&](int, uint64_t task) { return find(task, &parts_[task]); });
  }

  // Finds the addresses of the values of each field.
  absl::Status Locate(Part* part) const {
    const std::vector<const void*>& rows = part->found.rows;
    if (rows.empty()) return absl::OkStatus();
    part->vectors.reserve(table_.fields_.size());
    for (const AnyField& field : table_.fields_) {
      RowBlock::SlotValues& slot = part->slots.emplace_back();
      // A field inside the row has the same offset in all rows, so the rows'
      // addresses serve all such fields. A vector allocates separate memory for
      // each row.
      if (field.in_row) {
        const auto* const row = static_cast<const char*>(rows[0]);
        slot.offset_bytes = static_cast<uint64_t>(
            static_cast<const char*>(field.find(row)) - row);
        slot.places = rows;
      } else {
        CKPTDB_ASSIGN_OR_RETURN(part->vectors.emplace_back(),
                                FindVectors(field, *part));
        slot.places = part->vectors.back();
      }
    }
    return absl::OkStatus();
  }

  // Returns the address of the vector's elements in each row. A vector of
  // another size than declared cannot be stored in a slot.
  static absl::StatusOr<std::vector<const void*>> FindVectors(
      const AnyField& field, const Part& part) {
    std::vector<const void*> values;
    values.reserve(part.ids.size());
    for (size_t i = 0; i < part.ids.size(); ++i) {
      values.push_back(field.find(part.found.rows[i]));
      if (values.back() != nullptr) continue;
      return absl::FailedPreconditionError(absl::StrCat(
          "the std::vector of slot \"", field.slot.name, "\" of row ",
          part.ids[i], " does not have ", field.slot.elements,
          " elements, as TableOptions::Field::dim requires"));
    }
    return values;
  }

  const AnyMapTable& table_;
  std::vector<Part> parts_;
};

// Inserts restored rows into the map. The workers take turns, because the map
// is the trainer's and need not be thread-safe.
class AnyMapTable::LiveRows : public LiveTable {
 public:
  // `vectors` are fields that are not restored but must be sized in new rows.
  LiveRows(RowMap* map, std::vector<const AnyField*> fields,
           std::vector<const AnyField*> vectors)
      : map_(map), fields_(std::move(fields)), vectors_(std::move(vectors)) {}

  absl::Status Clear() override {
    const MutexLock lock(&mutex_);
    map_->Clear();
    return absl::OkStatus();
  }
  absl::Status Consume(int /*worker*/, const RowSink::Batch& batch) override {
    const MutexLock lock(&mutex_);
    for (size_t r = 0; r < batch.ids.size(); ++r) {
      void* const row = map_->Insert(batch.ids[r]);
      for (size_t f = 0; f < fields_.size(); ++f) {
        const uint64_t bytes = fields_[f]->slot.row_bytes();
        std::memcpy(fields_[f]->make(row), batch.slots[f] + r * bytes, bytes);
      }
      for (const AnyField* const field : vectors_) field->make(row);
    }
    return absl::OkStatus();
  }
  absl::Status Erase(int /*worker*/, absl::Span<const int64_t> ids) override {
    const MutexLock lock(&mutex_);
    for (const int64_t id : ids) map_->Erase(id);
    return absl::OkStatus();
  }

 private:
  Mutex mutex_;
  RowMap* const map_ ABSL_PT_GUARDED_BY(mutex_);
  const std::vector<const AnyField*> fields_;
  const std::vector<const AnyField*> vectors_;
};

AnyMapTable::AnyMapTable(std::unique_ptr<RowMap> map,
                         std::vector<AnyField> fields, TableOptions options)
    : AdaptedTable(CheckMap(map.get(), fields), SlotsOf(fields),
                   std::move(options)),
      fields_(std::move(fields)),
      map_(std::move(map)),
      tracker_(this->options().tracker_bytes) {}

AnyMapTable::~AnyMapTable() = default;

void AnyMapTable::MarkUpserted(absl::Span<const int64_t> ids) {
  tracker_.MarkUpserted(ids);
}

void AnyMapTable::MarkErased(absl::Span<const int64_t> ids) {
  tracker_.MarkErased(ids);
}

RowTracker* AnyMapTable::tracker() { return &tracker_; }

absl::StatusOr<std::unique_ptr<RowSource>> AnyMapTable::AllRows() const {
  CKPTDB_RETURN_IF_ERROR(status());
  auto rows = std::make_unique<Rows>(*this);
  CKPTDB_RETURN_IF_ERROR(rows->FindAll());
  return rows;
}

absl::StatusOr<std::unique_ptr<RowSource>> AnyMapTable::RowsOf(
    absl::Span<const int64_t> ids) const {
  CKPTDB_RETURN_IF_ERROR(status());
  auto rows = std::make_unique<Rows>(*this);
  CKPTDB_RETURN_IF_ERROR(rows->Find(ids));
  return rows;
}

LiveTable* AnyMapTable::Live(absl::Span<const std::string> slots) {
  const std::optional<std::vector<size_t>> chosen = FindSlots(slots);
  if (!chosen.has_value()) return nullptr;
  std::vector<const AnyField*> fields;
  for (const size_t slot : *chosen) fields.push_back(&fields_[slot]);
  // A row that a restore inserts has empty vectors in the fields that are not
  // loaded; they are sized, because the next save would fail otherwise.
  std::vector<const AnyField*> vectors;
  for (const AnyField& field : fields_) {
    const bool is_chosen =
        std::find(fields.begin(), fields.end(), &field) != fields.end();
    if (!field.in_row && !is_chosen) vectors.push_back(&field);
  }
  live_ = std::make_unique<LiveRows>(map_.get(), std::move(fields),
                                     std::move(vectors));
  return live_.get();
}

}  // namespace ckptdb::internal
