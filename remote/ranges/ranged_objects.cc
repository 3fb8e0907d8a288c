// SPDX-License-Identifier: Apache-2.0
#include "remote/ranges/ranged_objects.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <new>

#include "absl/strings/str_cat.h"
#include "db/base/call_guard.h"
#include "db/base/cancelled.h"
#include "schema/bytes/annotate.h"
#include "schema/status.h"

namespace ckptdb::internal {

RangedObjects::PiecePtr RangedObjects::Find(const std::string& key,
                                            uint64_t cell) {
  const auto found = cells_.find({key, cell});
  return found == cells_.end() ? nullptr : found->second;
}

// Makes a piece of the cells from `cell` on that are not in memory.
RangedObjects::PiecePtr RangedObjects::Plan(const OutsideTable& table,
                                            uint64_t cell, uint64_t last_cell) {
  const uint64_t end = (table.bytes + kCellBytes - 1) / kCellBytes;
  uint64_t wanted = last_cell + 1 - cell;
  const PiecePtr before = cell > 0 ? Find(table.name, cell - 1) : nullptr;
  if (before != nullptr && before->first + before->cells == cell) {
    wanted = std::max(wanted, 2 * before->cells);
  }
  wanted = std::min({wanted, kMostCells, end - cell});
  auto piece = std::make_shared<Piece>();
  piece->key = table.name;
  piece->first = cell;
  // Opening a table reads its last blocks, which rarely fit in the last cell.
  if (cell + 1 == end && cell > 0 && before == nullptr) {
    --piece->first;
    ++wanted;
  }
  while (piece->cells < wanted &&
         Find(table.name, piece->first + piece->cells) == nullptr) {
    ++piece->cells;
  }
  const uint64_t begin_byte = piece->first * kCellBytes;
  piece->bytes = std::min(piece->cells * kCellBytes, table.bytes - begin_byte);
  // If memory runs out here, no cell refers to a piece that nobody loads.
  std::map<CellKey, PiecePtr> cells;
  for (uint64_t i = 0; i < piece->cells; ++i) {
    cells[{piece->key, piece->first + i}] = piece;
  }
  by_use_.push_front(piece);
  cells_.merge(cells);
  bytes_ += piece->bytes;
  return piece;
}

// Allocates nothing: memory may have run out.
void RangedObjects::Forget(const PiecePtr& piece) {
  std::erase_if(cells_, [&](const auto& cell) { return cell.second == piece; });
  bytes_ -= piece->bytes;
  by_use_.remove(piece);
}

// Keeps cells that are still loading.
void RangedObjects::FreeMemory() {
  for (auto it = by_use_.end();
       bytes_ > memory_bytes_ && it != by_use_.begin();) {
    const PiecePtr piece = *--it;
    if (!piece->loaded) continue;
    ++it;
    Forget(piece);
  }
}

absl::Status RangedObjects::Load(Piece* piece) {
  const std::string place = absl::StrCat(store_->Name(), "/", piece->key);
  // Not zeroed before it is overwritten.
  piece->data.reset(new (std::nothrow) char[piece->bytes]);
  if (piece->data == nullptr) {
    return absl::ResourceExhaustedError(
        absl::StrCat(place, ": cannot allocate ", piece->bytes, " bytes"));
  }
  return Annotate(store_->Get(piece->key, piece->first * kCellBytes,
                              absl::MakeSpan(piece->data.get(), piece->bytes)),
                  place);
}

// Waits for other threads' requests, some of the time without the lock.
absl::Status RangedObjects::Await() {
  constexpr std::chrono::milliseconds kPollEvery(100);
  loaded_.WaitUntil(&mutex_, std::chrono::steady_clock::now() + kPollEvery);
  mutex_.Unlock();
  absl::Status polled = CheckCancelled(cancelled_);
  mutex_.Lock();
  return polled;
}

// Returns the piece that has a cell, which this thread or another one loads.
absl::StatusOr<RangedObjects::PiecePtr> RangedObjects::Get(
    const OutsideTable& table, uint64_t cell, uint64_t last_cell) {
  PiecePtr piece;
  {
    const MutexLock lock(&mutex_);
    while (true) {
      piece = Find(table.name, cell);
      if (piece == nullptr) break;
      if (piece->loaded) {
        const auto at = std::find(by_use_.begin(), by_use_.end(), piece);
        by_use_.splice(by_use_.begin(), by_use_, at);
        return piece;
      }
      CKPTDB_RETURN_IF_ERROR(Await());
    }
    piece = Plan(table, cell, last_cell);
  }
  const absl::Status status =
      CallGuarded("ObjectStore::Get", [&] { return Load(piece.get()); });
  const MutexLock lock(&mutex_);
  piece->loaded = status.ok();
  if (!status.ok()) Forget(piece);
  FreeMemory();
  loaded_.NotifyAll();
  CKPTDB_RETURN_IF_ERROR(status);
  return piece;
}

absl::Status RangedObjects::Read(const OutsideTable& table, uint64_t offset,
                                 absl::Span<char> out) {
  const uint64_t end = offset + out.size();
  const uint64_t last_cell = (std::max<uint64_t>(end, 1) - 1) / kCellBytes;
  for (uint64_t at = offset; at < end;) {
    CKPTDB_ASSIGN_OR_RETURN(const PiecePtr piece,
                            Get(table, at / kCellBytes, last_cell));
    const uint64_t skip = at - piece->first * kCellBytes;
    const uint64_t bytes = std::min(piece->bytes - skip, end - at);
    std::memcpy(out.data() + (at - offset), piece->data.get() + skip, bytes);
    at += bytes;
  }
  return absl::OkStatus();
}

}  // namespace ckptdb::internal
