// SPDX-License-Identifier: Apache-2.0
// Reads chunks of tensors and blobs, several per read; internal to db/.
#ifndef CKPTDB_DB_READ_CHUNK_READER_H_
#define CKPTDB_DB_READ_CHUNK_READER_H_

#include <rocksdb/slice.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "db/options.h"
#include "db/read/step_reader_impl.h"
#include "db/rocks/ahead_iterator.h"
#include "schema/types.h"

namespace ckptdb::internal {

uint64_t ChunkRawBytes(const Item& item, uint32_t chunk);

// Reads chunks in ascending order of their keys, seeking only where some were
// skipped. Not thread-safe.
class ChunkCursor {
 public:
  // For the chunks below `end` of one item, with readahead up to there if it
  // IsReadAhead.
  ChunkCursor(const StepReader::Impl& step, const RankItem& part, uint32_t end)
      : ChunkCursor(step, part, part, end) {}
  // For those of items of one placement, from `first` to `last` in the order of
  // keys.
  ChunkCursor(const StepReader::Impl& step, const RankItem& first,
              const RankItem& last, uint32_t end);

  // Reads one chunk to `raw`, which has room for all of it, and checks it
  // against its header and its record.
  absl::Status Read(const RankItem& part, uint32_t chunk, char* raw);

 private:
  absl::Status ReadAt(const RankItem& part, uint32_t chunk, char* raw) const;
  absl::Status SeekTo(const RankItem& part, uint32_t chunk,
                      const std::string& key);

  const StepReader::Impl& step_;
  const uint32_t end_;
  // The keys of all chunks.
  const std::string begin_;
  const std::string end_of_keys_;
  const rocksdb::Slice begin_key_;
  const rocksdb::Slice end_key_;
  std::unique_ptr<AheadIterator> entries_;
};

// Returns how many consecutive chunks of an item one thread reads at a time.
uint32_t ChunksPerTask(const Item& item, const ReadOptions& options);

// Calls `visit` for each chunk of an item on several threads, and before each
// options.cancelled. Each thread has consecutive chunks and one cursor.
absl::Status ForChunks(
    const StepReader::Impl& step, const RankItem& part,
    const ReadOptions& options,
    const std::function<absl::Status(ChunkCursor* cursor, uint32_t chunk)>&
        visit);

}  // namespace ckptdb::internal

#endif  // CKPTDB_DB_READ_CHUNK_READER_H_
