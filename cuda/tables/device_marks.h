// A tracker of the changed rows of a table in device memory; internal to cuda/.
//
// Marks are bits in device memory, which kernels of the trainer's stream set.
// A Take moves them, on the side stream, to a set of each consumer, empties
// that of its own, and brings the ids of its rows to the host. Erased ids are
// marked on the host, in a RowTracker, whose sets these add to.
//
// No mark is lost: what fails after marks were taken gives them back, and if
// that fails too, the next set says that it is not complete.
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
#include "ckptdb/cuda/rows/row_operations.h"
#include "ckptdb/cuda/runtime/device_context.h"
#include "ckptdb/cuda/runtime/stream.h"
#include "ckptdb/cuda/tables/row_list.h"
#include "ckptdb/cuda/tables/table_rows.h"
#include "ckptdb/db/base/mutex.h"
#include "ckptdb/db/row_tracker.h"

namespace ckptdb::internal {

// Thread-safe.
class DeviceMarks : public ChangeTracker {
 public:
  static constexpr size_t kMaxConsumers = TakeMarks::kMaxOthers + 1;

  // The context and the table outlive it.
  static absl::StatusOr<std::unique_ptr<DeviceMarks>> Make(
      DeviceContext* context, const TableRows* table,
      const RowTracker::Options& erased);
  ~DeviceMarks() override;
  DeviceMarks(const DeviceMarks&) = delete;
  DeviceMarks& operator=(const DeviceMarks&) = delete;

  // Queue marks of rows on the stream of the table; `rows` is device memory.
  // After an error the next sets are not complete.
  absl::Status MarkUpserted(const int32_t* rows, uint64_t count);
  absl::Status MarkUpserted(const int64_t* rows, uint64_t count);
  void MarkErased(absl::Span<const int64_t> ids) { erased_.MarkErased(ids); }

  absl::StatusOr<Consumer> AddConsumer(absl::string_view name) override;
  absl::Status RemoveConsumer(Consumer consumer) override;
  // Waits for what is queued on the stream of the table. Returns OutOfRange
  // once for marks of rows that there are not: what they were meant for is not
  // known, so the next set is not complete. `upserted` is in the order of rows.
  [[nodiscard]] absl::StatusOr<Changes> Take(Consumer consumer) override;
  absl::Status Return(Consumer consumer, Changes&& changes) override;

  // Returns the rows of these ids, if `ids` is the list of a set that was taken
  // and is still there, as it was then.
  std::optional<RowList> FindTaken(absl::Span<const int64_t> ids);
  // Makes what is queued on the side stream from now on come after what was
  // queued on the stream of the table.
  absl::Status AwaitTrainer();
  // Make lists of rows, on the side stream.
  absl::StatusOr<RowList> ListAll(std::vector<int64_t>* ids);
  absl::StatusOr<RowList> Upload(absl::Span<const uint32_t> rows);
  absl::Status ReadIds(std::vector<int64_t>* ids);

 private:
  struct Waiting {
    DeviceBuffer rows;  // MarkWords of them
    // The reason why the next set is not complete; empty: it is.
    std::string lost;
  };
  // A set that was taken and is neither saved nor returned.
  struct Taken {
    std::weak_ptr<const TakenSet> key;
    RowLister::Set set;
    RowList list;
    const int64_t* ids = nullptr;  // as the changes have them
    uint64_t ids_digest = 0;
    std::string lost;
  };

  DeviceMarks(DeviceContext* context, const TableRows* table,
              const RowTracker::Options& erased, DeviceBuffer marked,
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
  void GiveBack(const RowLister::Set& set, Waiting* waiting)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void LoseAll(absl::string_view reason) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void ForgetSaved() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

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
