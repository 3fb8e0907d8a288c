// Every limit of the store. Each is inclusive, and each has a test at, below
// and above it.
#ifndef CKPTDB_SCHEMA_LIMITS_H_
#define CKPTDB_SCHEMA_LIMITS_H_

#include <cstddef>
#include <cstdint>

namespace ckptdb {

// The format that this library writes, and the newest that it reads.
inline constexpr uint16_t kFormatVersion = 1;

inline constexpr size_t kMaxNameBytes = 512;
inline constexpr size_t kMaxDimensions = 64;
inline constexpr uint32_t kMaxWorldSize = 65536;
inline constexpr size_t kMaxSlots = 256;
inline constexpr uint64_t kMaxSlotBytes = 65536;  // of one row
inline constexpr uint64_t kMaxBlobBytes = uint64_t{4} << 30;
inline constexpr uint64_t kMaxMetadataBytes = uint64_t{1} << 20;  // names, too
inline constexpr size_t kMaxMetrics = 4096;
inline constexpr size_t kMaxBranches = 1024;  // that a step comes from
inline constexpr size_t kMaxUuidBytes = 64;
// Limit of the part of one rank of an evaluation: meters and loader together.
inline constexpr uint64_t kMaxEvaluationBytes = uint64_t{8} << 20;
// Limit of one record without its envelope; FlatBuffers end at 2 GiB.
inline constexpr size_t kMaxRecordBytes = size_t{256} << 20;
// Limit of a ticket or a staged rank without its envelope: it carries up to two
// records.
inline constexpr size_t kMaxTransferBytes = 3 * kMaxRecordBytes;

inline constexpr uint32_t kSlices = 65536;
inline constexpr uint64_t kPageBytes = uint64_t{256} << 10;  // raw, of a slot
inline constexpr uint32_t kErasedRowsPerPage = kPageBytes / sizeof(int64_t);
inline constexpr uint64_t kChunkBytes = uint64_t{256} << 10;  // raw
// Limit of the keys and values that a save puts into its write batch, over all
// ranks: see InlineShareBytes. They are written twice, to the WAL and to an SST
// file, and compacted later; larger saves take less time and memory in files
// (docs/performance.md, "Small"). Stores of earlier versions have saves of up
// to 8 MiB there.
inline constexpr uint64_t kInlineBytes = uint64_t{512} << 10;
// Each rank may put as many bytes there, however many ranks there are: a file
// for each of many ranks costs more than a larger batch.
inline constexpr uint64_t kLeastInlineShareBytes = uint64_t{1} << 10;
inline constexpr uint64_t kSegmentBytes = uint64_t{1} << 30;  // of a file

// Returns the limit of the entries of one rank in the write batch, keys and
// values together. Staging writes a rank that has more to files, and publishing
// rejects it.
inline constexpr uint64_t InlineShareBytes(uint32_t world_size) {
  const uint64_t share = kInlineBytes / world_size;
  return share < kLeastInlineShareBytes ? kLeastInlineShareBytes : share;
}

}  // namespace ckptdb

#endif  // CKPTDB_SCHEMA_LIMITS_H_
