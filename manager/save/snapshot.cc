// SPDX-License-Identifier: Apache-2.0
#include "manager/save/snapshot.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <functional>

#include "absl/strings/str_cat.h"
#include "db/base/call_guard.h"
#include "db/base/parallel.h"
#include "db/base/row_block.h"
#include "manager/state/poll_cancelled.h"
#include "manager/state/registered_state.h"
#include "schema/bytes/annotate.h"
#include "schema/status.h"
#include "schema/types.h"

namespace ckptdb::internal {
namespace {

// Copies begin at multiples of it, so that no two share a cache line.
constexpr uint64_t kAlignment = 64;
// The bytes of a tensor, or the approximate bytes of a table, that one task
// copies.
constexpr uint64_t kTaskBytes = uint64_t{4} << 20;

uint64_t Align(uint64_t bytes) {
  return (bytes + kAlignment - 1) / kAlignment * kAlignment;
}

// Returns InvalidArgument for a shape with too many elements, which AddTensor
// also refuses.
absl::StatusOr<uint64_t> TensorBytes(DType dtype, const Shape& shape) {
  const uint32_t element_bytes = DTypeBytes(dtype);
  CKPTDB_ASSIGN_OR_RETURN(const int64_t elements,
                          ElementCount(shape, element_bytes));
  return static_cast<uint64_t>(elements) * element_bytes;
}

// Returns the bytes of a table's copy: the ids, then the slots, each aligned.
uint64_t TableBytes(const std::vector<Slot>& slots, uint64_t rows) {
  uint64_t bytes = Align(rows * sizeof(int64_t));
  for (const Slot& slot : slots) bytes += Align(rows * slot.row_bytes());
  return bytes;
}

// Returns the bytes of one row: its id and its slots.
uint64_t RowBytes(const std::vector<Slot>& slots) {
  uint64_t bytes = sizeof(int64_t);
  for (const Slot& slot : slots) bytes += slot.row_bytes();
  return bytes;
}

// The destination of a table's copy.
struct TableCopy {
  int64_t* ids = nullptr;
  std::vector<char*> values;
  std::vector<uint64_t> row_bytes;
};

// Copies one slot of the rows [first, first + rows) of a block: row by row if
// each has its own address, with one copy if they are contiguous, and
// otherwise with row numbers and the stride.
void CopyRows(const RowBlock& block, size_t slot, uint64_t first, uint64_t rows,
              uint64_t row_bytes, char* to) {
  const RowBlock::SlotValues from = block.slots[slot];
  if (!from.places.empty()) {
    GatherRows(
        rows, row_bytes, [&](uint64_t i) { return from.At(first + i); }, to);
    return;
  }
  const char* const data = static_cast<const char*>(from.data);
  if (block.rows.empty() && from.stride_bytes == row_bytes) {
    BulkCopy(to, data + first * row_bytes, rows * row_bytes);
    return;
  }
  GatherRows(
      rows, row_bytes,
      [&](uint64_t i) {
        return data + block.RowAt(first + i) * from.stride_bytes;
      },
      to);
}

// Copies the ids and all slots of these rows to row `at` of the copy, a group
// of rows at a time: a row with adjacent slots is then still in the cache when
// its second slot is copied.
void CopyBlock(const RowBlock& block, uint64_t first, uint64_t rows,
               const TableCopy& to, uint64_t at) {
  constexpr uint64_t kTogether = 512;
  std::copy_n(block.ids.begin() + static_cast<ptrdiff_t>(first), rows,
              to.ids + at);
  for (uint64_t done = 0; done < rows; done += kTogether) {
    const uint64_t some = std::min(kTogether, rows - done);
    for (size_t s = 0; s < to.values.size(); ++s) {
      CopyRows(block, s, first + done, some, to.row_bytes[s],
               to.values[s] + (at + done) * to.row_bytes[s]);
    }
  }
}

// Prefetches the rows of a small block, as they may lie anywhere in memory. An
// empty block may have no slots.
void Prefetch(const RowBlock& block, const TableCopy& to) {
  constexpr uint64_t kLine = 64;
  constexpr uint64_t kMost = 512;  // the processor prefetches the rest
  if (block.ids.empty() || !block.rows.empty()) return;
  for (size_t s = 0; s < to.values.size(); ++s) {
    if (!block.slots[s].places.empty()) continue;
    const char* const data = static_cast<const char*>(block.slots[s].data);
    const uint64_t bytes =
        std::min(block.ids.size() * block.slots[s].stride_bytes, kMost);
    for (uint64_t at = 0; at < bytes; at += kLine) {
      __builtin_prefetch(data + at);
    }
  }
}

// Worker 0 is the calling thread, and the only one that polls.
absl::Status RunTasks(int threads,
                      const std::vector<std::function<absl::Status()>>& tasks,
                      const std::function<absl::Status()>& poll) {
  auto polled = std::chrono::steady_clock::now();
  return ParallelFor(threads, tasks.size(),
                     [&](int worker, uint64_t task) -> absl::Status {
                       if (poll && worker == 0) {
                         const auto now = std::chrono::steady_clock::now();
                         if (now - polled >= kPollEvery) {
                           polled = now;
                           CKPTDB_RETURN_IF_ERROR(poll());
                         }
                       }
                       return tasks[task]();
                     });
}

// Returns the table's whole rows; null if its columns are not divided.
WholeRows* FindWhole(const SnapshotSpec& spec, size_t table) {
  if (spec.whole_tables == nullptr) return nullptr;
  const auto found = spec.whole_tables->find(table);
  return found == spec.whole_tables->end() ? nullptr : &found->second;
}

}  // namespace

// The tasks of a copy, of similar size, and the address of the next part.
struct Snapshot::Copy {
  std::vector<std::function<absl::Status()>> tasks;
  char* next = nullptr;

