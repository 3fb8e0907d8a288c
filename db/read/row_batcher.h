// SPDX-License-Identifier: Apache-2.0
// Passes rows to a sink in batches large enough to be worth a call; internal to
// db/.
#ifndef CKPTDB_DB_READ_ROW_BATCHER_H_
#define CKPTDB_DB_READ_ROW_BATCHER_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "db/read/run_merge.h"
#include "db/reader.h"

namespace ckptdb::internal {

// Passes long stretches of rows to the sink without a copy, and gathers short
// ones, which a merge of many runs produces. Not thread-safe.
class RowBatcher : public MergeSink {
 public:
  // `row_bytes` holds the bytes of a row for each slot. `live` receives erased
  // ids; if it is null, they are dropped.
  RowBatcher(int worker, std::vector<uint64_t> row_bytes, RowSink* sink,
             LiveTable* live);

  absl::Status Rows(const RowSink::Batch& batch) override;
  absl::Status Erased(absl::Span<const int64_t> ids) override;
  // Passes on the gathered rows. Must be the last call.
  absl::Status Flush();

 private:
  absl::Status Consume(const RowSink::Batch& batch);
  absl::Status FlushRows();
  absl::Status FlushErased();

  const int worker_;
  const std::vector<uint64_t> row_bytes_;
  const uint64_t all_row_bytes_;
  RowSink* const sink_;
  LiveTable* const live_;
  std::vector<int64_t> ids_;
  std::vector<std::string> values_;  // one for each slot
  std::vector<const char*> pointers_;
  std::vector<int64_t> erased_;
};

}  // namespace ckptdb::internal

#endif  // CKPTDB_DB_READ_ROW_BATCHER_H_
