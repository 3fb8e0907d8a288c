// SPDX-License-Identifier: Apache-2.0
// Pages: the first byte selects the bytes of an element; the rest is read as an
// entry, unchanged and with corrected hashes.
#include <cstring>
#include <string>

#include "schema/bytes/codec.h"
#include "schema/bytes/lossy.h"
#include "schema/bytes/page.h"
#include "tests/fuzz/fuzz_input.h"

namespace ckptdb {
namespace {

using testing::Require;
using testing::TakeByte;

void CheckEntry(absl::string_view entry, uint32_t element_bytes) {
  const auto page = ParsePage(entry);
  if (!page.ok()) return;
  std::string scratch;
  const auto raw = ReadPage(*page, element_bytes, &scratch);
  if (!raw.ok()) return;
  Require(raw->size() == page->raw_bytes);
  const bool lossy = IsLossy(page->codec);
  Require(HashBytes(lossy ? page->stored : *raw) == page->raw_hash);

  PageBuilder builder;
  raw->copy(builder.Reset(raw->size()), raw->size());
  builder.Finish(page->codec, page->count, element_bytes, Rounding::kNone);
  const auto again = ParsePage(builder.entry());
  Require(again.ok());
  // The same numbers of a lossy page can be stored in several ways.
  Require(again->count == page->count &&
          (lossy || again->raw_hash == page->raw_hash));
  std::string copy(raw->size(), '?');
  Require(ReadPageTo(*again, element_bytes, copy.data()).ok());
  Require(copy == *raw);
}

// Offsets in the header, from docs/format.md.
constexpr size_t kRawBytesAt = 12;
constexpr size_t kStoredBytesAt = 16;
constexpr size_t kHeaderHashAt = 20;
constexpr size_t kRawHashAt = 24;

void SetHashes(uint32_t element_bytes, std::string* entry) {
  const auto codec = CodecFromStored(static_cast<uint8_t>((*entry)[4]));
  if (!codec.ok()) return;
  const absl::string_view stored =
      absl::string_view(*entry).substr(kPageHeaderBytes);
  const auto stored_bytes = static_cast<uint32_t>(stored.size());
  uint32_t raw_bytes = 0;
  std::memcpy(&raw_bytes, entry->data() + kRawBytesAt, sizeof(raw_bytes));
  if (*codec == Codec::kNone) raw_bytes = stored_bytes;
  raw_bytes %= 1 << 20;
  std::string raw(raw_bytes, '\0');
  if (!Decompress(*codec, stored, element_bytes, raw_bytes, raw.data()).ok()) {
    return;
  }
  const uint64_t raw_hash =
      HashBytes(IsLossy(*codec) ? stored : absl::string_view(raw));
  const uint32_t zero = 0;
  std::memcpy(entry->data() + kRawBytesAt, &raw_bytes, sizeof(raw_bytes));
  std::memcpy(entry->data() + kStoredBytesAt, &stored_bytes,
              sizeof(stored_bytes));
  std::memcpy(entry->data() + kRawHashAt, &raw_hash, sizeof(raw_hash));
  std::memcpy(entry->data() + kHeaderHashAt, &zero, sizeof(zero));
  const auto header_hash = static_cast<uint32_t>(
      HashBytes(absl::string_view(*entry).substr(0, kPageHeaderBytes)));
  std::memcpy(entry->data() + kHeaderHashAt, &header_hash, sizeof(header_hash));
}

void CheckPages(absl::string_view input) {
  const uint32_t element_bytes = 1u << (TakeByte(&input) % 4);
  CheckEntry(input, element_bytes);
  if (input.size() < kPageHeaderBytes) return;
  std::string entry(input);
  SetHashes(element_bytes, &entry);
  CheckEntry(entry, element_bytes);
}

}  // namespace
}  // namespace ckptdb

CKPTDB_FUZZ(ckptdb::CheckPages)
