// SPDX-License-Identifier: Apache-2.0
#include "tools/files/npy.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <optional>
#include <utility>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/strip.h"
#include "schema/status.h"
#include "tools/files/array.h"

namespace ckptdb::tool {
namespace {

constexpr absl::string_view kNpyMagic("\x93NUMPY", 6);
constexpr size_t kNpyAlignment = 64;
// NumPy itself refuses more than 10,000 by default.
constexpr size_t kMaxNpyHeaderBytes = 65536;

struct NpyType {
  DType dtype;
  absl::string_view descr;
  absl::string_view field = {};  // the only one of a structured dtype
};
constexpr std::array<NpyType, kDTypes> kNpyTypes = {{
    {DType::kF64, "<f8"},
    {DType::kF32, "<f4"},
    {DType::kF16, "<f2"},
    {DType::kBf16, "<u2", "bfloat16"},
    {DType::kF8E4M3, "|u1", "float8_e4m3fn"},
    {DType::kF8E5M2, "|u1", "float8_e5m2"},
    {DType::kI64, "<i8"},
    {DType::kI32, "<i4"},
    {DType::kI16, "<i2"},
    {DType::kI8, "|i1"},
    {DType::kU64, "<u8"},
    {DType::kU32, "<u4"},
    {DType::kU16, "<u2"},
    {DType::kU8, "|u1"},
    {DType::kBool, "|b1"},
}};

absl::Status BadNpy(size_t at, absl::string_view what) {
  return absl::InvalidArgumentError(
      absl::StrCat("not a valid .npy header: ", what, " at byte ", at));
}

// Parses the literal of a Python dictionary that a header consists of.
class NpyDict {
 public:
  NpyDict(absl::string_view text, size_t at) : text_(text), at_(at) {}

  absl::Status Parse() {
    CKPTDB_RETURN_IF_ERROR(Expect('{'));
    while (!Take('}')) {
      CKPTDB_ASSIGN_OR_RETURN(const std::string key, String());
      CKPTDB_RETURN_IF_ERROR(Expect(':'));
      CKPTDB_RETURN_IF_ERROR(Value(key));
      if (!Take(',')) {
        CKPTDB_RETURN_IF_ERROR(Expect('}'));
        break;
      }
    }
    Space();
    if (!text_.empty()) return BadNpy(at_, "text after the dictionary");
    if (!has_descr_ || !fortran_order_ || !has_shape_) {
      return BadNpy(at_, "descr, fortran_order or shape is missing");
    }
    return absl::OkStatus();
  }

  const std::string& descr() const { return descr_; }
  const std::string& field() const { return field_; }
  bool fortran_order() const { return *fortran_order_; }
  Shape& shape() { return shape_; }

