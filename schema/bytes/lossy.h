// SPDX-License-Identifier: Apache-2.0
// Lossy codecs for pages and chunks of f32: pure functions over bytes. The
// stored bytes depend only on the numbers and are the same on every processor.
//
// The stored bytes of bf16 are two for each number. Those of int8 are
//
//   the numbers of a row                     4 bytes
//   the least and the greatest of each row   8 bytes a row
//   the codes of all numbers                 1 byte each
//   the verbatim rows, one after the other   4 bytes a number
//
// A row that has an infinity or a NaN is verbatim; its codes are 0. The last
// row may be shorter. See quantize.h for bounds and codes.
#ifndef CKPTDB_SCHEMA_BYTES_LOSSY_H_
#define CKPTDB_SCHEMA_BYTES_LOSSY_H_

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "schema/bytes/quantize.h"
#include "schema/types.h"

namespace ckptdb {

// The row length of int8 for a tensor, or for a slot without rows: this many
// consecutive numbers.
inline constexpr uint32_t kInt8BlockElements = 128;
// The minimum length of an int8 row: with fewer numbers, its bounds take more
// than the codes save.
inline constexpr uint32_t kLeastInt8Elements = 4;

// Returns whether a codec does not preserve all bits.
bool IsLossy(Codec codec);

// Returns InvalidArgument, with the alternatives, if `codec` is lossy and does
// not support rows of this length and dtype. A tensor has rows of
// kInt8BlockElements.
absl::Status CheckLossy(Codec codec, DType dtype, uint64_t row_elements);

// Returns the larger of both errors and of both bounds.
Item::Error Larger(const Item::Error& a, const Item::Error& b);

enum class Rounding {
  kNearest,
  // Stores data that would be rounded verbatim: the row with int8, the whole
  // page with bf16.
  kNone,
};

// Encodes `raw`, f32 of at most kChunkBytes, into *stored with a lossy codec,
// in rows of `row_elements`, and sets *error. Returns false if the result is
// not smaller than `raw`, or if bf16 would turn a finite number into an
// infinity; the caller then stores kNone.
bool Quantize(Codec codec, absl::string_view raw, uint32_t row_elements,
              Rounding rounding, std::string* stored, Item::Error* error);

// Writes exactly `raw_bytes` bytes to `raw`. Returns DataLoss if `stored` does
// not decode to that size; the content of `raw` is then undefined.
absl::Status Dequantize(Codec codec, absl::string_view stored,
                        uint64_t raw_bytes, char* raw);

// Rows that were encoded individually in place, such as on a device, with
// quantize.h. Any of them, joined, form the page that Quantize would make of
// their numbers.
namespace internal {
struct EncodedRows {
  Codec codec = Codec::kBf16;  // or kInt8
  const char* codes = nullptr;
  uint64_t stride_bytes = 0;  // from the codes of one row to those of the next
  const Int8Bounds* bounds = nullptr;  // the rows', with kInt8; none verbatim
  float error = 0;                     // the largest of a number
  float magnitude = 0;                 // the largest of a number, with kBf16

  const char* CodesAt(uint64_t row) const { return codes + row * stride_bytes; }
};

// Returns whether rows may be encoded one by one. False for a lossless codec,
// and for int8 rows so short that a page with one row would be stored raw.
bool EncodesByRow(Codec codec, DType dtype, uint64_t row_elements);
// Returns the bytes of the codes of a row.
uint64_t CodeBytes(Codec codec, uint64_t row_elements);

// The stored bytes of a page of encoded rows.
class EncodedPage {
 public:
  EncodedPage(Codec codec, uint64_t rows, uint32_t row_elements)
      : codec_(codec), rows_(rows), row_elements_(row_elements) {}

  uint64_t bytes() const { return codes_at() + rows_ * code_bytes(); }
  uint64_t code_bytes() const { return CodeBytes(codec_, row_elements_); }
  // The offsets of the rows' bounds and codes, which are consecutive.
  uint64_t bounds_at() const { return sizeof(row_elements_); }
  uint64_t codes_at() const {
    return codec_ == Codec::kInt8 ? bounds_at() + rows_ * sizeof(Int8Bounds)
                                  : 0;
  }
  // Writes the bytes before bounds and codes.
  void WriteHead(char* page) const;
  // Returns the errors of a complete page, whose rows are from `rows`.
  Item::Error ErrorOf(const char* page, const EncodedRows& rows) const;

 private:
  const Codec codec_;
  const uint64_t rows_;
  const uint32_t row_elements_;
};
}  // namespace internal

}  // namespace ckptdb

#endif  // CKPTDB_SCHEMA_BYTES_LOSSY_H_
