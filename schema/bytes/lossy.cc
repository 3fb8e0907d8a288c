// SPDX-License-Identifier: Apache-2.0
#include "schema/bytes/lossy.h"

#include <algorithm>
#include <cfenv>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "schema/bytes/limits.h"
#include "schema/bytes/quantize.h"
#include "schema/bytes/quantize_loops.h"
#include "schema/status.h"
#include "schema/types.h"

namespace ckptdb {
namespace {

using internal::Bf16Stats;
using internal::FloatOf;
using internal::Int8Bounds;
using internal::Int8Scale;
using internal::Int8Stats;
using internal::kInt8GroupNumbers;
using internal::kInt8GroupRows;
using internal::Loops;
using internal::LoopsForThisCpu;

constexpr uint32_t kFloatBytes = sizeof(float);

// A trainer's thread may flush subnormal numbers, round in another direction or
// trap inexact results. That would change the bytes or end the process, so this
// restores the default while it exists.
class DefaultArithmetic {
 public:
  DefaultArithmetic() {
    std::fegetenv(&before_);
    std::fesetenv(FE_DFL_ENV);
  }
  ~DefaultArithmetic() { std::fesetenv(&before_); }
  DefaultArithmetic(const DefaultArithmetic&) = delete;
  DefaultArithmetic& operator=(const DefaultArithmetic&) = delete;

 private:
  std::fenv_t before_;
};

// Returns false if the page must be stored raw: a number would become an
// infinity, or a fold, which must add no error, would change one.
bool QuantizeBf16(absl::string_view raw, Rounding rounding, std::string* stored,
                  Item::Error* error) {
  const uint64_t elements = raw.size() / kFloatBytes;
  stored->resize(elements * sizeof(uint16_t));
  const Bf16Stats found =
      LoopsForThisCpu().encode_bf16(raw.data(), elements, stored->data());
  if (found.overflow || (rounding == Rounding::kNone && !found.exact)) {
    return false;
  }
  error->max = FloatOf(found.error);
  error->bound = internal::Bf16ErrorBound(FloatOf(found.magnitude));
  return true;
}

// The offsets of the parts of int8 for this many numbers.
class Int8Layout {
 public:
  Int8Layout(uint64_t elements, uint32_t row_elements)
      : elements_(elements),
        row_elements_(row_elements),
        rows_(row_elements == 0
                  ? 0
                  : (elements + row_elements - 1) / row_elements) {}

  uint32_t row_elements() const { return row_elements_; }
  uint64_t rows() const { return rows_; }
  uint64_t ElementsOf(uint64_t row) const {
    return std::min<uint64_t>(row_elements_, elements_ - row * row_elements_);
  }
  // Returns the size of the group of rows that begins at this row. A shorter
  // last row forms its own group.
  uint64_t GroupAt(uint64_t row) const {
    const uint64_t whole = elements_ / row_elements_;
    if (row == whole) return 1;
    const uint64_t most = std::clamp<uint64_t>(
        kInt8GroupNumbers / row_elements_, 1, kInt8GroupRows);
    return std::min(most, whole - row);
  }
  uint64_t RawAt(uint64_t row) const {
    return row * row_elements_ * kFloatBytes;
  }
  uint64_t BoundsAt(uint64_t row) const {
    return sizeof(row_elements_) + row * sizeof(Int8Bounds);
  }
  uint64_t CodesAt(uint64_t row) const {
    return BoundsAt(rows_) + row * row_elements_;
  }
  uint64_t VerbatimAt() const { return BoundsAt(rows_) + elements_; }

 private:
  const uint64_t elements_;
  const uint32_t row_elements_;
  const uint64_t rows_;
};

// Encodes the rows of a page or chunk.
class Int8Encoder {
 public:
  Int8Encoder(absl::string_view raw, uint32_t row_elements, Rounding rounding,
              std::string* stored)
      : raw_(raw),
        layout_(raw.size() / kFloatBytes,
                static_cast<uint32_t>(std::min<uint64_t>(
                    row_elements, raw.size() / kFloatBytes))),
        rounding_(rounding),
        loops_(LoopsForThisCpu()),
        stored_(stored) {}

  // Returns false if the page does not become smaller, because a codec is
  // stored only if it saves bytes.
  bool Run(Item::Error* error) {
    const uint32_t row_elements = layout_.row_elements();
    if (row_elements == 0) return false;
    stored_->resize(layout_.VerbatimAt());
    std::memcpy(stored_->data(), &row_elements, sizeof(row_elements));
    for (uint64_t row = 0; row < layout_.rows(); row += layout_.GroupAt(row)) {
      EncodeRows(row, layout_.GroupAt(row));
      // Each verbatim row grows the result, so this may end before the last
      // row.
      if (stored_->size() >= raw_.size()) return false;
    }
    error->max = FloatOf(error_);
    error->bound = bound_;
    return stored_->size() < raw_.size();
  }

