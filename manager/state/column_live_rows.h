// SPDX-License-Identifier: Apache-2.0
// The rows of a restore into a ColumnTable; internal to manager/.
#ifndef CKPTDB_MANAGER_STATE_COLUMN_LIVE_ROWS_H_
#define CKPTDB_MANAGER_STATE_COLUMN_LIVE_ROWS_H_

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/types/span.h"
#include "db/base/call_guard.h"
#include "db/base/mutex.h"
#include "db/state.h"
#include "manager/state/columns.h"
#include "manager/tables.h"

namespace ckptdb {

// Writes the rows of a restore to the columns. A worker reserves the rows of a
// batch under a lock, because an insertion may grow the index, and copies their
// values concurrently with other workers.
class ColumnTable::LiveRows : public LiveTable {
 public:
  LiveRows(Columns* columns, std::vector<size_t> slots) : columns_(columns) {
    for (const size_t slot : slots) {
      restored_.push_back({slot, columns->row_bytes(slot)});
    }
    for (size_t slot = 0; slot < columns->slot_count(); ++slot) {
      if (std::find(slots.begin(), slots.end(), slot) == slots.end()) {
        others_.push_back({slot, columns->row_bytes(slot)});
      }
    }
  }

  absl::Status Clear() override {
    const internal::MutexLock lock(&mutex_);
    WaitForCopies();
    columns_->Clear();
    return absl::OkStatus();
  }
  absl::Status Consume(int /*worker*/, const RowSink::Batch& batch) override {
    std::vector<Place> places;
    absl::Status reserved = BeginCopy(batch.ids, &places);
    // The rows before one that failed are in the table, so they are written.
    Copy(batch, places);
    EndCopy();
    return reserved;
  }
  absl::Status Erase(int /*worker*/, absl::Span<const int64_t> ids) override {
    const internal::MutexLock lock(&mutex_);
    WaitForCopies();
    for (const int64_t id : ids) columns_->Erase(id);
    return absl::OkStatus();
  }

 private:
  using Place = Columns::Place;
  struct CopiedSlot {
    size_t slot;
    uint64_t row_bytes;
  };
  // Rows with the same stripe share a lock, adjacent rows above all, because a
  // batch usually adds adjacent rows.
  static constexpr uint64_t kStripeRows = 64;
  static constexpr uint64_t kStripes = 256;

  absl::Status BeginCopy(absl::Span<const int64_t> ids,
                         std::vector<Place>* places) {
    const internal::MutexLock lock(&mutex_);
    while (waiting_for_copies_ > 0) changed_.Wait(&mutex_);
    ++copies_;
    return internal::CallGuarded("LiveTable::Consume", [&] {
      mutex_.AssertHeld();
      return columns_->Reserve(ids, places);
    });
  }
  void EndCopy() {
    const internal::MutexLock lock(&mutex_);
    if (--copies_ == 0) changed_.NotifyAll();
  }
  // Waits until no worker copies: the memory of a row that is erased may be
  // given to another row. No copy begins while a caller waits.
  void WaitForCopies() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    ++waiting_for_copies_;
    while (copies_ > 0) changed_.Wait(&mutex_);
    if (--waiting_for_copies_ == 0) changed_.NotifyAll();
  }

  // Returns the end of the rows from `begin` on that lie side by side in one
  // stripe and are all new or all old.
  static size_t EndOfRun(const std::vector<Place>& places, size_t begin) {
    size_t end = begin + 1;
    while (end < places.size() &&
           places[end].row() == places[begin].row() + (end - begin) &&
           places[end].row() % kStripeRows != 0 &&
           places[end].is_new() == places[begin].is_new()) {
      ++end;
    }
    return end;
  }

  // An id may be in the batches of several workers, so rows are written under
  // the lock of their stripe.
  void Copy(const RowSink::Batch& batch, const std::vector<Place>& places) {
    for (size_t begin = 0; begin < places.size();) {
      const Place& first = places[begin];
      const size_t end = EndOfRun(places, begin);
      const internal::MutexLock lock(
          &stripes_[first.row() / kStripeRows % kStripes]);
      for (size_t s = 0; s < restored_.size(); ++s) {
        const auto [slot, bytes] = restored_[s];
        std::memcpy(first.ValueOf(slot, bytes), batch.slots[s] + begin * bytes,
                    (end - begin) * bytes);
      }
      if (first.is_new()) {
        for (const auto& [slot, bytes] : others_) {
          std::memset(first.ValueOf(slot, bytes), 0, (end - begin) * bytes);
        }
      }
      begin = end;
    }
  }

  std::vector<CopiedSlot> restored_;  // in the order of the batches' slots
  std::vector<CopiedSlot> others_;    // zero in rows that are added
  std::array<internal::Mutex, kStripes> stripes_;

  internal::Mutex mutex_;
  Columns* const columns_ ABSL_PT_GUARDED_BY(mutex_);
  int copies_ ABSL_GUARDED_BY(mutex_) = 0;  // batches that are being copied
  int waiting_for_copies_ ABSL_GUARDED_BY(mutex_) = 0;
  internal::ConditionVariable changed_;
};

}  // namespace ckptdb

#endif  // CKPTDB_MANAGER_STATE_COLUMN_LIVE_ROWS_H_
