// SPDX-License-Identifier: Apache-2.0
#include "db/read/chunk_reader.h"

#include <rocksdb/slice.h>

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "db/base/cancelled.h"
#include "db/base/parallel.h"
#include "db/disk/rocks_status.h"
#include "db/rocks/rocks_options.h"
#include "schema/bytes/keys.h"
#include "schema/bytes/limits.h"
#include "schema/bytes/page.h"
#include "schema/status.h"
#include "schema/types.h"

namespace ckptdb::internal {
namespace {

// Upper bound of a chunk with its header, key and trailer.
constexpr uint64_t kEntryBytes = kChunkBytes + (uint64_t{2} << 10);
// Bytes that a read wastes at its two ends, which lie within disk blocks.
constexpr uint64_t kAlignmentLoss = uint64_t{8} << 10;

// Returns the number of chunks in a read of this size.
uint64_t ChunksOf(uint64_t bytes) {
  return bytes > kAlignmentLoss ? (bytes - kAlignmentLoss) / kEntryBytes : 0;
}

// Returns "step 7 rank 0 tensor "w", key of ..." for errors.
std::string ChunkPlace(const RankItem& part, absl::string_view key) {
  return absl::StrCat(PlaceOf(part), ", key of ", DescribeDataKey(key));
}

// Compares the header of a chunk with its record.
absl::Status CheckChunk(const PageView& page, const Item& item, uint32_t chunk,
                        uint32_t element_bytes) {
  const uint64_t bytes = ChunkRawBytes(item, chunk);
  if (page.raw_bytes != bytes || page.count != bytes / element_bytes) {
    return absl::DataLossError(absl::StrCat(
        "chunk has ", page.count, " elements in ", page.raw_bytes,
        " bytes; expected ", bytes / element_bytes, " in ", bytes));
  }
  if (page.raw_hash == item.chunk_hashes[chunk]) return absl::OkStatus();
  return absl::DataLossError(absl::StrCat("chunk hash ",
                                          absl::Hex(page.raw_hash),
                                          " does not match the record's hash ",
                                          absl::Hex(item.chunk_hashes[chunk])));
}

}  // namespace

uint64_t ChunkRawBytes(const Item& item, uint32_t chunk) {
  return std::min<uint64_t>(kChunkBytes, item.raw_bytes - chunk * kChunkBytes);
}

ChunkCursor::ChunkCursor(const StepReader::Impl& step, const RankItem& first,
                         const RankItem& last, uint32_t end)
    : step_(step),
      end_(end),
      begin_(ChunkKey(first.rank, *first.item, 0)),
      end_of_keys_(
          ChunkKey(last.rank, *last.item, last.item->chunk_hashes.size())),
      begin_key_(ToSlice(begin_)),
      end_key_(ToSlice(end_of_keys_)) {}

// Moves to the entry of a chunk, which is nearly always the next one in the
// file; seeks only if chunks were skipped.
absl::Status ChunkCursor::SeekTo(const RankItem& part, uint32_t chunk,
                                 const std::string& key) {
  if (entries_ == nullptr) {
    const Database& database = step_.database();
    // The iterator is created at the first read, so that its readahead covers
    // exactly the bytes from there to the end.
    const uint64_t left_bytes =
        IsReadAhead(*part.item) ? (end_ - chunk) * kEntryBytes : 0;
    entries_ = std::make_unique<AheadIterator>(
        database.NewIterator(PassOptions(&begin_key_, &end_key_),
                             part.item->placement),
        left_bytes > 0 ? left_bytes + kAlignmentLoss : 0, left_bytes);
    entries_->Seek(key);
  } else if (entries_->Valid()) {
    entries_->Next();
  }
  if (!entries_->Valid() || entries_->key() != rocksdb::Slice(key)) {
    entries_->Seek(key);
  }
  if (entries_->Valid() && entries_->key() == rocksdb::Slice(key)) {
    return absl::OkStatus();
  }
  CKPTDB_RETURN_IF_ERROR(
      FromRocksRead(entries_->status(), ChunkPlace(part, key)));
  return absl::DataLossError(
      absl::StrCat(ChunkPlace(part, key), ": the entry is missing"));
}

absl::Status ChunkCursor::ReadAt(const RankItem& part, uint32_t chunk,
                                 char* raw) const {
  const Item& item = *part.item;
  const uint32_t element_bytes =
      item.kind == Item::Kind::kBlob ? 1 : DTypeBytes(item.dtype);
  CKPTDB_ASSIGN_OR_RETURN(const PageView page,
                          ParsePage(FromSlice(entries_->value())));
  CKPTDB_RETURN_IF_ERROR(CheckChunk(page, item, chunk, element_bytes));
  return ReadPageTo(page, element_bytes, raw);
}

absl::Status ChunkCursor::Read(const RankItem& part, uint32_t chunk,
                               char* raw) {
  const std::string key = ChunkKey(part.rank, *part.item, chunk);
  CKPTDB_RETURN_IF_ERROR(SeekTo(part, chunk, key));
  const absl::Status status = ReadAt(part, chunk, raw);
  // The place is only described for an error: a call may read many small items.
  return status.ok() ? status : Annotate(status, ChunkPlace(part, key));
}

uint32_t ChunksPerTask(const Item& item, const ReadOptions& options) {
  // A task has as many chunks as one readahead, so that workers do not read the
  // same bytes.
  return static_cast<uint32_t>(
      std::clamp<uint64_t>(ChunksOf(options.readahead_bytes), 1,
                           std::max<uint64_t>(item.chunk_hashes.size(), 1)));
}

absl::Status ForChunks(
    const StepReader::Impl& step, const RankItem& part,
    const ReadOptions& options,
    const std::function<absl::Status(ChunkCursor*, uint32_t)>& visit) {
  const auto chunks = static_cast<uint32_t>(part.item->chunk_hashes.size());
  const uint32_t together = ChunksPerTask(*part.item, options);
  return ParallelFor(
      options.threads, (chunks + together - 1) / together,
      [&](int, uint64_t task) -> absl::Status {
        const auto begin = static_cast<uint32_t>(task * together);
        const uint32_t end = std::min(begin + together, chunks);
        ChunkCursor cursor(step, part, end);
        for (uint32_t chunk = begin; chunk < end; ++chunk) {
          CKPTDB_RETURN_IF_ERROR(CheckCancelled(options.cancelled));
          CKPTDB_RETURN_IF_ERROR(visit(&cursor, chunk));
        }
        return absl::OkStatus();
      },
      PollOf(options.cancelled));
}

}  // namespace ckptdb::internal
