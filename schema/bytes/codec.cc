// SPDX-License-Identifier: Apache-2.0
#include "schema/bytes/codec.h"

#include <lz4.h>

#include <algorithm>
#include <cstddef>

#include "absl/strings/str_cat.h"
#include "schema/bytes/limits.h"
#include "schema/bytes/lossy.h"
#include "schema/types.h"

namespace ckptdb {
namespace {

// kAuto chooses kNone unless a codec reduces the raw size to this percentage.
constexpr size_t kWorthwhilePercent = 95;

// Groups the first bytes of all elements, then the second bytes, and so on:
// bytes of equal significance are similar and compress better. A trailing
// partial element stays at the end.
void Shuffle(absl::string_view raw, uint32_t element_bytes, char* out) {
  const size_t elements = raw.size() / element_bytes;
  for (uint32_t byte = 0; byte < element_bytes; ++byte) {
    const char* in = raw.data() + byte;
    char* const plane = out + byte * elements;
    for (size_t i = 0; i < elements; ++i) plane[i] = in[i * element_bytes];
  }
  const size_t shuffled = elements * element_bytes;
  std::copy(raw.begin() + shuffled, raw.end(), out + shuffled);
}

void Unshuffle(absl::string_view planes, uint32_t element_bytes, char* out) {
  const size_t elements = planes.size() / element_bytes;
  for (uint32_t byte = 0; byte < element_bytes; ++byte) {
    const char* const plane = planes.data() + byte * elements;
    char* const to = out + byte;
    for (size_t i = 0; i < elements; ++i) to[i * element_bytes] = plane[i];
  }
  const size_t shuffled = elements * element_bytes;
  std::copy(planes.begin() + shuffled, planes.end(), out + shuffled);
}

}  // namespace

absl::string_view CodecName(Codec codec) {
  switch (codec) {
    case Codec::kNone:
      return "none";
    case Codec::kLz4:
      return "lz4";
    case Codec::kShuffleLz4:
      return "shuffle-lz4";
    case Codec::kBf16:
      return "bf16";
    case Codec::kInt8:
      return "int8";
    case Codec::kAuto:
      return "auto";
  }
  return "unknown";
}

absl::StatusOr<Codec> ParseCodec(absl::string_view name) {
  for (const Codec codec : {Codec::kNone, Codec::kLz4, Codec::kShuffleLz4,
                            Codec::kBf16, Codec::kInt8, Codec::kAuto}) {
    if (CodecName(codec) == name) return codec;
  }
  return absl::InvalidArgumentError(
      absl::StrCat("unknown codec \"", name,
                   "\"; expected one of none, lz4, shuffle-lz4, bf16, int8, "
                   "auto"));
}

// kAuto is a choice at save time and is never stored, so its number is damage.
absl::StatusOr<Codec> CodecFromStored(uint8_t number) {
  if (number <= static_cast<uint8_t>(Codec::kInt8)) {
    return static_cast<Codec>(number);
  }
  return absl::DataLossError(
      absl::StrCat("invalid stored codec ", number,
                   "; expected 0 (none), 1 (lz4), 2 (shuffle-lz4), 3 (bf16) "
                   "or 4 (int8)"));
}

Codec ChooseCodec(absl::string_view sample, uint32_t element_bytes) {
  Codec best = Codec::kNone;
  size_t smallest = sample.size() * kWorthwhilePercent / 100;
  std::string stored;
  for (const Codec codec : {Codec::kLz4, Codec::kShuffleLz4}) {
    // Single-byte elements need no shuffling.
    if (codec == Codec::kShuffleLz4 && element_bytes == 1) continue;
    if (!Compress(codec, sample, element_bytes, &stored)) continue;
    if (stored.size() > smallest) continue;
    // The next codec must be smaller; of two equal ones the simpler one wins.
    smallest = stored.size() - 1;
    best = codec;
  }
  return best;
}

bool Compress(Codec codec, absl::string_view raw, uint32_t element_bytes,
              std::string* stored) {
  if (raw.empty()) return false;
  std::string planes;
  absl::string_view source = raw;
  if (codec == Codec::kShuffleLz4) {
    planes.resize(raw.size());
    Shuffle(raw, element_bytes, planes.data());
    source = planes;
  }
  // The buffer is smaller than the raw size, so that LZ4 fails if it saves
  // nothing.
  stored->resize(raw.size() - 1);
  const int bytes = LZ4_compress_default(source.data(), stored->data(),
                                         static_cast<int>(source.size()),
                                         static_cast<int>(stored->size()));
  stored->resize(static_cast<size_t>(bytes));
  return bytes > 0;
}

absl::Status Decompress(Codec codec, absl::string_view stored,
                        uint32_t element_bytes, uint64_t raw_bytes, char* raw) {
  // The sizes come from a header with a valid hash. They are still checked,
  // because the hash may be forged.
  if (codec == Codec::kNone) {
    if (stored.size() != raw_bytes) {
      return absl::DataLossError(
          absl::StrCat(stored.size(),
                       " stored bytes without a codec; expected ", raw_bytes));
    }
    stored.copy(raw, raw_bytes);
    return absl::OkStatus();
  }
  if (IsLossy(codec)) return Dequantize(codec, stored, raw_bytes, raw);
  // No encoder exceeds this, and it bounds the memory that a forged header can
  // request.
  if (raw_bytes > kChunkBytes || stored.size() >= raw_bytes) {
    return absl::DataLossError(absl::StrCat(
        stored.size(), " bytes of ", CodecName(codec), " for ", raw_bytes,
        " raw bytes; expected fewer bytes than raw bytes, and at most ",
        kChunkBytes, " raw bytes"));
  }
  std::string planes;
  char* target = raw;
  if (codec == Codec::kShuffleLz4) {
    planes.resize(raw_bytes);
    target = planes.data();
  }
  const int bytes = LZ4_decompress_safe(stored.data(), target,
                                        static_cast<int>(stored.size()),
                                        static_cast<int>(raw_bytes));
  if (bytes < 0 || static_cast<uint64_t>(bytes) != raw_bytes) {
    return absl::DataLossError(
        absl::StrCat(stored.size(), " bytes of ", CodecName(codec),
                     " do not decompress to ", raw_bytes, " bytes"));
  }
  if (codec == Codec::kShuffleLz4) Unshuffle(planes, element_bytes, raw);
  return absl::OkStatus();
}

}  // namespace ckptdb
