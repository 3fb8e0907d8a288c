#include "ckptdb/manager/snapshot.h"

#include <algorithm>
#include <cstring>
#include <functional>

#include "absl/strings/str_cat.h"
#include "ckptdb/db/parallel.h"
#include "ckptdb/schema/annotate.h"
#include "ckptdb/schema/dtype.h"
#include "ckptdb/schema/shape.h"
#include "ckptdb/schema/status.h"

namespace ckptdb::internal {
namespace {

// Places of copies are multiples of it, so that none shares a line with
// another.
constexpr uint64_t kAlignment = 64;
// A worker copies so much of a tensor, or about so much of a table, at a time.
constexpr uint64_t kTaskBytes = uint64_t{4} << 20;

uint64_t Align(uint64_t bytes) {
  return (bytes + kAlignment - 1) / kAlignment * kAlignment;
}

absl::StatusOr<uint64_t> TensorBytes(DType dtype, const Shape& shape) {
  const uint32_t element_bytes = DTypeBytes(dtype);
  CKPTDB_ASSIGN_OR_RETURN(const int64_t elements,
                          ElementCount(shape, element_bytes));
  return static_cast<uint64_t>(elements) * element_bytes;
}

// Whether rows can be copied from it.
absl::Status CheckBlock(const RowBlock& block, size_t slots) {
  if (block.slots.size() != slots) {
    return absl::InvalidArgumentError(absl::StrCat(
        "a block has ", block.slots.size(), " slots, the table ", slots));
  }
  for (size_t s = 0; s < slots; ++s) {
    if (block.slots[s].data != nullptr || block.ids.empty()) continue;
    return absl::InvalidArgumentError(
        absl::StrCat("a block of ", block.ids.size(),
                     " rows has null for the values of slot ", s));
  }
  return absl::OkStatus();
}

absl::StatusOr<uint64_t> CountRows(const RowSource& source) {
  uint64_t rows = 0;
  for (uint64_t block = 0; block < source.block_count(); ++block) {
    CKPTDB_ASSIGN_OR_RETURN(const RowBlock each, source.Block(block));
    rows += each.ids.size();
  }
  return rows;
}

// Of a copy: the ids, then the slots, each aligned.
uint64_t TableBytes(const std::vector<Slot>& slots, uint64_t rows) {
  uint64_t bytes = Align(rows * sizeof(int64_t));
  for (const Slot& slot : slots) bytes += Align(rows * slot.row_bytes());
  return bytes;
}

void CopyRows(const SlotRows& from, uint64_t rows, uint64_t row_bytes,
              char* to) {
  const char* source = static_cast<const char*>(from.data);
  if (from.stride_bytes == row_bytes) {
    std::memcpy(to, source, rows * row_bytes);
    return;
  }
  for (uint64_t row = 0; row < rows; ++row) {
    std::memcpy(to + row * row_bytes, source + row * from.stride_bytes,
                row_bytes);
  }
}

}  // namespace

// What is copied where, in tasks of about the same size.
struct Snapshot::Copy {
  std::vector<std::function<absl::Status()>> tasks;
  char* next = nullptr;

  char* Take(uint64_t bytes) {
    char* const place = next;
    next += Align(bytes);
    return place;
  }

  const void* AddBytes(const void* from, uint64_t bytes) {
    char* const to = Take(bytes);
    for (uint64_t at = 0; at < bytes; at += kTaskBytes) {
      const uint64_t part = std::min(kTaskBytes, bytes - at);
      tasks.emplace_back([=] {
        std::memcpy(to + at, static_cast<const char*>(from) + at, part);
        return absl::OkStatus();
      });
    }
    return to;
  }