  // Returns the next part of the memory that was reserved for all parts.
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
        BulkCopy(to + at, static_cast<const char*>(from) + at, part);
        return absl::OkStatus();
      });
    }
    return to;
  }

  std::unique_ptr<RowSource> AddTable(const Table& table);
  static absl::Status CopyPart(const RowSource& from, const Part& part,
                               const TableCopy& to);
};

std::unique_ptr<RowSource> Snapshot::Copy::AddTable(const Table& table) {
  const auto to = std::make_shared<TableCopy>();
  const uint64_t rows = table.row_count;
  to->ids = reinterpret_cast<int64_t*>(Take(rows * sizeof(int64_t)));
  std::vector<RowBlock::SlotValues> copied;
  for (const Slot& slot : table.item.slots) {
    to->row_bytes.push_back(slot.row_bytes());
    to->values.push_back(Take(rows * slot.row_bytes()));
    copied.push_back({to->values.back(), slot.row_bytes()});
  }
  for (const Part& part : table.parts) {
    tasks.emplace_back([to, part, from = table.rows.get()] {
      return CopyPart(*from, part, *to);
    });
  }
  return std::make_unique<RowSource::Arrays>(absl::MakeConstSpan(to->ids, rows),
                                             std::move(copied));
}

// Copies the rows of a part. Gets blocks ahead of copying them, so that the
// rows are prefetched before they are needed: a block may be a single row.
absl::Status Snapshot::Copy::CopyPart(const RowSource& from, const Part& part,
                                      const TableCopy& to) {
  constexpr uint64_t kAhead = 8;
  std::array<RowBlock, kAhead> blocks;
  const auto get = [&](uint64_t block) -> absl::Status {
    CKPTDB_ASSIGN_OR_RETURN(blocks[block % kAhead], GetBlock(from, block));
    Prefetch(blocks[block % kAhead], to);
    return absl::OkStatus();
  };
  uint64_t got = part.block;
  uint64_t skipped = part.skipped;
  uint64_t done = 0;
  for (uint64_t block = part.block; done < part.rows; ++block) {
    const uint64_t end = std::min(block + kAhead, part.block + part.blocks);
    for (; got < end; ++got) CKPTDB_RETURN_IF_ERROR(get(got));
    const RowBlock& each = blocks[block % kAhead];
    const uint64_t rows =
        std::min<uint64_t>(each.ids.size() - skipped, part.rows - done);
    CopyBlock(each, skipped, rows, to, part.row + done);
    skipped = 0;
    done += rows;
  }
  return absl::OkStatus();
}