 private:
  void Skip(size_t bytes) {
    text_.remove_prefix(bytes);
    at_ += bytes;
  }
  void Space() {
    while (!text_.empty() && (text_[0] == ' ' || text_[0] == '\n')) Skip(1);
  }
  bool Take(char c) {
    Space();
    if (text_.empty() || text_[0] != c) return false;
    Skip(1);
    return true;
  }
  absl::Status Expect(char c) {
    if (Take(c)) return absl::OkStatus();
    return BadNpy(at_, absl::StrCat("expected \"", std::string(1, c), "\""));
  }
  absl::StatusOr<std::string> String() {
    Space();
    const char quote = text_.empty() ? '\0' : text_[0];
    if (quote != '\'' && quote != '"') return BadNpy(at_, "expected a string");
    const size_t end = text_.find(quote, 1);
    if (end == absl::string_view::npos) return BadNpy(at_, "open string");
    std::string value(text_.substr(1, end - 1));
    if (absl::StrContains(value, '\\')) return BadNpy(at_, "an escape");
    Skip(end + 1);
    return value;
  }
  absl::Status Value(const std::string& key) {
    if (key == "descr" && !has_descr_) {
      has_descr_ = true;
      return Descr();
    }
    if (key == "fortran_order" && !fortran_order_) return Bool();
    if (key == "shape" && !has_shape_) {
      has_shape_ = true;
      return Tuple();
    }
    return BadNpy(
        at_, absl::StrCat("unexpected key \"", absl::CHexEscape(key), "\""));
  }
  // '<f4', or [('bfloat16', '<u2')]
  absl::Status Descr() {
    if (!Take('[')) {
      CKPTDB_ASSIGN_OR_RETURN(descr_, String());
      return absl::OkStatus();
    }
    CKPTDB_RETURN_IF_ERROR(Expect('('));
    CKPTDB_ASSIGN_OR_RETURN(field_, String());
    CKPTDB_RETURN_IF_ERROR(Expect(','));
    CKPTDB_ASSIGN_OR_RETURN(descr_, String());
    Take(',');
    CKPTDB_RETURN_IF_ERROR(Expect(')'));
    Take(',');
    return Expect(']');
  }
  absl::Status Bool() {
    Space();
    for (const auto& [word, value] :
         {std::pair<absl::string_view, bool>{"True", true}, {"False", false}}) {
      if (!absl::StartsWith(text_, word)) continue;
      fortran_order_ = value;
      Skip(word.size());
      return absl::OkStatus();
    }
    return BadNpy(at_, "expected True or False");
  }
  absl::Status Tuple() {
    CKPTDB_RETURN_IF_ERROR(Expect('('));
    while (!Take(')')) {
      Space();
      const size_t end =
          std::min(text_.find_first_not_of("-0123456789"), text_.size());
      int64_t extent = 0;
      if (!absl::SimpleAtoi(text_.substr(0, end), &extent)) {
        return BadNpy(at_, "expected a dimension of at most 2^63 - 1");
      }
      if (shape_.size() == kMaxDimensions) {
        return BadNpy(
            at_, absl::StrCat("more than ", kMaxDimensions, " dimensions"));
      }
      shape_.push_back(extent);
      Skip(end);
      Take('L');  // written by Python 2
      if (!Take(',')) return Expect(')');
    }
    return absl::OkStatus();
  }

