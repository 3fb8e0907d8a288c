// SPDX-License-Identifier: Apache-2.0
// A page holds rows of one slot of a table, a chunk a part of a tensor or blob.
// Each is one entry of the store: a PageHeader, then the encoded bytes.
//
// The header is 32 bytes, little-endian: magic, codec, count, raw bytes, stored
// bytes, a hash of the header, and XXH3-64 of the raw bytes (of the stored
// bytes with a lossy codec).
//
//   PageBuilder page;
//   std::memcpy(page.Reset(12), floats, 12);
//   page.Finish(Codec::kNone, /*count=*/3, /*element_bytes=*/4);
//   store(page.entry());
//
//   CKPTDB_ASSIGN_OR_RETURN(PageView view, ParsePage(entry));
//   CKPTDB_ASSIGN_OR_RETURN(absl::string_view raw,
//                           ReadPage(view, /*element_bytes=*/4, &scratch));
#ifndef CKPTDB_SCHEMA_BYTES_PAGE_H_
#define CKPTDB_SCHEMA_BYTES_PAGE_H_

#include <cstddef>
#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "schema/bytes/lossy.h"
#include "schema/types.h"

namespace ckptdb {

inline constexpr size_t kPageHeaderBytes = 32;

// Returns XXH3-64 of the bytes, the hash of pages, records and digests.
uint64_t HashBytes(absl::string_view bytes);

// Builds entries one after another in the same memory. Not thread-safe.
class PageBuilder {
 public:
  // Starts an entry of `raw_bytes` bytes, at most kChunkBytes. The caller fills
  // the returned memory, which is valid until the next Reset.
  char* Reset(size_t raw_bytes);

  // Hashes the filled-in bytes, compresses them unless `codec` is kNone, and
  // writes the header. A codec that saves nothing is stored as kNone. `codec`
  // is not kAuto; if it is lossy, `rounding` determines whether it may round.
  // FinishWithHash is for callers that know the hash; its codec must not be
  // lossy.
  void Finish(Codec codec, uint32_t count, uint32_t element_bytes,
              Rounding rounding = Rounding::kNearest);
  void FinishWithHash(Codec codec, uint32_t count, uint32_t element_bytes,
                      uint64_t raw_hash);
  // Writes the header for bytes that are already encoded with a lossy codec:
  // the first `stored_bytes` of those filled in, fewer than the raw bytes.
  void FinishEncoded(Codec codec, uint32_t count, size_t stored_bytes,
                     const Item::Error& error);

  // Returns the header and the stored bytes, valid until the next Reset.
  absl::string_view entry() const { return entry_; }
  // Returns XXH3-64 of the raw bytes; of the stored bytes with a lossy codec.
  uint64_t raw_hash() const { return raw_hash_; }
  // Returns the errors of a lossy codec.
  const Item::Error& error() const { return error_; }

 private:
  bool FinishLossy(Codec codec, uint32_t count, Rounding rounding);
  void WriteHeader(Codec codec, uint32_t count, std::string* entry,
                   size_t stored_bytes);

  std::string buffer_;      // header and raw bytes
  std::string compressed_;  // header and stored bytes, if encoded
  size_t raw_bytes_ = 0;
  uint64_t raw_hash_ = 0;
  Item::Error error_;
  absl::string_view entry_;
};

// A checked header and the bytes after it, which point into the entry.
struct PageView {
  Codec codec = Codec::kNone;
  uint32_t count = 0;
  uint32_t raw_bytes = 0;
  uint64_t raw_hash = 0;
  absl::string_view stored;
};

// Checks the header and its consistency with the entry. Returns DataLoss for a
// damaged page.
absl::StatusOr<PageView> ParsePage(absl::string_view entry);

// Returns the raw bytes, checked against their hash: in place for kNone,
// otherwise in *scratch. Returns DataLoss if they do not match.
absl::StatusOr<absl::string_view> ReadPage(const PageView& page,
                                           uint32_t element_bytes,
                                           std::string* scratch);

// The same into the caller's memory, of page.raw_bytes bytes.
absl::Status ReadPageTo(const PageView& page, uint32_t element_bytes,
                        char* raw);

}  // namespace ckptdb

#endif  // CKPTDB_SCHEMA_BYTES_PAGE_H_
