// Lossy codecs of pages and chunks of f32: pure functions over bytes. What is
// stored is a function of the numbers alone, the same on every processor.
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
#include "ckptdb/schema/bytes/quantize.h"
#include "ckptdb/schema/types.h"

namespace ckptdb {

// The rows of int8 of a tensor or a slot without rows of its own: so many
// numbers, one after the other.
inline constexpr uint32_t kInt8BlockElements = 128;
// The fewest numbers of a row of int8: with fewer, its bounds take more than
// the codes save.
inline constexpr uint32_t kLeastInt8Elements = 4;

// Returns whether a codec does not keep all bits.
bool IsLossy(Codec codec);

// Returns InvalidArgument, with what is allowed, if `codec` is lossy and does
// not take rows of so many elements of this dtype. A tensor has rows of
// kInt8BlockElements.
absl::Status CheckLossy(Codec codec, DType dtype, uint64_t row_elements);

// Returns the errors of the numbers of both.
Item::Error Larger(const Item::Error& a, const Item::Error& b);

enum class Rounding {
  kNearest,
  // Keeps what would be rounded as it is: rows of int8, and all under bf16.
  kNone,
};

// Encodes `raw`, f32 of at most kChunkBytes, into *stored with a lossy codec,
// in rows of `row_elements`, and sets *error. Returns false when the result is
// not smaller than `raw`, or when it would be a bf16 infinity for a finite
// number; the caller then stores kNone.
bool Quantize(Codec codec, absl::string_view raw, uint32_t row_elements,
              Rounding rounding, std::string* stored, Item::Error* error);

// Writes exactly `raw_bytes` bytes to `raw`. Returns DataLoss when `stored`
// does not decode to as many; the content of `raw` is then undefined.
absl::Status Dequantize(Codec codec, absl::string_view stored,
                        uint64_t raw_bytes, char* raw);

// Rows that were encoded one by one where they are, such as on a device, by the
// mathematics of quantize.h. Any of them, put together, are a page that
// Quantize would make of their numbers.
namespace internal {
struct EncodedRows {
  Codec codec = Codec::kBf16;  // or kInt8
  const char* codes = nullptr;
  uint64_t stride_bytes = 0;  // from the codes of one row to those of the next
  const Int8Bounds* bounds =
      nullptr;          // of the rows, under kInt8; none verbatim
  float error = 0;      // the largest that was made
  float magnitude = 0;  // the largest that a number had, under kBf16

  const char* CodesAt(uint64_t row) const { return codes + row * stride_bytes; }
};

// Returns whether rows may be encoded one by one. It is false for a codec that
// is not lossy, and for rows of int8 so short that a page of one of them is
// stored as it is.
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
  // Where bounds and codes of the rows are, one after the other.
  uint64_t bounds_at() const { return sizeof(row_elements_); }
  uint64_t codes_at() const {
    return codec_ == Codec::kInt8 ? bounds_at() + rows_ * sizeof(Int8Bounds)
                                  : 0;
  }
  // Writes what is before bounds and codes.
  void WriteHead(char* page) const;
  // Returns the errors of a page that is complete, whose rows are of `rows`.
  Item::Error ErrorOf(const char* page, const EncodedRows& rows) const;

 private:
  const Codec codec_;
  const uint64_t rows_;
  const uint32_t row_elements_;
};
}  // namespace internal

}  // namespace ckptdb

#endif  // CKPTDB_SCHEMA_BYTES_LOSSY_H_