  absl::string_view text_;
  size_t at_;
  bool has_descr_ = false;
  bool has_shape_ = false;
  std::string descr_;
  std::string field_;
  std::optional<bool> fortran_order_;
  Shape shape_;
};

absl::StatusOr<DType> NpyDType(const std::string& descr,
                               const std::string& field) {
  std::string little = descr;
  // "=" is not written by NumPy; "|" has no byte order.
  if (little.size() == 3 && little[2] == '1') little[0] = '|';
  for (const NpyType& type : kNpyTypes) {
    if (type.descr == little && type.field == field) return type.dtype;
  }
  const std::string shown = absl::CHexEscape(
      field.empty() ? descr : absl::StrCat("[(", field, ", ", descr, ")]"));
  if (absl::StartsWith(descr, ">")) {
    return absl::InvalidArgumentError(
        absl::StrCat("dtype \"", shown,
                     "\" is big-endian; save the array with "
                     "astype(dtype.newbyteorder(\"<\"))"));
  }
  return absl::InvalidArgumentError(
      absl::StrCat("dtype \"", shown,
                   "\" has no counterpart in a store; expected one of bool, "
                   "integers, f2, f4, f8, or a field bfloat16, float8_e4m3fn "
                   "or float8_e5m2 of unsigned integers"));
}

// The bytes before the dictionary, and the dictionary's.
struct NpyLengths {
  size_t prefix = 0;
  size_t dict = 0;
};

absl::StatusOr<NpyLengths> ParseNpyLengths(absl::string_view file) {
  constexpr size_t kVersion1Prefix = 10;
  constexpr size_t kVersion2Prefix = 12;
  if (!absl::StartsWith(file, kNpyMagic) || file.size() < kVersion1Prefix) {
    return BadNpy(0, "expected \"\\x93NUMPY\"");
  }
  const char major = file[kNpyMagic.size()];
  if (major < 1 || major > 3) return BadNpy(6, "unknown version");
  NpyLengths lengths = {kVersion1Prefix, 0};
  if (major > 1) lengths.prefix = kVersion2Prefix;
  if (file.size() < lengths.prefix) return BadNpy(8, "end of file");
  for (size_t i = lengths.prefix; i-- > 8;) {
    lengths.dict = lengths.dict << 8 | static_cast<uint8_t>(file[i]);
  }
  if (lengths.dict > kMaxNpyHeaderBytes) {
    return BadNpy(8, absl::StrCat("a header of ", lengths.dict,
                                  " bytes; the limit is ", kMaxNpyHeaderBytes));
  }
  if (file.size() - lengths.prefix < lengths.dict) {
    return BadNpy(file.size(), "end of file");
  }
  return lengths;
}

}  // namespace

std::string NpyHeader(DType dtype, const Shape& shape) {
  const NpyType& type = *std::find_if(
      kNpyTypes.begin(), kNpyTypes.end(),
      [dtype](const NpyType& each) { return each.dtype == dtype; });
  const std::string descr =
      type.field.empty()
          ? absl::StrCat("'", type.descr, "'")
          : absl::StrCat("[('", type.field, "', '", type.descr, "')]");
  std::string dict = absl::StrCat(
      "{'descr': ", descr, ", 'fortran_order': False, 'shape': (",
      absl::StrJoin(shape, ", "), shape.size() == 1 ? "," : "", "), }");
  const size_t prefix = kNpyMagic.size() + 4;
  // Padding, then a newline.
  const size_t bytes = prefix + dict.size() + 1;
  dict.append((kNpyAlignment - bytes % kNpyAlignment) % kNpyAlignment, ' ');
  dict += '\n';
  std::string header(kNpyMagic);
  header += {1, 0, static_cast<char>(dict.size() & 0xff),
             static_cast<char>(dict.size() >> 8)};
  return header + dict;
}

absl::StatusOr<NpyArray> ParseNpy(absl::string_view file) {
  CKPTDB_ASSIGN_OR_RETURN(const NpyLengths lengths, ParseNpyLengths(file));
  NpyDict dict(file.substr(lengths.prefix, lengths.dict), lengths.prefix);
  CKPTDB_RETURN_IF_ERROR(dict.Parse());
  NpyArray array;
  CKPTDB_ASSIGN_OR_RETURN(array.dtype, NpyDType(dict.descr(), dict.field()));
  CKPTDB_ASSIGN_OR_RETURN(ArraySpec spec,
                          MakeArraySpec("shape", array.dtype, dict.shape()));
  array.shape = std::move(spec.shape);
  array.bytes = spec.bytes;
  array.fortran_order = dict.fortran_order() && array.shape.size() > 1;
  array.data_at = lengths.prefix + lengths.dict;
  const uint64_t rest = file.size() - array.data_at;
  if (rest != array.bytes) {
    return absl::DataLossError(absl::StrCat(
        "has ", rest, " bytes of elements from byte ", array.data_at, ", but ",
        DTypeName(array.dtype), ToString(array.shape), " takes ", array.bytes));
  }
  return array;
}

void ToRowMajor(const NpyArray& array, const char* from, char* to) {
  const size_t element = DTypeBytes(array.dtype);
  std::vector<uint64_t> strides(array.shape.size(), element);
  for (size_t i = 1; i < strides.size(); ++i) {
    strides[i] = strides[i - 1] * static_cast<uint64_t>(array.shape[i - 1]);
  }
  Shape index(array.shape.size(), 0);
  uint64_t at = 0;
  for (uint64_t done = 0; done < array.bytes; done += element) {
    std::memcpy(to + done, from + at, element);
    for (size_t i = index.size(); i-- > 0;) {
      at += strides[i];
      if (++index[i] < array.shape[i]) break;
      at -= strides[i] * static_cast<uint64_t>(index[i]);
      index[i] = 0;
    }
  }
}

}  // namespace ckptdb::tool
