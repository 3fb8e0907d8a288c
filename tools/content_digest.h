// SPDX-License-Identifier: Apache-2.0
// Digests of a step's contents, whatever its chain, world size, shards and
// lossless codecs.
//
//   CKPTDB_ASSIGN_OR_RETURN(const StepDigest digest, DigestStep(*step, {}));
//   digest.model;  // "9f86d081884c7d659a2feaa0c55ad015"
//
// A digest is XXH3-128 of little-endian bytes, in hexadecimal; a name is
// preceded by its length in 4 bytes, and a dtype is its number in 1 byte:
//
//   tensor  "T", name, dtype, number of dimensions in 4 bytes, extents in 8
//           bytes each, all elements row-major
//   table   "R", name, number of slots in 4 bytes, for each slot, by name:
//   name,
//           dtype, elements in 4 bytes; number of rows in 8 bytes; the sum
//           modulo 2^128 of XXH3-128 of each row: its id in 8 bytes, the values
//           of its slots, by name
//   blob    "B", name, rank in 4 bytes, all bytes
//   model   the digests of all tensors, by name, and of all tables, by name, as
//           their 32 hexadecimal digits
//   blobs   the digests of all blobs, by name and rank, likewise
#ifndef CKPTDB_TOOLS_CONTENT_DIGEST_H_
#define CKPTDB_TOOLS_CONTENT_DIGEST_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "db/reader.h"
#include "schema/types.h"

namespace ckptdb::tool {

struct ItemDigest {
  Item::Kind kind = Item::Kind::kBlob;
  std::string name;
  uint32_t rank = 0;  // only for a blob
  uint64_t rows = 0;  // only for a table
  uint64_t raw_bytes = 0;
  std::string digest;
};

struct StepDigest {
  std::string model;
  std::string blobs;
  std::vector<ItemDigest> items;  // tensors, tables, blobs, each by name
};

// Reads the whole step. Two steps of equal digests have equal contents, but for
// an accident of probability 2^-64 or less; it is no protection from forgery.
absl::StatusOr<StepDigest> DigestStep(const StepReader& step,
                                      const ReadOptions& options);

}  // namespace ckptdb::tool

#endif  // CKPTDB_TOOLS_CONTENT_DIGEST_H_