 private:
  // Encodes a group of rows, each on the line from its least to its greatest
  // number. A row with a NaN or an infinity has no such line and is kept
  // verbatim, alone.
  void EncodeRows(uint64_t first, uint64_t rows) {
    Int8Stats found;
    loops_.encode_int8(raw_.data() + layout_.RawAt(first),
                       layout_.ElementsOf(first), rows,
                       stored_->data() + layout_.CodesAt(first), &found);
    if (found.verbatim || (rounding_ == Rounding::kNone && !found.exact)) {
      if (rows == 1) return KeepRow(first);
      for (uint64_t i = 0; i < rows; ++i) EncodeRows(first + i, 1);
      return;
    }
    std::memcpy(stored_->data() + layout_.BoundsAt(first), found.bounds,
                rows * sizeof(Int8Bounds));
    error_ = std::max(error_, found.error);
    bound_ = std::max(bound_, found.error_bound);
  }

  // Its codes remain in place as 0, so that each row's codes stay at the offset
  // of its numbers.
  void KeepRow(uint64_t row) {
    const uint64_t elements = layout_.ElementsOf(row);
    std::memset(stored_->data() + layout_.CodesAt(row), 0, elements);
    const Int8Bounds bounds = {Int8Bounds::kVerbatim, Int8Bounds::kVerbatim};
    std::memcpy(stored_->data() + layout_.BoundsAt(row), &bounds,
                sizeof(bounds));
    stored_->append(raw_.data() + layout_.RawAt(row), elements * kFloatBytes);
  }

  const absl::string_view raw_;
  const Int8Layout layout_;
  const Rounding rounding_;
  const Loops& loops_;
  std::string* const stored_;
  uint32_t error_ = 0;
  double bound_ = 0;
};

absl::Status BadSize(Codec codec, uint64_t stored, uint64_t raw_bytes) {
  return absl::DataLossError(
      absl::StrCat(stored, " bytes of ", CodecName(codec), " do not decode to ",
                   raw_bytes, " bytes of f32"));
}

absl::Status BadRow(uint64_t row, absl::string_view why) {
  return absl::DataLossError(absl::StrCat("row ", row, " of int8 ", why));
}

bool AllZero(absl::string_view bytes) {
  return std::all_of(bytes.begin(), bytes.end(),
                     [](char byte) { return byte == 0; });
}

// Decodes the rows of a page or chunk.
class Int8Decoder {
 public:
  Int8Decoder(absl::string_view stored, const Int8Layout& layout, char* raw)
      : stored_(stored),
        layout_(layout),
        loops_(LoopsForThisCpu()),
        raw_(raw),
        verbatim_(layout.VerbatimAt()) {}

  // Returns whether decoding has used all bytes.
  absl::StatusOr<bool> Run() {
    if (verbatim_ > stored_.size()) return false;
    for (uint64_t row = 0; row < layout_.rows(); row += layout_.GroupAt(row)) {
      CKPTDB_ASSIGN_OR_RETURN(const bool enough,
                              DecodeRows(row, layout_.GroupAt(row)));
      if (!enough) return false;
    }
    return verbatim_ == stored_.size();
  }

 private:
  // Decodes a group of rows; returns false if bytes are missing.
  absl::StatusOr<bool> DecodeRows(uint64_t first, uint64_t rows) {
    Int8Bounds bounds[kInt8GroupRows];
    std::memcpy(bounds, stored_.data() + layout_.BoundsAt(first),
                rows * sizeof(Int8Bounds));
    if (loops_.decode_int8(stored_.data() + layout_.CodesAt(first),
                           layout_.ElementsOf(first), rows, bounds,
                           raw_ + layout_.RawAt(first))) {
      return true;
    }
    for (uint64_t i = 0; i < rows; ++i) {
      if (bounds[i].is_valid()) continue;
      CKPTDB_ASSIGN_OR_RETURN(const bool enough, CopyRow(first + i, bounds[i]));
      if (!enough) return false;
    }
    return true;
  }

  // Copies a verbatim row; returns false if bytes are missing. Bounds and codes
  // that no encoder writes are damage, even under a valid hash.
  absl::StatusOr<bool> CopyRow(uint64_t row, const Int8Bounds& bounds) {
    if (!bounds.is_verbatim()) {
      return BadRow(row, absl::StrCat("has the invalid bounds 0x",
                                      absl::Hex(bounds.least), " and 0x",
                                      absl::Hex(bounds.greatest)));
    }
    const uint64_t elements = layout_.ElementsOf(row);
    if (!AllZero(stored_.substr(layout_.CodesAt(row), elements))) {
      return BadRow(row, "is verbatim but has nonzero codes");
    }
    const uint64_t bytes = elements * kFloatBytes;
    if (stored_.size() - verbatim_ < bytes) return false;
    std::memcpy(raw_ + layout_.RawAt(row), stored_.data() + verbatim_, bytes);
    verbatim_ += bytes;
    return true;
  }

