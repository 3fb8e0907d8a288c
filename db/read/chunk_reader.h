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

// Reads chunks of [0, end) in ascending order, with readahead up to the end.
class ChunkCursor {
 public:
  ChunkCursor(const StepReader::Impl& step, const RankItem& part, uint32_t end);

  // Reads one chunk to `raw`, which has room for all of it, and checks it
  // against its header and its record.
  absl::Status Read(uint32_t chunk, char* raw);

 private:
  absl::Status SeekTo(uint32_t chunk, const std::string& key,
                      const std::string& place);

  const StepReader::Impl& step_;
  const RankItem& part_;
  const uint32_t end_;
  // Prefix of the keys of all chunks.
  const std::string prefix_;
  const std::string prefix_end_;
  const rocksdb::Slice begin_key_;
  const rocksdb::Slice end_key_;
  std::unique_ptr<AheadIterator> entries_;
};

// Calls `visit` for each chunk of an item on several threads. Each thread has
// consecutive chunks and one cursor.
absl::Status ForChunks(
    const StepReader::Impl& step, const RankItem& part,
    const ReadOptions& options,
    const std::function<absl::Status(ChunkCursor* cursor, uint32_t chunk)>&
        visit);

}  // namespace ckptdb::internal

#endif  // CKPTDB_DB_READ_CHUNK_READER_H_
