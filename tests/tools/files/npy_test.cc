// SPDX-License-Identifier: Apache-2.0
// .npy files.
#include "tools/files/npy.h"

#include <cstdint>
#include <string>

#include "absl/strings/str_cat.h"
#include "tests/tools/files/file_bytes.h"

namespace ckptdb::tool {
namespace {

// A header of version 1 with this dictionary, and elements.
std::string Npy(const std::string& dict, const std::string& elements) {
  return absl::StrCat(absl::string_view("\x93NUMPY\x01\x00", 8),
                      LittleEndian(static_cast<uint16_t>(dict.size())), dict,
                      elements);
}

TEST(NpyTest, HeadersOfAllDTypesComeBack) {
  for (uint8_t i = 0; i < kDTypes; ++i) {
    const auto dtype = static_cast<DType>(i);
    for (const Shape& shape : {Shape{}, Shape{3}, Shape{2, 0}, Shape{2, 3}}) {
      const std::string header = NpyHeader(dtype, shape);
      EXPECT_EQ(header.size() % 64, 0u);
      const uint64_t elements =
          ElementCount(shape, DTypeBytes(dtype)).value() * DTypeBytes(dtype);
      ASSERT_OK_AND_ASSIGN(const NpyArray array,
                           ParseNpy(header + std::string(elements, 'x')));
      EXPECT_EQ(array.dtype, dtype);
      EXPECT_EQ(array.shape, shape);
      EXPECT_EQ(array.data_at, header.size());
    }
  }
}

TEST(NpyTest, ReadsFortranOrder) {
  const std::string file = Npy(
      "{'descr': '|u1', 'fortran_order': True, 'shape': (2, 3), }\n", "adbecf");
  ASSERT_OK_AND_ASSIGN(const NpyArray array, ParseNpy(file));
  std::string rows(6, '\0');
  ToRowMajor(array, file.data() + array.data_at, rows.data());
  EXPECT_EQ(rows, "abcdef");
}

TEST(NpyTest, RefusesBadHeaders) {
  const std::string good =
      "{'descr': '<f4', 'fortran_order': False, "
      "'shape': (2,), }";
  const struct {
    std::string file;
    absl::StatusCode code;
    std::string text;
  } cases[] = {
      {"", kInvalid, "at byte 0"},
      {"\x93NUMPY", kInvalid, "at byte 0"},
      {"not an array at all", kInvalid, "at byte 0"},
      {std::string("\x93NUMPY\x04\x00\x01\x00", 10), kInvalid, "version"},
      {std::string("\x93NUMPY\x02\x00\xff\xff\xff\x7f", 12), kInvalid,
       "2147483647 bytes; the limit"},
      {std::string("\x93NUMPY\x01\x00\xff\x00{", 11), kInvalid, "end of file"},
      {Npy(good, "1234567"), kDataLoss, "has 7 bytes of elements"},
      {Npy(good, "123456789"), kDataLoss, "takes 8"},
      {Npy("{'descr': '>f4', 'fortran_order': False, 'shape': (2,)}", ""),
       kInvalid, "big-endian"},
      {Npy("{'descr': '|O', 'fortran_order': False, 'shape': (2,)}", ""),
       kInvalid, "no counterpart"},
      {Npy("{'descr': [('x', '<u2')], 'fortran_order': False, 'shape': ()}",
           ""),
       kInvalid, "no counterpart"},
      {Npy("{'descr': '<f4', 'fortran_order': False, 'shape': (-1,)}", ""),
       kInvalid, "-1"},
      {Npy("{'descr': '<f4', 'fortran_order': False, 'shape': "
           "(99999999999999999999,)}",
           ""),
       kInvalid, "2^63"},
      {Npy("{'descr': '<f8', 'fortran_order': False, 'shape': "
           "(4294967296, 4294967296)}",
           ""),
       kInvalid, "shape"},
      {Npy("{'descr': '<f4', 'shape': (2,)}", ""), kInvalid, "missing"},
      {Npy("{'descr': '<f4', 'descr': '<f4'}", ""), kInvalid, "unexpected"},
      {Npy("{'descr': '<f4", ""), kInvalid, "open string"},
      {Npy(good + "x", "12345678"), kInvalid, "after the dictionary"}};
  for (const auto& [file, code, text] : cases) {
    ExpectError(ParseNpy(file), code, text);
  }
  std::string deep = "{'descr': '<f4', 'fortran_order': False, 'shape': (";
  for (int i = 0; i < 65; ++i) deep += "1, ";
  ExpectError(ParseNpy(Npy(deep + ")}", "1234")), kInvalid, "64 dimensions");
}

}  // namespace
}  // namespace ckptdb::tool
