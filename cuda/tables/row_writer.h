// Writes the rows of a restore to a table in device memory; internal to cuda/.
//
// Each batch goes to the device in one copy, and from there to the rows; the
// digests that the device computes of what has arrived are compared with those
// of what was sent. A call returns when its rows are in the table, so that
// there is nothing to wait for after the last one. Calls of several workers are
// on their way at once.
#ifndef CKPTDB_CUDA_TABLES_ROW_WRITER_H_
#define CKPTDB_CUDA_TABLES_ROW_WRITER_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "ckptdb/cuda/runtime/device_context.h"
#include "ckptdb/cuda/tables/device_marks.h"
#include "ckptdb/cuda/tables/row_index.h"
#include "ckptdb/cuda/tables/table_rows.h"
#include "ckptdb/cuda/tables/upload.h"
#include "ckptdb/db/base/mutex.h"
#include "ckptdb/db/reader.h"

namespace ckptdb::internal {

class RowWriter : public LiveTable {
 public:
  // `slots` are the numbers of the slots that batches have, in their order. The
  // others outlive it.
  RowWriter(DeviceContext* context, const TableRows* table, DeviceMarks* marks,
            std::vector<size_t> slots);
  // Waits for what is queued.
  ~RowWriter() override;

  absl::Status Clear() override;
  absl::Status Consume(int worker, const RowSink::Batch& batch) override;
  absl::Status Erase(int worker, absl::Span<const int64_t> ids) override;

 private:
  // The rows that some ids get.
  struct Assigned {
    std::vector<uint32_t> rows;
    std::vector<uint32_t> fresh;  // those that held nothing
  };

  absl::Status Begin() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Status Assign(absl::Span<const int64_t> ids, Assigned* assigned);
  absl::Status FreeAll();
  absl::StatusOr<std::unique_ptr<Upload>> TakeUpload();
  void ReturnUpload(std::unique_ptr<Upload> upload);
  uint64_t RowsPerUpload() const;
  absl::Status Write(const RowSink::Batch& batch, uint64_t first,
                     uint64_t count, Upload* upload);
  absl::Status Free(absl::Span<const uint32_t> rows, Upload* upload);

  DeviceContext* const context_;
  const TableRows& table_;
  DeviceMarks* const marks_;
  const std::vector<size_t> slots_;
  std::vector<size_t> other_slots_;

  Mutex mutex_;
  bool begun_ ABSL_GUARDED_BY(mutex_) = false;
  RowIndex index_ ABSL_GUARDED_BY(mutex_);
  std::vector<std::unique_ptr<Upload>> idle_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace ckptdb::internal

#endif  // CKPTDB_CUDA_TABLES_ROW_WRITER_H_
