// Hands rows on in batches that are worth a call; internal to db/.
#ifndef CKPTDB_DB_READ_ROW_BATCHER_H_
#define CKPTDB_DB_READ_ROW_BATCHER_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "ckptdb/db/read/run_merge.h"
#include "ckptdb/db/step_reader.h"

namespace ckptdb::internal {

// Long stretches of rows go to the sink from where they lie; short ones, as a
// merge of many runs gives, are gathered first. Not thread-safe.
class RowBatcher : public MergeSink {
 public:
  // `row_bytes`: of each slot. `live`: gets erased ids; null where they are of
  // no interest.
  RowBatcher(int worker, std::vector<uint64_t> row_bytes, RowSink* sink,
             LiveTable* live);

  absl::Status Rows(const RowBatch& batch) override;
  absl::Status Erased(absl::Span<const int64_t> ids) override;
  // Hands on what was gathered; last.
  absl::Status Flush();

 private:
  absl::Status Consume(const RowBatch& batch);
  absl::Status FlushRows();
  absl::Status FlushErased();

  const int worker_;
  const std::vector<uint64_t> row_bytes_;
  const uint64_t all_row_bytes_;
  RowSink* const sink_;
  LiveTable* const live_;
  std::vector<int64_t> ids_;
  std::vector<std::string> values_;  // of each slot
  std::vector<const char*> pointers_;
  std::vector<int64_t> erased_;
};

}  // namespace ckptdb::internal

#endif  // CKPTDB_DB_READ_ROW_BATCHER_H_
