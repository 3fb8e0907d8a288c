// SPDX-License-Identifier: Apache-2.0
// Limits of the format and of the write batch; schema/types.h has the limits
// that users of the library meet. Each is inclusive, and each has a test at,
// below and above it.
#ifndef CKPTDB_SCHEMA_BYTES_LIMITS_H_
#define CKPTDB_SCHEMA_BYTES_LIMITS_H_

#include <cstddef>
#include <cstdint>

#include "schema/types.h"

namespace ckptdb {

// The format of a store and of its records.
inline constexpr uint16_t kFormatVersion = 1;
// The format of a rank record with a lossy codec, which makes a library without
// lossy codecs refuse the record.
inline constexpr uint16_t kLossyFormatVersion = 2;
// The same for a rank record with several shards of a tensor; the newest format
// that this library reads.
inline constexpr uint16_t kShardsFormatVersion = 3;

inline constexpr size_t kMaxUuidBytes = 64;
// Branches that a step record lists, and owners, as the root record does;
// beyond these, the oldest are left out.
inline constexpr size_t kMaxBranches = 1024;
inline constexpr size_t kMaxOwners = 64;
// Limit of one record without its envelope; FlatBuffers are limited to 2 GiB.
inline constexpr size_t kMaxRecordBytes = size_t{256} << 20;
// Limit of a ticket or a staged rank without its envelope: it carries up to two
// records.
inline constexpr size_t kMaxTransferBytes = 3 * kMaxRecordBytes;

inline constexpr uint64_t kPageBytes = uint64_t{256} << 10;  // raw, of a slot
inline constexpr uint32_t kErasedRowsPerPage = kPageBytes / sizeof(int64_t);
inline constexpr uint64_t kChunkBytes = uint64_t{256} << 10;  // raw
// Limit of the keys and values that a save puts into its write batch, over all
// ranks, besides SaveSpec::blobs: see InlineShareBytes. They are written twice,
// to the WAL and to an SST file, and compacted later; larger saves take less
// time and memory in files (docs/performance.md, "Small"). Stores of earlier
// versions have saves of up to 8 MiB there.
inline constexpr uint64_t kInlineBytes = uint64_t{512} << 10;
// Each rank may put this many bytes there, regardless of the number of ranks:
// one file per rank costs more than a larger batch.
inline constexpr uint64_t kLeastInlineShareBytes = uint64_t{1} << 10;
inline constexpr uint64_t kSegmentBytes = uint64_t{1} << 30;  // of a file

// Returns the limit of one rank's entries in the write batch, keys and values
// together. Staging writes a rank with more to files, and publishing rejects
// it.
inline constexpr uint64_t InlineShareBytes(uint32_t world_size) {
  const uint64_t share = kInlineBytes / world_size;
  return share < kLeastInlineShareBytes ? kLeastInlineShareBytes : share;
}

}  // namespace ckptdb

#endif  // CKPTDB_SCHEMA_BYTES_LIMITS_H_
