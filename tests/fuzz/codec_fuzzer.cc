// SPDX-License-Identifier: Apache-2.0
// Codecs: the first byte selects the codec, the second the bytes of an element
// or the numbers of a row, and the next two the raw size. The rest is
// decompressed and compressed.
#include <string>

#include "schema/bytes/codec.h"
#include "schema/bytes/lossy.h"
#include "schema/bytes/quantize_loops.h"
#include "schema/types.h"
#include "tests/fuzz/fuzz_input.h"

namespace ckptdb {
namespace {

using testing::Require;
using testing::TakeByte;

void CheckRoundTrip(Codec codec, absl::string_view raw,
                    uint32_t element_bytes) {
  std::string stored;
  if (!Compress(codec, raw, element_bytes, &stored)) return;
  Require(stored.size() < raw.size());
  std::string back(raw.size(), '?');
  Require(
      Decompress(codec, stored, element_bytes, raw.size(), back.data()).ok());
  Require(back == raw);
}

std::string Decoded(Codec codec, const std::string& stored, size_t raw_bytes) {
  std::string raw(raw_bytes, '?');
  Require(Dequantize(codec, stored, raw_bytes, raw.data()).ok());
  return raw;
}

// All loops give the same result, errors are within their bounds, and decoded
// values are stable.
void CheckLossyRoundTrip(Codec codec, absl::string_view raw,
                         uint32_t row_elements) {
  std::string stored;
  Item::Error error;
  internal::UsePlainLoops(true);
  const bool taken =
      Quantize(codec, raw, row_elements, Rounding::kNearest, &stored, &error);
  internal::UsePlainLoops(false);
  std::string widest;
  Item::Error widest_error;
  Require(Quantize(codec, raw, row_elements, Rounding::kNearest, &widest,
                   &widest_error) == taken);
  if (!taken) return;
  Require(stored == widest && error == widest_error);
  Require(stored.size() < raw.size());
  Require(0 <= error.max && error.max <= error.bound);
  const std::string back = Decoded(codec, stored, raw.size());
  if (Quantize(codec, back, row_elements, Rounding::kNone, &stored, &error)) {
    Require(Decoded(codec, stored, raw.size()) == back);
  }
}

void CheckLossyCodec(Codec codec, absl::string_view input,
                     uint32_t row_elements, size_t raw_bytes) {
  std::string raw(raw_bytes, '\0');
  if (Dequantize(codec, input, raw_bytes, raw.data()).ok()) {
    CheckLossyRoundTrip(codec, raw, row_elements);
  }
  CheckLossyRoundTrip(codec, input, row_elements);
}

void CheckCodecs(absl::string_view input) {
  constexpr Codec kCodecs[] = {Codec::kLz4, Codec::kShuffleLz4, Codec::kBf16,
                               Codec::kInt8};
  const Codec codec = kCodecs[TakeByte(&input) % 4];
  const uint8_t width = TakeByte(&input);
  const uint32_t element_bytes = 1 + width % 9;
  const size_t raw_bytes = TakeByte(&input) + TakeByte(&input) * size_t{256};
  if (IsLossy(codec)) {
    return CheckLossyCodec(codec, input, 1 + width, raw_bytes);
  }
  std::string raw(raw_bytes, '\0');
  if (Decompress(codec, input, element_bytes, raw_bytes, raw.data()).ok()) {
    CheckRoundTrip(codec, raw, element_bytes);
  }
  CheckRoundTrip(codec, input, element_bytes);
  const Codec chosen = ChooseCodec(input, element_bytes);
  if (chosen != Codec::kNone) CheckRoundTrip(chosen, input, element_bytes);
}

}  // namespace
}  // namespace ckptdb

CKPTDB_FUZZ(ckptdb::CheckCodecs)
