// SPDX-License-Identifier: Apache-2.0
// Writes sorted rows as pages of a base run; internal to db/.
#ifndef CKPTDB_DB_FOLD_RUN_WRITER_H_
#define CKPTDB_DB_FOLD_RUN_WRITER_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "db/fold/run_output.h"
#include "db/read/run_merge.h"
#include "schema/bytes/keys.h"
#include "schema/bytes/page.h"
#include "schema/types.h"

namespace ckptdb::internal {

// Writes rows of a range of slices as entries of a base run. Holds one page of
// each stream in memory. Not thread-safe.
class RunWriter : public MergeSink {
 public:
  // `table` provides the slots, slice hash, codecs and rows_per_page. `prefix`
  // is the run's ItemPrefix. Writes only the slots with these indexes, whose
  // values batches contain, and the ids if `ids` is set.
  RunWriter(const Item& table, const std::string& prefix, bool ids,
            absl::Span<const size_t> slots, RunOutput* output);

  absl::Status Rows(const RowSink::Batch& batch) override;
  // Ignores erased ids, which a base run does not contain.
  absl::Status Erased(absl::Span<const int64_t> ids) override;
  // Writes the last page.
  absl::Status Finish() { return FlushPage(); }

  uint64_t rows() const { return rows_; }
  uint64_t stored_bytes() const { return stored_bytes_; }
  // Returns the hashes of the pages, stream by stream; all streams have the
  // same number of pages.
  std::vector<uint64_t> Hashes() const;

 private:
  struct Stream {
    uint16_t number;  // kIdSlot, or that of a slot from 1
    std::string prefix;
    uint64_t row_bytes = 0;
    uint32_t element_bytes = 0;
    Codec codec = Codec::kNone;
    std::string page;  // rows of an incomplete page
    std::vector<uint64_t> hashes;
  };

  void AddStream(uint16_t number, uint64_t row_bytes, uint32_t element_bytes,
                 Codec codec, const std::string& prefix);
  absl::Status FlushPage();
  absl::Status WritePage(Stream* stream);

  const Item& table_;
  RunOutput* const output_;
  std::vector<Stream> streams_;
  const size_t first_slot_;  // in streams_
  PageBuilder builder_;
  std::string key_;
  RowPosition first_;  // of the page
  uint64_t page_rows_ = 0;
  uint64_t rows_ = 0;
  uint64_t stored_bytes_ = 0;
};

}  // namespace ckptdb::internal

#endif  // CKPTDB_DB_FOLD_RUN_WRITER_H_
