// Cuts a save into files that workers write side by side; internal to db/.
#ifndef CKPTDB_DB_STAGE_SEGMENTS_H_
#define CKPTDB_DB_STAGE_SEGMENTS_H_

#include <rocksdb/env.h>
#include <rocksdb/file_system.h>
#include <rocksdb/sst_file_writer.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "ckptdb/db/stage/staged_item.h"
#include "ckptdb/db/stage/stream.h"
#include "ckptdb/schema/staged.h"

namespace ckptdb::internal {

// Consecutive entries of one stream.
struct Piece {
  Stream* stream;
  uint64_t begin;
  uint64_t end;
};

// Pieces in key order: what goes to one file. Segments of one save have
// disjoint key ranges, as files that overlap in one ingestion go to level 0.
using Segment = std::vector<Piece>;

// At most kSegmentBytes each, and enough of them for `threads` workers. A
// table shares no file with tensors and blobs unless all is small: so its
// space comes back although a later step still refers to the tensors.
std::vector<Segment> CutSegments(const std::vector<StagedItem>& items,
                                 int threads);

struct SegmentWriterOptions {
  rocksdb::Env* env = nullptr;
  bool direct_writes = false;
  // Told of each entry that was made; null: nobody.
  std::function<void(const Stream& stream, uint64_t entry)> on_made = {};
  // Of a file that is being written; 0: as FileWriterOptions has it.
  uint64_t buffer_bytes = 0;
};

// A writer with these options, to be opened.
std::unique_ptr<rocksdb::SstFileWriter> NewSegmentWriter(
    const SegmentWriterOptions& options);

// Whether the file system takes direct writes in this folder: tmpfs, for one,
// does not.
absl::StatusOr<bool> TakesDirectWrites(rocksdb::FileSystem* files,
                                       const std::string& folder);

// Writes the file, synced.
absl::StatusOr<StagedFile> WriteSegment(const SegmentWriterOptions& options,
                                        const Segment& segment,
                                        const std::string& path);

}  // namespace ckptdb::internal

#endif  // CKPTDB_DB_STAGE_SEGMENTS_H_
