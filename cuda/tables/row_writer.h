// SPDX-License-Identifier: Apache-2.0
// Restores rows into a table in device memory; internal to cuda/.
//
// Each batch is copied to the device at once and scattered to its rows there.
// Digests that the device computes of the received bytes are compared with
// those of the sent bytes. A call returns when its rows are in the table, so
// nothing is pending after the last call. Calls of several workers run
// concurrently.
#ifndef CKPTDB_CUDA_TABLES_ROW_WRITER_H_
#define CKPTDB_CUDA_TABLES_ROW_WRITER_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "cuda/runtime/device_context.h"
#include "cuda/tables/device_marks.h"
#include "cuda/tables/row_index.h"
#include "cuda/tables/table_rows.h"
#include "cuda/tables/upload.h"
#include "db/base/mutex.h"
#include "db/reader.h"

namespace ckptdb::internal {

class RowWriter : public LiveTable {
 public:
  // `slots` are the numbers of the slots in each batch, in their order. The
  // context, the table and the marks must outlive it.
  RowWriter(DeviceContext* context, const TableRows* table, DeviceMarks* marks,
            std::vector<size_t> slots);
  // Waits for the queued work.
  ~RowWriter() override;

  absl::Status Clear() override;
  absl::Status Consume(int worker, const RowSink::Batch& batch) override;
  absl::Status Erase(int worker, absl::Span<const int64_t> ids) override;

 private:
  // The rows assigned to some ids.
  struct Assigned {
    std::vector<uint32_t> rows;
    std::vector<uint32_t> fresh;  // those that were empty
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