absl::Status Snapshot::AddTensors(const ModelState& model,
                                  const SnapshotSpec& spec) {
  for (size_t t = 0; t < model.tensors().size(); ++t) {
    const RegisteredTensor& tensor = model.tensors()[t];
    const TensorState& state = tensor.state;
    // Each rank saves its own shards; one rank saves each replica.
    const bool saves_replica = t < spec.tensor_savers.size()
                                   ? spec.tensor_savers[t] == spec.rank
                                   : spec.owner;
    if (!state.sharded() && !saves_replica) continue;
    tensors_.push_back({tensor.name,
                        {state.dtype, state.shape, state.data,
                         state.global_shape, state.offset},
                        state.codec});
    CKPTDB_ASSIGN_OR_RETURN(const uint64_t bytes,
                            TensorBytes(state.dtype, state.shape));
    bytes_ += Align(bytes);
    if (state.device == nullptr) continue;
    device_bytes_ += Align(bytes);
    device_tensors_.push_back({tensors_.size() - 1, state, bytes});
  }
  // Groups the tensors by device, so that each device is called once.
  std::stable_sort(device_tensors_.begin(), device_tensors_.end(),
                   [](const DeviceTensor& a, const DeviceTensor& b) {
                     return std::less<>()(a.state.device, b.state.device);
                   });
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<Snapshot>> Snapshot::Of(
    const ModelState& model, const SnapshotSpec& spec) {
  auto snapshot = std::make_unique<Snapshot>();
  CKPTDB_RETURN_IF_ERROR(snapshot->AddTensors(model, spec));
  for (size_t t = 0; t < model.tables().size(); ++t) {
    const bool taken =
        spec.changes != nullptr && (*spec.changes)[t].has_value();
    const TableSharding sharding =
        t < spec.shardings.size() ? spec.shardings[t] : TableSharding();
    CKPTDB_RETURN_IF_ERROR(
        Annotate(CallGuarded("TableState",
                             [&] {
                               return snapshot->AddTable(
                                   model.tables()[t], spec, sharding,
                                   taken ? &*(*spec.changes)[t] : nullptr,
                                   FindWhole(spec, t));
                             }),
                 absl::StrCat("table \"", model.tables()[t].name, "\"")));
  }
  for (const RegisteredIo& io : model.io_states()) {
    CKPTDB_RETURN_IF_ERROR(snapshot->AddBlob(
        IoStateBlob(io.name),
        CallGuarded("BlobState::Dump", [&] { return io.state->Dump(); })));
  }
  for (const RegisteredExtra& extra : model.extras()) {
    if (!spec.owner) continue;
    CKPTDB_RETURN_IF_ERROR(snapshot->AddBlob(ExtraBlob(extra.name),
                                             CallGuarded("Save", extra.save)));
  }
  return snapshot;
}

absl::StatusOr<std::unique_ptr<RowSource>> Snapshot::RowsOf(
    const RegisteredTable& table, bool full,
    const ChangeTracker::Changes* changes) {
  CKPTDB_ASSIGN_OR_RETURN(
      std::unique_ptr<RowSource> rows,
      full ? table.state->AllRows() : table.state->RowsOf(changes->upserted));
  if (rows != nullptr) return rows;
  return absl::InvalidArgumentError(absl::StrCat(
      "table \"", table.name, "\": TableState::", full ? "AllRows" : "RowsOf",
      " returned null"));
}

// A device table captures its rows itself; all other tables are cut into parts
// for the copying threads.
absl::Status Snapshot::AddRows(const RegisteredTable& table,
                               const ChangeTracker::Changes* changes,
                               Table* added) {
  const absl::Span<const int64_t> ids =
      added->full ? absl::Span<const int64_t>() : changes->upserted;
  CKPTDB_ASSIGN_OR_RETURN(std::unique_ptr<TableState::Captured> captured,
                          table.state->Capture(added->full ? nullptr : &ids));
  if (captured != nullptr) {
    added->captured = captured.get();
    added->rows = std::move(captured);
    return absl::OkStatus();
  }
  CKPTDB_ASSIGN_OR_RETURN(added->rows, RowsOf(table, added->full, changes));
  return CutTable(added);
}

// Adds a table with all its rows or its changes. A rank that saves no rows of a
// replicated table adds it without rows, but with the owner's choice between
// the two.
absl::Status Snapshot::AddTable(const RegisteredTable& table,
                                const SnapshotSpec& spec,
                                const TableSharding& sharding,
                                const ChangeTracker::Changes* changes,
                                WholeRows* whole) {
  Table& added = tables_.emplace_back();
  added.item.name = table.name;
  added.item.slots = table.state->slots();
  added.item.slice_hash = table.state->slice_hash();
  added.item.sharding = sharding;
  const bool saves_rows =
      spec.owner || sharding.kind() != Item::Sharding::kReplicated;
  const auto base = spec.bases.find(table.name);
  if (base != spec.bases.end()) added.item.base_reason = base->second;
  // A rank that saves no rows follows the owner, whose reasons are in `bases`.
  const bool has_changes =
      saves_rows ? changes != nullptr : spec.changes != nullptr;
  added.full = base != spec.bases.end() || !has_changes;
  if (whole != nullptr) {
    added.captured = whole->rows.get();
    added.rows = std::move(whole->rows);
    if (!added.full) added.erased = whole->erased;
  } else if (saves_rows) {
    CKPTDB_RETURN_IF_ERROR(AddRows(table, changes, &added));
    if (!added.full) added.erased = changes->erased;
  } else {
    added.rows = std::make_unique<RowSource::Arrays>(
        absl::Span<const int64_t>(), std::vector<RowBlock::SlotValues>());
    CKPTDB_RETURN_IF_ERROR(CutTable(&added));
  }
  bytes_ += TableBytes(added.item.slots, added.row_count);
  return absl::OkStatus();
}

// A block may be a single row or the whole table.
absl::Status Snapshot::CutTable(Table* table) {
  const uint64_t most =
      std::max<uint64_t>(1, kTaskBytes / RowBytes(table->item.slots));
  CKPTDB_ASSIGN_OR_RETURN(const uint64_t blocks, CountBlocks(*table->rows));
  for (uint64_t b = 0; b < blocks; ++b) {
    CKPTDB_ASSIGN_OR_RETURN(const RowBlock block, GetBlock(*table->rows, b));
    // The caller's code made the block, and the copy trusts it.
    CKPTDB_RETURN_IF_ERROR(CheckRowBlock(b, block, table->item.slots));
    for (uint64_t skipped = 0; skipped < block.ids.size();) {
      if (table->parts.empty() || table->parts.back().rows == most) {
        table->parts.push_back({b, 0, skipped, table->row_count, 0});
      }
      Part& part = table->parts.back();
      const uint64_t rows =
          std::min<uint64_t>(block.ids.size() - skipped, most - part.rows);
      part.blocks = b + 1 - part.block;
      part.rows += rows;
      skipped += rows;
      table->row_count += rows;
    }
  }
  return absl::OkStatus();
}

absl::Status Snapshot::AddBlob(std::string name,
                               absl::StatusOr<std::string> bytes) {
  CKPTDB_RETURN_IF_ERROR(Annotate(bytes.status(), name));
  blobs_.emplace_back(std::move(name), *std::move(bytes));
  return absl::OkStatus();
}

absl::StatusOr<char*> Snapshot::Reserve(Arena* arena, uint64_t bytes) const {
  char* const memory = arena->Reserve(bytes + kAlignment);
  if (memory == nullptr) {
    return absl::ResourceExhaustedError(
        absl::StrCat("cannot allocate ", bytes,
                     " bytes for a copy of the model; lower "
                     "ManagerOptions::save.arena_bytes to copy less of it"));
  }
  return memory + Align(reinterpret_cast<uintptr_t>(memory)) -
         reinterpret_cast<uintptr_t>(memory);
}

absl::Status Snapshot::CaptureDeviceTensors(Arena* arena, uint64_t bytes) {
  CKPTDB_ASSIGN_OR_RETURN(char* const memory, Reserve(arena, bytes));
  free_memory_ = memory + device_bytes_;
  return CaptureTensors(memory);
}

// Places the device tensors at the beginning of the memory.
absl::Status Snapshot::CaptureTensors(char* memory) {
  uint64_t at = 0;
  for (size_t first = 0; first < device_tensors_.size();) {
    TensorState::Device* const device = device_tensors_[first].state.device;
    std::vector<TensorState::Device::Item> items;
    size_t end = first;
    for (; end < device_tensors_.size() &&
           device_tensors_[end].state.device == device;
         ++end) {
      const DeviceTensor& each = device_tensors_[end];
      StateTensor& tensor = tensors_[each.tensor];
      tensor.view.data = memory + at;
      items.push_back({tensor.name, &each.state, each.bytes, at});
      at += Align(each.bytes);
    }
    CKPTDB_ASSIGN_OR_RETURN(captures_.emplace_back(),
                            device->SetAside(items, memory));
    first = end;
  }
  return absl::OkStatus();
}

absl::Status Snapshot::Fetch() {
  for (const auto& capture : captures_) {
    CKPTDB_RETURN_IF_ERROR(capture->Fetch());
  }
  for (const Table& table : tables_) {
    if (table.captured == nullptr) continue;
    CKPTDB_RETURN_IF_ERROR(
        Annotate(CallGuarded("TableState::Captured::Fetch",
                             [&] { return table.captured->Fetch(); }),
                 absl::StrCat("table \"", table.item.name, "\"")));
  }
  return absl::OkStatus();
}

// Devices first: they work while the rest is copied.
absl::Status Snapshot::CopyTo(Arena* arena, int threads,
                              const std::function<absl::Status()>& poll) {
  CKPTDB_ASSIGN_OR_RETURN(char* const memory, Reserve(arena, bytes_));
  CKPTDB_RETURN_IF_ERROR(CaptureTensors(memory));
  Copy copy;
  copy.next = memory + device_bytes_;
  std::vector<bool> is_captured(tensors_.size());
  for (const DeviceTensor& each : device_tensors_) {
    is_captured[each.tensor] = true;
  }
  for (size_t t = 0; t < tensors_.size(); ++t) {
    if (is_captured[t]) continue;
    TensorView& view = tensors_[t].view;
    CKPTDB_ASSIGN_OR_RETURN(const uint64_t bytes,
                            TensorBytes(view.dtype, view.shape));
    view.data = copy.AddBytes(view.data, bytes);
  }
  // The tables point to the model until all tasks have succeeded.
  std::vector<std::unique_ptr<RowSource>> copied(tables_.size());
  for (size_t t = 0; t < tables_.size(); ++t) {
    if (tables_[t].captured == nullptr) copied[t] = copy.AddTable(tables_[t]);
  }
  CKPTDB_RETURN_IF_ERROR(RunTasks(threads, copy.tasks, poll));
  for (size_t t = 0; t < tables_.size(); ++t) {
    if (copied[t] != nullptr) tables_[t].rows = std::move(copied[t]);
  }
  return absl::OkStatus();
}

RankState Snapshot::state() const {
  RankState state;
  for (const StateTensor& tensor : tensors_) {
    state.AddTensor(tensor.name, tensor.view, tensor.codec);
  }
  for (const Table& table : tables_) {
    RankState::Table item = table.item;
    if (table.full) {
      item.rows = table.rows.get();
      // For a table with a tracker, the record contains the reason why it is
      // full.
      if (!item.base_reason.empty()) item.changes = RankState::Changes();
    } else {
      item.changes = RankState::Changes{table.rows.get(), table.erased};
    }
    state.AddTable(std::move(item));
  }
  for (const auto& [name, bytes] : blobs_) state.AddBlob(name, bytes);
  return state;
}

}  // namespace ckptdb::internal
