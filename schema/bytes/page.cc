// SPDX-License-Identifier: Apache-2.0
#include "schema/bytes/page.h"

#if defined(__x86_64__)
#include <xxh_x86dispatch.h>  // the widest vectors that the processor has
#else
#include <xxhash.h>
#endif

#include <cstring>

#include "absl/strings/str_cat.h"
#include "ckptdb_generated.h"
#include "schema/bytes/codec.h"
#include "schema/bytes/limits.h"
#include "schema/status.h"
#include "schema/types.h"

namespace ckptdb {
namespace {

static_assert(sizeof(fbs::PageHeader) == kPageHeaderBytes);

constexpr uint32_t kMagic = 0x50544b43;  // "CKTP"

// Returns the low half of XXH3-64 of the header with 0 in the hash field.
uint32_t HashHeader(fbs::PageHeader header) {
  header.mutate_header_hash(0);
  return static_cast<uint32_t>(
      HashBytes({reinterpret_cast<const char*>(&header), sizeof(header)}));
}

absl::Status BadHeader(absl::string_view field, uint64_t value,
                       absl::string_view expected) {
  return absl::DataLossError(absl::StrCat("page header: ", field, " ", value,
                                          ", expected ", expected));
}

// The header's hash is set last and covers all other fields.
fbs::PageHeader MakeHeader(Codec codec, uint32_t count, size_t raw_bytes,
                           size_t stored_bytes, uint64_t raw_hash) {
  fbs::PageHeader header(kMagic, static_cast<uint8_t>(codec), 0, 0, count,
                         static_cast<uint32_t>(raw_bytes),
                         static_cast<uint32_t>(stored_bytes), 0, raw_hash);
  header.mutate_header_hash(HashHeader(header));
  return header;
}

absl::Status CheckHash(const PageView& page, absl::string_view raw) {
  const uint64_t hash = HashBytes(raw);
  if (hash == page.raw_hash) return absl::OkStatus();
  return absl::DataLossError(absl::StrCat("page hash ", absl::Hex(hash),
                                          " does not match the stored hash ",
                                          absl::Hex(page.raw_hash)));
}

// The magic is checked first, because bytes that are not a page fail the hash,
// too; other fields are only meaningful if the header's hash is right.
absl::Status CheckHeader(const fbs::PageHeader& header, size_t stored) {
  if (header.magic() != kMagic) {
    return BadHeader("magic", header.magic(), absl::StrCat(kMagic));
  }
  if (header.header_hash() != HashHeader(header)) {
    return BadHeader("hash", header.header_hash(),
                     absl::StrCat(HashHeader(header)));
  }
  if (header.reserved0() != 0 || header.reserved1() != 0) {
    return BadHeader("reserved", header.reserved0() | header.reserved1(), "0");
  }
  if (header.stored_bytes() != stored) {
    return BadHeader("stored bytes", header.stored_bytes(),
                     absl::StrCat(stored));
  }
  if (header.raw_bytes() > kChunkBytes) {
    return BadHeader("raw bytes", header.raw_bytes(),
                     absl::StrCat("at most ", kChunkBytes));
  }
  return absl::OkStatus();
}

// A codec is stored only if it saves bytes, so any other size is damage.
absl::Status CheckSizes(Codec codec, const fbs::PageHeader& header) {
  const bool right = codec == Codec::kNone
                         ? header.raw_bytes() == header.stored_bytes()
                         : header.raw_bytes() > header.stored_bytes();
  if (right) return absl::OkStatus();
  return BadHeader(
      "raw bytes", header.raw_bytes(),
      absl::StrCat(codec == Codec::kNone ? "" : "more than ",
                   header.stored_bytes(), " under codec ", CodecName(codec)));
}

}  // namespace

uint64_t HashBytes(absl::string_view bytes) {
  return XXH3_64bits(bytes.data(), bytes.size());
}

char* PageBuilder::Reset(size_t raw_bytes) {
  raw_bytes_ = raw_bytes;
  const size_t needed = kPageHeaderBytes + raw_bytes;
  // The buffer only grows, so that it is not cleared for each page.
  if (buffer_.size() < needed) buffer_.resize(needed);
  return buffer_.data() + kPageHeaderBytes;
}

void PageBuilder::WriteHeader(Codec codec, uint32_t count, std::string* entry,
                              size_t stored_bytes) {
  const fbs::PageHeader header =
      MakeHeader(codec, count, raw_bytes_, stored_bytes, raw_hash_);
  std::memcpy(entry->data(), &header, sizeof(header));
  entry_ = absl::string_view(entry->data(), kPageHeaderBytes + stored_bytes);
}

// Returns false if the codec cannot encode the bytes or does not reduce them.
bool PageBuilder::FinishLossy(Codec codec, uint32_t count, Rounding rounding) {
  // In a slot's page each row has several numbers, which form a row of int8. A
  // tensor's chunk counts elements, one number each, in rows of
  // kInt8BlockElements.
  const auto per_count = static_cast<uint32_t>(
      count == 0 ? 1 : raw_bytes_ / sizeof(float) / count);
  if (!Quantize(codec,
                absl::string_view(buffer_).substr(kPageHeaderBytes, raw_bytes_),
                per_count == 1 ? kInt8BlockElements : per_count, rounding,
                &compressed_, &error_)) {
    return false;
  }
  // With a lossy codec the stored bytes are hashed, because the raw bytes
  // cannot be restored.
  raw_hash_ = HashBytes(compressed_);
  compressed_.insert(0, kPageHeaderBytes, '\0');
  WriteHeader(codec, count, &compressed_,
              compressed_.size() - kPageHeaderBytes);
  return true;
}

void PageBuilder::Finish(Codec codec, uint32_t count, uint32_t element_bytes,
                         Rounding rounding) {
  error_ = Item::Error();
  if (IsLossy(codec)) {
    if (FinishLossy(codec, count, rounding)) return;
    codec = Codec::kNone;
  }
  FinishWithHash(codec, count, element_bytes,
                 HashBytes(absl::string_view(buffer_).substr(kPageHeaderBytes,
                                                             raw_bytes_)));
}

void PageBuilder::FinishWithHash(Codec codec, uint32_t count,
                                 uint32_t element_bytes, uint64_t raw_hash) {
  raw_hash_ = raw_hash;
  absl::string_view stored =
      absl::string_view(buffer_).substr(kPageHeaderBytes, raw_bytes_);
  std::string* out = &buffer_;
  if (codec != Codec::kNone &&
      Compress(codec, stored, element_bytes, &compressed_)) {
    compressed_.insert(0, kPageHeaderBytes, '\0');
    stored = absl::string_view(compressed_).substr(kPageHeaderBytes);
    out = &compressed_;
  } else {
    codec = Codec::kNone;
  }
  WriteHeader(codec, count, out, stored.size());
}

void PageBuilder::FinishEncoded(Codec codec, uint32_t count,
                                size_t stored_bytes, const Item::Error& error) {
  error_ = error;
  raw_hash_ = HashBytes(
      absl::string_view(buffer_).substr(kPageHeaderBytes, stored_bytes));
  WriteHeader(codec, count, &buffer_, stored_bytes);
}

absl::StatusOr<PageView> ParsePage(absl::string_view entry) {
  if (entry.size() < kPageHeaderBytes) {
    return absl::DataLossError(
        absl::StrCat("entry of ", entry.size(),
                     " bytes is too short; a page header alone has ",
                     kPageHeaderBytes, " bytes"));
  }
  // The entry may be unaligned, so the header is copied.
  fbs::PageHeader header;
  std::memcpy(static_cast<void*>(&header), entry.data(), sizeof(header));
  PageView page;
  page.stored = entry.substr(kPageHeaderBytes);
  CKPTDB_RETURN_IF_ERROR(CheckHeader(header, page.stored.size()));
  CKPTDB_ASSIGN_OR_RETURN(page.codec, CodecFromStored(header.codec()));
  CKPTDB_RETURN_IF_ERROR(CheckSizes(page.codec, header));
  page.count = header.count();
  page.raw_bytes = header.raw_bytes();
  page.raw_hash = header.raw_hash();
  return page;
}

absl::StatusOr<absl::string_view> ReadPage(const PageView& page,
                                           uint32_t element_bytes,
                                           std::string* scratch) {
  if (page.codec == Codec::kNone) {
    CKPTDB_RETURN_IF_ERROR(CheckHash(page, page.stored));
    return page.stored;
  }
  scratch->resize(page.raw_bytes);
  CKPTDB_RETURN_IF_ERROR(ReadPageTo(page, element_bytes, scratch->data()));
  return absl::string_view(*scratch);
}

absl::Status ReadPageTo(const PageView& page, uint32_t element_bytes,
                        char* raw) {
  if (IsLossy(page.codec)) {
    if (element_bytes != sizeof(float)) {
      return absl::DataLossError(
          absl::StrCat("page with codec ", CodecName(page.codec), " has ",
                       element_bytes, "-byte elements; expected f32"));
    }
    CKPTDB_RETURN_IF_ERROR(CheckHash(page, page.stored));
    return Dequantize(page.codec, page.stored, page.raw_bytes, raw);
  }
  if (page.codec == Codec::kNone) {
    CKPTDB_RETURN_IF_ERROR(CheckHash(page, page.stored));
    BulkCopy(raw, page.stored.data(), page.stored.size());
    return absl::OkStatus();
  }
  CKPTDB_RETURN_IF_ERROR(
      Decompress(page.codec, page.stored, element_bytes, page.raw_bytes, raw));
  // The hash covers the raw bytes, so it also detects a codec that decodes to
  // others.
  return CheckHash(page, absl::string_view(raw, page.raw_bytes));
}

}  // namespace ckptdb
