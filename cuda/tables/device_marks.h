// SPDX-License-Identifier: Apache-2.0
// Tracks the changed rows of a table in device memory; internal to cuda/.
//
// Marks are bits in device memory, set by kernels on the trainer's stream. Take
// moves them, on the side stream, to one pending set for each consumer, empties
// the set of the calling consumer, and copies the ids of its rows to the host.
// Erased ids are tracked on the host by a RowTracker and merged into the
// result.
//
// No mark is lost: if a step fails after marks were taken, they are returned;
// if that fails too, the next set is reported as incomplete.
#ifndef CKPTDB_CUDA_TABLES_DEVICE_MARKS_H_
#define CKPTDB_CUDA_TABLES_DEVICE_MARKS_H_

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "cuda/rows/row_operations.h"
#include "cuda/runtime/device_context.h"
#include "cuda/runtime/stream.h"
#include "cuda/tables/row_list.h"
#include "cuda/tables/table_rows.h"
#include "db/base/mutex.h"
#include "db/row_tracker.h"

namespace ckptdb::internal {

// Thread-safe.
class DeviceMarks : public ChangeTracker {
 public:
  static constexpr size_t kMaxConsumers = TakeMarks::kMaxOthers + 1;

  // The context and the table must outlive it.
  static absl::StatusOr<std::unique_ptr<DeviceMarks>> Make(
      DeviceContext* context, const TableRows* table, uint64_t erased_bytes);
  ~DeviceMarks() override;
  DeviceMarks(const DeviceMarks&) = delete;
  DeviceMarks& operator=(const DeviceMarks&) = delete;

  // Queue marks of rows on the table's stream; `rows` is in device memory.
  // After an error the next sets are incomplete.
  absl::Status MarkUpserted(const int32_t* rows, uint64_t count);
  absl::Status MarkUpserted(const int64_t* rows, uint64_t count);
  void MarkErased(absl::Span<const int64_t> ids) { erased_.MarkErased(ids); }

  absl::StatusOr<Consumer> AddConsumer(absl::string_view name) override;
  absl::Status RemoveConsumer(Consumer consumer) override;
  // Waits for the work queued on the table's stream. Returns OutOfRange once if
  // row numbers out of range were marked; because the intended rows are
  // unknown, the next set is incomplete. `upserted` is in row order.
  [[nodiscard]] absl::StatusOr<Changes> Take(Consumer consumer) override;
  absl::Status Return(Consumer consumer, Changes&& changes) override;

  // If `ids` is the list of a set that was taken and still exists, returns the
  // set's rows.
  std::optional<RowList> FindTaken(absl::Span<const int64_t> ids);
  // Makes work queued on the side stream from now on wait for the work queued
  // on the table's stream so far.
  absl::Status AwaitTrainer();
  // Make lists of rows, on the side stream.
  absl::StatusOr<RowList> ListAll(std::vector<int64_t>* ids);
  absl::StatusOr<RowList> Upload(absl::Span<const uint32_t> rows);
  absl::Status ReadIds(std::vector<int64_t>* ids);

 private:
  struct Waiting {
    DeviceBuffer rows;  // MarkWords of them
    // Why the next set is incomplete; empty if it is complete.
    std::string lost;
  };
  // A set that was taken and not yet saved or returned.
  struct Taken {
    std::weak_ptr<const TakenSet> key;
    RowLister::Set set;
    RowList list;
    const int64_t* ids = nullptr;  // Changes::upserted
    uint64_t ids_digest = 0;
    std::string lost;
  };

  DeviceMarks(DeviceContext* context, const TableRows* table,
              uint64_t erased_bytes, DeviceBuffer marked,
              std::unique_ptr<RowLister> lister, CudaEvent ready);

  uint64_t set_bytes() const;
  MarkWordsView view() const;
  template <typename Row>
  absl::Status Mark(const Row* rows, uint64_t count);
  absl::Status AwaitTrainerLocked() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Status TakeRows(Consumer consumer, Changes* changes)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Status ListTaken(Waiting* waiting, Taken* taken, Changes* changes)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Status CheckReport() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void ReturnMarksOf(const RowLister::Set& set, Waiting* waiting)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void MarkAllIncomplete(absl::string_view reason)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void DropSavedSets() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  DeviceContext* const context_;
  const TableRows& table_;
  RowTracker erased_;
  const DeviceBuffer marked_;
  MarkReport* const report_;  // of lister_

  Mutex mutex_;
  const std::unique_ptr<RowLister> lister_ ABSL_PT_GUARDED_BY(mutex_);
  const CudaEvent ready_ ABSL_GUARDED_BY(mutex_);
  std::map<uint32_t, Waiting> waiting_ ABSL_GUARDED_BY(mutex_);
  std::vector<Taken> taken_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace ckptdb::internal

#endif  // CKPTDB_CUDA_TABLES_DEVICE_MARKS_H_