  absl::StatusOr<std::unique_ptr<RowSource>> AddTable(
      const std::vector<Slot>& slots, const RowSource& from);
};

absl::StatusOr<std::unique_ptr<RowSource>> Snapshot::Copy::AddTable(
    const std::vector<Slot>& slots, const RowSource& from) {
  CKPTDB_ASSIGN_OR_RETURN(const uint64_t rows, CountRows(from));
  auto* const ids = reinterpret_cast<int64_t*>(Take(rows * sizeof(int64_t)));
  std::vector<char*> values;
  std::vector<uint64_t> row_bytes;
  std::vector<SlotRows> copied;
  uint64_t all_bytes = sizeof(int64_t);
  for (const Slot& slot : slots) {
    row_bytes.push_back(slot.row_bytes());
    values.push_back(Take(rows * row_bytes.back()));
    copied.push_back({values.back(), row_bytes.back()});
    all_bytes += row_bytes.back();
  }
  // Blocks may be as small as a row.
  uint64_t begin = 0;
  uint64_t at = 0;
  while (begin < from.block_count()) {
    uint64_t end = begin;
    uint64_t part = 0;
    while (end < from.block_count() && part * all_bytes < kTaskBytes) {
      CKPTDB_ASSIGN_OR_RETURN(const RowBlock block, from.Block(end++));
      CKPTDB_RETURN_IF_ERROR(CheckBlock(block, slots.size()));
      part += block.ids.size();
    }
    tasks.emplace_back([=, &from]() -> absl::Status {
      uint64_t row = at;
      for (uint64_t b = begin; b < end; ++b) {
        CKPTDB_ASSIGN_OR_RETURN(const RowBlock block, from.Block(b));
        std::copy(block.ids.begin(), block.ids.end(), ids + row);
        for (size_t s = 0; s < values.size(); ++s) {
          CopyRows(block.slots[s], block.ids.size(), row_bytes[s],
                   values[s] + row * row_bytes[s]);
        }
        row += block.ids.size();
      }
      return absl::OkStatus();
    });
    begin = end;
    at += part;
  }
  return std::make_unique<ArrayRowSource>(absl::MakeConstSpan(ids, rows),
                                          std::move(copied));
}

absl::StatusOr<std::unique_ptr<Snapshot>> Snapshot::Of(
    const ModelState& model, const SnapshotSpec& spec) {
  auto snapshot = std::make_unique<Snapshot>();
  for (const ModelState::Tensor& tensor : model.tensors()) {
    const TensorState& state = tensor.state;
    if (!spec.owner && !state.sharded()) continue;
    snapshot->tensors_.push_back({tensor.name,
                                  {state.dtype, state.shape, state.data,
                                   state.global_shape, state.offset},
                                  state.codec});
    CKPTDB_ASSIGN_OR_RETURN(const uint64_t bytes,
                            TensorBytes(state.dtype, state.shape));
    snapshot->bytes_ += Align(bytes);
  }
  for (size_t t = 0; t < model.tables().size(); ++t) {
    const bool taken =
        spec.changes != nullptr && (*spec.changes)[t].has_value();
    CKPTDB_RETURN_IF_ERROR(
        Annotate(snapshot->AddTable(model.tables()[t], spec,
                                    taken ? &*(*spec.changes)[t] : nullptr),
                 absl::StrCat("table \"", model.tables()[t].name, "\"")));
  }
  for (const ModelState::Io& io : model.io_states()) {
    CKPTDB_RETURN_IF_ERROR(
        snapshot->AddBlob(IoStateBlob(io.name), io.state->Dump()));
  }
  for (const ModelState::Extra& extra : model.extras()) {
    if (!spec.owner) continue;
    CKPTDB_RETURN_IF_ERROR(
        snapshot->AddBlob(ExtraBlob(extra.name), extra.save()));
  }
  return snapshot;
}

absl::Status Snapshot::AddTable(const ModelState::Table& table,
                                const SnapshotSpec& spec,
                                const RowChanges* changes) {
  Table& added = tables_.emplace_back();
  added.item.name = table.name;
  added.item.slots = table.state->slots();
  added.item.slice_hash = table.state->slice_hash();
  const auto base = spec.bases.find(table.name);
  added.whole = base != spec.bases.end() || changes == nullptr;
  if (added.whole) {
    CKPTDB_ASSIGN_OR_RETURN(added.rows, table.state->AllRows());
    if (base != spec.bases.end()) added.item.base_reason = base->second;
  } else {
    CKPTDB_ASSIGN_OR_RETURN(added.rows, table.state->RowsOf(changes->upserted));
    added.erased = changes->erased;
  }
  CKPTDB_ASSIGN_OR_RETURN(const uint64_t rows, CountRows(*added.rows));
  bytes_ += TableBytes(added.item.slots, rows);
  return absl::OkStatus();
}

absl::Status Snapshot::AddBlob(std::string name,
                               absl::StatusOr<std::string> bytes) {
  CKPTDB_RETURN_IF_ERROR(Annotate(bytes.status(), name));
  blobs_.emplace_back(std::move(name), *std::move(bytes));
  return absl::OkStatus();
}

absl::Status Snapshot::CopyTo(Arena* arena, int threads) {
  Copy copy;
  copy.next = arena->Reserve(bytes_ + kAlignment);
  if (copy.next == nullptr) {
    return absl::ResourceExhaustedError(
        absl::StrCat("no memory for a copy of ", bytes_, " bytes"));
  }
  copy.next += Align(reinterpret_cast<uintptr_t>(copy.next)) -
               reinterpret_cast<uintptr_t>(copy.next);
  for (TensorItem& tensor : tensors_) {
    CKPTDB_ASSIGN_OR_RETURN(const uint64_t bytes,
                            TensorBytes(tensor.view.dtype, tensor.view.shape));
    tensor.view.data = copy.AddBytes(tensor.view.data, bytes);
  }
  std::vector<std::unique_ptr<RowSource>> copied;
  for (const Table& table : tables_) {
    CKPTDB_ASSIGN_OR_RETURN(copied.emplace_back(),
                            copy.AddTable(table.item.slots, *table.rows));
  }
  CKPTDB_RETURN_IF_ERROR(
      ParallelFor(threads, copy.tasks.size(),
                  [&](int, uint64_t task) { return copy.tasks[task](); }));
  for (size_t t = 0; t < tables_.size(); ++t) {
    tables_[t].rows = std::move(copied[t]);
  }
  return absl::OkStatus();
}

RankState Snapshot::state() const {
  RankState state;
  for (const TensorItem& tensor : tensors_) {
    state.AddTensor(tensor.name, tensor.view, tensor.codec);
  }
  for (const Table& table : tables_) {
    TableItem item = table.item;
    if (table.whole) {
      item.rows = table.rows.get();
      // A reason is kept of a table that could have been given as changes.
      if (!item.base_reason.empty()) item.changes.emplace();
    } else {
      item.changes = TableChanges{table.rows.get(), table.erased};
    }
    state.AddTable(std::move(item));
  }
  for (const auto& [name, bytes] : blobs_) state.AddBlob(name, bytes);
  return state;
}

}  // namespace ckptdb::internal
