// SPDX-License-Identifier: Apache-2.0
// Codecs of pages and chunks: pure functions over bytes. lossy.h encodes the
// lossy ones.
#ifndef CKPTDB_SCHEMA_BYTES_CODEC_H_
#define CKPTDB_SCHEMA_BYTES_CODEC_H_

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "schema/types.h"

namespace ckptdb {

// Returns DataLoss for a stored number that is not a codec; kAuto is never
// stored.
absl::StatusOr<Codec> CodecFromStored(uint8_t number);

// Returns the codec that kAuto chooses for an item that starts with `sample`,
// of at most kChunkBytes. `element_bytes`, here and below, is at least 1.
Codec ChooseCodec(absl::string_view sample, uint32_t element_bytes);

// Compresses `raw`, of at most kChunkBytes, into *stored with kLz4 or
// kShuffleLz4. Shuffling groups the first bytes of all elements, then the
// second bytes, and so on; a trailing partial element is not shuffled. Returns
// false if the result is not smaller than `raw`; the caller then stores kNone.
bool Compress(Codec codec, absl::string_view raw, uint32_t element_bytes,
              std::string* stored);

// Writes exactly `raw_bytes` bytes to `raw`. Returns DataLoss if `stored` does
// not decompress to that size; the content of `raw` is then undefined. `codec`
// is not kAuto, and may be lossy.
absl::Status Decompress(Codec codec, absl::string_view stored,
                        uint32_t element_bytes, uint64_t raw_bytes, char* raw);

}  // namespace ckptdb

#endif  // CKPTDB_SCHEMA_BYTES_CODEC_H_
