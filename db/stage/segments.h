// SPDX-License-Identifier: Apache-2.0
// Divides a save into files that workers write in parallel; internal to db/.
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
#include "db/stage/staged_item.h"
#include "db/stage/stream.h"
#include "schema/records/staged.h"

namespace ckptdb::internal {

// Consecutive entries of one stream.
struct Piece {
  Stream* stream;
  uint64_t begin;
  uint64_t end;
};

// The pieces of one file, in key order. The segments of a save have disjoint
// key ranges, because files that overlap within one ingestion go to level 0.
using Segment = std::vector<Piece>;

// Returns whether the segment has entries that are held in copies.
bool HoldsEntries(const Segment& segment);

// Returns segments of at most kSegmentBytes, and enough of them for `threads`
// workers. Those with held entries come last and have no others that read the
// caller's memory. Unless all items are small, a table shares no file with
// tensors and blobs, so that its space can be freed while a later step
// references the tensors.
std::vector<Segment> CutSegments(const std::vector<StagedItem>& items,
                                 int threads);

struct SegmentWriterOptions {
  rocksdb::Env* env = nullptr;
  bool direct_writes = false;
  // Called before each entry is made; ends the writing with an error that it
  // returns. May be null.
  std::function<absl::Status()> check = {};
  // Called for each entry that was made; may be null. Returns an error to end
  // the writing.
  std::function<absl::Status(const Stream& stream, uint64_t entry)> on_made =
      {};
  // Write buffer of a file; 0 uses that of FileWriterOptions.
  uint64_t buffer_bytes = 0;
  // Set if most entries are far smaller than a page.
  bool small_entries = false;
};

// Returns whether entries of this total size count as small.
bool AreSmallEntries(uint64_t bytes, uint64_t entries);

// Returns a writer with these options that is not open yet.
std::unique_ptr<rocksdb::SstFileWriter> NewSegmentWriter(
    const SegmentWriterOptions& options);

// Calls Finish of the writer. After an exception (std::bad_alloc) the writer is
// leaked, because destroying it would end the process (line 40 of
// docs/rocksdb.md).
rocksdb::Status FinishSegment(std::unique_ptr<rocksdb::SstFileWriter>* writer,
                              rocksdb::ExternalSstFileInfo* file);

// Returns whether the file system supports direct writes in this folder, which
// tmpfs does not.
absl::StatusOr<bool> SupportsDirectWrites(rocksdb::FileSystem* files,
                                          const std::string& folder);

// Writes the file and syncs it.
absl::StatusOr<internal::StagedFile> WriteSegment(
    const SegmentWriterOptions& options, const Segment& segment,
    const std::string& path);

}  // namespace ckptdb::internal

#endif  // CKPTDB_DB_STAGE_SEGMENTS_H_
