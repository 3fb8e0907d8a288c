// SPDX-License-Identifier: Apache-2.0
// Restores rows into a hash table in device memory; internal to cuda/.
#ifndef CKPTDB_CUDA_TABLES_HASH_WRITER_H_
#define CKPTDB_CUDA_TABLES_HASH_WRITER_H_

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/types/span.h"
#include "cuda/tables/hash_rows.h"
#include "cuda/tables/score_tracker.h"
#include "cuda/tables/upload.h"
#include "db/base/mutex.h"
#include "db/reader.h"

namespace ckptdb::internal {

// A call returns when its rows are in the table. Only one batch is in flight at
// a time, because the hash table may not support concurrent calls.
class HashWriter : public LiveTable {
 public:
  // `slots` are the numbers of the slots in each batch, in their order. The
  // layout and the tracker must outlive it.
  HashWriter(const HashLayout* layout, ScoreTracker* tracker,
             std::vector<size_t> slots)
      : layout_(*layout), tracker_(tracker), slots_(std::move(slots)) {}

  absl::Status Clear() override;
  absl::Status Consume(int worker, const RowSink::Batch& batch) override;
  absl::Status Erase(int worker, absl::Span<const int64_t> ids) override;

 private:
  absl::Status Begin() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  bool HasAllSlots() const;
  absl::Status Write(const RowSink::Batch& batch, uint64_t first,
                     uint64_t count) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const HashLayout& layout_;
  ScoreTracker* const tracker_;
  const std::vector<size_t> slots_;

  Mutex mutex_;
  std::unique_ptr<HashWindow> window_ ABSL_GUARDED_BY(mutex_);
  std::unique_ptr<Upload> upload_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace ckptdb::internal

#endif  // CKPTDB_CUDA_TABLES_HASH_WRITER_H_
