// Writes sorted rows as pages of a base run; internal to db/.
#ifndef CKPTDB_DB_FOLD_RUN_WRITER_H_
#define CKPTDB_DB_FOLD_RUN_WRITER_H_

#include <rocksdb/sst_file_writer.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "ckptdb/db/read/run_merge.h"
#include "ckptdb/db/stage/segments.h"
#include "ckptdb/schema/bytes/keys.h"
#include "ckptdb/schema/bytes/page.h"
#include "ckptdb/schema/records/staged.h"
#include "ckptdb/schema/types.h"

namespace ckptdb::internal {

// Writes rows of a range of slices as entries of a base run. Each stream goes
// to a file of its own, since the ranges of several writers are next to each
// other in every stream. It takes memory for a page and a write buffer for each
// stream. Not thread-safe.
class RunWriter : public MergeSink {
 public:
  // `table` has the slots, slice hash, codecs and rows_per_page. `prefix` is
  // the ItemPrefix of the run. Files are named `path`-<slot>.sst.
  RunWriter(const SegmentWriterOptions& options, const Item& table,
            const std::string& prefix, const std::string& path);

  absl::Status Rows(const RowSink::Batch& batch) override;
  // Ignores erased ids, which a base run does not have.
  absl::Status Erased(absl::Span<const int64_t> ids) override;

  // Writes the last page, finishes and syncs the files, and returns them with
  // the paths under which they were written.
  absl::StatusOr<std::vector<internal::StagedFile>> Finish();

  uint64_t rows() const { return rows_; }
  uint64_t stored_bytes() const { return stored_bytes_; }
  // Returns the hashes of the pages, stream by stream; each stream has as many.
  std::vector<uint64_t> Hashes() const;

 private:
  struct Stream {
    std::string prefix;
    std::string path;
    uint64_t row_bytes = 0;
    uint32_t element_bytes = 0;
    Codec codec = Codec::kNone;
    std::string page;  // rows of a page that is not complete
    std::vector<uint64_t> hashes;
    std::unique_ptr<rocksdb::SstFileWriter> file;
  };

  void AddStream(uint16_t slot, uint64_t row_bytes, uint32_t element_bytes,
                 Codec codec, const std::string& prefix,
                 const std::string& path);
  absl::Status FlushPage();
  absl::Status WritePage(Stream* stream);

  const SegmentWriterOptions options_;
  const Item& table_;
  std::vector<Stream> streams_;
  PageBuilder builder_;
  std::string key_;
  RowPosition first_;  // of the page
  uint64_t page_rows_ = 0;
  uint64_t rows_ = 0;
  uint64_t stored_bytes_ = 0;
};

}  // namespace ckptdb::internal

#endif  // CKPTDB_DB_FOLD_RUN_WRITER_H_