  const absl::string_view stored_;
  const Int8Layout& layout_;
  const Loops& loops_;
  char* const raw_;
  uint64_t verbatim_;  // the offset of the next verbatim row
};

absl::Status DequantizeInt8(absl::string_view stored, uint64_t raw_bytes,
                            char* raw) {
  const uint64_t elements = raw_bytes / kFloatBytes;
  uint32_t row_elements = 0;
  if (stored.size() < sizeof(row_elements)) {
    return BadSize(Codec::kInt8, stored.size(), raw_bytes);
  }
  std::memcpy(&row_elements, stored.data(), sizeof(row_elements));
  // All offsets depend on this number, so it is checked before the layout is
  // computed.
  if (row_elements == 0 || row_elements > elements) {
    return absl::DataLossError(absl::StrCat("rows of int8 have ", row_elements,
                                            " numbers; expected 1 to ",
                                            elements));
  }
  const Int8Layout layout(elements, row_elements);
  CKPTDB_ASSIGN_OR_RETURN(const bool complete,
                          Int8Decoder(stored, layout, raw).Run());
  if (complete) return absl::OkStatus();
  return BadSize(Codec::kInt8, stored.size(), raw_bytes);
}

absl::Status DequantizeBf16(absl::string_view stored, uint64_t raw_bytes,
                            char* raw) {
  const uint64_t elements = raw_bytes / kFloatBytes;
  if (stored.size() != elements * sizeof(uint16_t)) {
    return BadSize(Codec::kBf16, stored.size(), raw_bytes);
  }
  LoopsForThisCpu().decode_bf16(stored.data(), elements, raw);
  return absl::OkStatus();
}

// The shortest int8 row that is smaller than its f32 form in a page with one
// row: 4 bytes for the length, 8 for the bounds, and a byte per number.
constexpr uint64_t kLeastInt8RowElements = 5;

}  // namespace

namespace internal {

bool EncodesByRow(Codec codec, DType dtype, uint64_t row_elements) {
  if (dtype != DType::kF32) return false;
  return codec == Codec::kBf16 ||
         (codec == Codec::kInt8 && row_elements >= kLeastInt8RowElements);
}

uint64_t CodeBytes(Codec codec, uint64_t row_elements) {
  return codec == Codec::kBf16 ? row_elements * sizeof(uint16_t) : row_elements;
}

void EncodedPage::WriteHead(char* page) const {
  if (codec_ != Codec::kInt8) return;
  std::memcpy(page, &row_elements_, sizeof(row_elements_));
}

Item::Error EncodedPage::ErrorOf(const char* page,
                                 const EncodedRows& rows) const {
  const DefaultArithmetic arithmetic;
  if (codec_ == Codec::kBf16) {
    return {rows.error, Bf16ErrorBound(rows.magnitude)};
  }
  Item::Error error = {rows.error, 0};
  for (uint64_t row = 0; row < rows_; ++row) {
    Int8Bounds bounds{};
    std::memcpy(&bounds, page + bounds_at() + row * sizeof(bounds),
                sizeof(bounds));
    error.bound = std::max(error.bound, Int8Scale(bounds).ErrorBound());
  }
  return error;
}

}  // namespace internal

bool IsLossy(Codec codec) {
  return codec == Codec::kBf16 || codec == Codec::kInt8;
}

absl::Status CheckLossy(Codec codec, DType dtype, uint64_t row_elements) {
  if (!IsLossy(codec)) return absl::OkStatus();
  if (dtype != DType::kF32) {
    return absl::InvalidArgumentError(absl::StrCat(
        "codec ", CodecName(codec), " supports only f32, not ",
        DTypeName(dtype), "; use one of none, lz4, shuffle-lz4, auto"));
  }
  if (codec != Codec::kInt8 || row_elements >= kLeastInt8Elements) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(
      absl::StrCat("codec int8 needs rows of at least ", kLeastInt8Elements,
                   " numbers, because each row stores ", sizeof(Int8Bounds),
                   " bytes of bounds; these rows have ", row_elements,
                   "; use bf16, or one of none, lz4, shuffle-lz4, auto"));
}

Item::Error Larger(const Item::Error& a, const Item::Error& b) {
  return {std::max(a.max, b.max), std::max(a.bound, b.bound)};
}

bool Quantize(Codec codec, absl::string_view raw, uint32_t row_elements,
              Rounding rounding, std::string* stored, Item::Error* error) {
  if (raw.empty() || raw.size() % kFloatBytes != 0) return false;
  const DefaultArithmetic arithmetic;
  if (codec == Codec::kBf16) {
    return QuantizeBf16(raw, rounding, stored, error);
  }
  return Int8Encoder(raw, row_elements, rounding, stored).Run(error);
}

absl::Status Dequantize(Codec codec, absl::string_view stored,
                        uint64_t raw_bytes, char* raw) {
  if (raw_bytes > kChunkBytes || raw_bytes % kFloatBytes != 0 ||
      stored.size() >= raw_bytes) {
    return BadSize(codec, stored.size(), raw_bytes);
  }
  const DefaultArithmetic arithmetic;
  return codec == Codec::kBf16 ? DequantizeBf16(stored, raw_bytes, raw)
                               : DequantizeInt8(stored, raw_bytes, raw);
}

}  // namespace ckptdb
