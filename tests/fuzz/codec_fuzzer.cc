// Codecs: the first byte picks the codec, the second the bytes of an element,
// the next two the raw size. The rest is decompressed, and compressed.
#include <string>

#include "ckptdb/schema/bytes/codec.h"
#include "ckptdb/schema/types.h"
#include "ckptdb/tests/fuzz/fuzz_input.h"

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

void CheckCodecs(absl::string_view input) {
  const Codec codec =
      TakeByte(&input) % 2 == 0 ? Codec::kLz4 : Codec::kShuffleLz4;
  const uint32_t element_bytes = 1 + TakeByte(&input) % 9;
  const size_t raw_bytes = TakeByte(&input) + TakeByte(&input) * size_t{256};
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

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* bytes, size_t size) {
  ckptdb::CheckCodecs(ckptdb::testing::InputOf(bytes, size));
  return 0;
}
