// SPDX-License-Identifier: Apache-2.0
// cat: the values of a tensor, the bytes of a blob.
#include <cmath>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "tests/tools/tool_fixture.h"
#include "tools/slice_argument.h"
#include "tools/tensor_scan.h"

namespace ckptdb::testing {
namespace {

class ToolCat : public ToolFixture {
 protected:
  template <typename T>
  void SaveTensor(DType dtype, const Shape& shape, const std::vector<T>& values,
                  const std::string& blob = "") {
    RankState state;
    state.AddTensor("t", {dtype, shape, values.data(), {}, {}});
    if (!blob.empty()) state.AddBlob("b", blob);
    Own();
    ASSERT_OK(store_->Save({.step = 900, .overwrite = true}, state).status());
    Disown();
  }
};

TEST_F(ToolCat, TensorAsText) {
  const ToolResult cat = Run("cat mlp.weight --step 100");
  EXPECT_EQ(cat.code, 0) << cat.err;
  const size_t first_line = cat.out.find('\n');
  EXPECT_THAT(cat.out.substr(0, first_line),
              ContainsRegex("^step 100 attempt [0-9]+, tensor mlp.weight, "
                            "f32\\[3, 4\\]$"));
  EXPECT_EQ(cat.out.substr(first_line + 1),
            "  elements  12\n"
            "  min       1.5\n"
            "  max       12.5\n"
            "  mean      7\n"
            "  std       3.45205253\n"
            "  nan       0\n"
            "  inf       0\n"
            "  zeros     0\n"
            "\n"
            "first elements\n"
            "  1.5 2.5 3.5 4.5\n"
            "  5.5 6.5 7.5 8.5\n"
            "  9.5 10.5 11.5 12.5\n"
            "\n"
            "histogram\n"
            "    FROM  ELEMENTS\n"
            "     1.5         1  ########################################\n"
            "  2.1875         1  ########################################\n"
            "   2.875         1  ########################################\n"
            "  3.5625         0\n"
            "    4.25         1  ########################################\n"
            "  4.9375         1  ########################################\n"
            "   5.625         0\n"
            "  6.3125         1  ########################################\n"
            "       7         1  ########################################\n"
            "  7.6875         0\n"
            "   8.375         1  ########################################\n"
            "  9.0625         1  ########################################\n"
            "    9.75         0\n"
            "  10.438         1  ########################################\n"
            "  11.125         1  ########################################\n"
            "  11.812         1  ########################################\n");
}

TEST_F(ToolCat, SliceOfATensorOfSeveralRanks) {
  const Json cat = RunJson("cat mlp.weight --step 300 --slice 2:4,1");
  EXPECT_THAT(cat, Includes(R"({
      "kind": "tensor", "dtype": "f32", "shape": [6, 4],
      "slice_offset": [2, 1], "slice_shape": [2, 1], "elements": 2,
      "min": 2.5, "max": 10.5, "mean": 6.5, "std": 4.0,
      "first_shape": [2, 1], "first_values": [10.5, 2.5]})"));
  EXPECT_THAT(RunJson("cat mlp.weight --step 300 --slice -1,-2:"),
              Includes(R"({"first_values": [11.5, 12.5]})"));
  EXPECT_THAT(RunJson("cat step --step 100"),
              Includes(R"({"shape": [], "min": 100, "max": 100, "std": 0.0,
                           "histogram": [], "first_values": [100]})"));
}

TEST_F(ToolCat, CountsNumbersThatAreNotFinite) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  SaveTensor<float>(DType::kF32, {6}, {nan, INFINITY, -INFINITY, 0, 4, nan});
  EXPECT_THAT(RunJson("cat t"), Includes(R"({
      "elements": 6, "nan_elements": 2, "inf_elements": 2, "zero_elements": 1,
      "min": 0.0, "max": 4.0, "mean": 2.0, "std": 2.0,
      "first_values": ["nan", "inf", "-inf", 0.0, 4.0, "nan"]})"));
  SaveTensor<float>(DType::kF32, {2}, {nan, INFINITY});
  EXPECT_THAT(RunJson("cat t"), Includes(R"({
      "min": null, "max": null, "mean": null, "std": null,
      "histogram": []})"));
  EXPECT_THAT(Run("cat t").out, Not(HasSubstr("mean")));
}

TEST_F(ToolCat, AnEmptyTensor) {
  SaveTensor<float>(DType::kF32, {0, 3}, {});
  EXPECT_THAT(RunJson("cat t"), Includes(R"({
      "elements": 0, "min": null, "first_values": []})"));
}

// Each dtype: the bytes of a value, and the value expected from them.
TEST_F(ToolCat, EveryDType) {
  const auto expect = [&](DType dtype, auto bits, const Json& value) {
    SaveTensor(dtype, {1}, std::vector<decltype(bits)>{bits});
    const Json cat = RunJson("cat t");
    EXPECT_EQ(cat["dtype"], std::string(DTypeName(dtype)));
    EXPECT_EQ(cat["min"], value) << DTypeName(dtype);
    EXPECT_EQ(cat["max"], value) << DTypeName(dtype);
  };
  expect(DType::kF64, 0.1, 0.1);
  expect(DType::kF32, 0.5F, 0.5);
  expect(DType::kF16, uint16_t{0x3c01}, 1.0009765625);
  expect(DType::kBf16, uint16_t{0x3f81}, 1.0078125);
  expect(DType::kF8E4M3, uint8_t{0x39}, 1.125);
  expect(DType::kF8E5M2, uint8_t{0x3d}, 1.25);
  expect(DType::kI64, INT64_MIN, INT64_MIN);
  expect(DType::kI32, INT32_MAX, INT32_MAX);
  expect(DType::kI16, INT16_MIN, INT16_MIN);
  expect(DType::kI8, INT8_MIN, INT8_MIN);
  expect(DType::kU64, UINT64_MAX, UINT64_MAX);
  expect(DType::kU32, UINT32_MAX, UINT32_MAX);
  expect(DType::kU16, UINT16_MAX, UINT16_MAX);
  expect(DType::kU8, UINT8_MAX, UINT8_MAX);
  expect(DType::kBool, uint8_t{1}, 1);
}

TEST_F(ToolCat, TensorsOfManyPieces) {
  EXPECT_THAT(RunJson("cat big --step 200 --first 2"), Includes(R"({
      "elements": 2359296, "first_shape": [2]})"));
}

TEST_F(ToolCat, BlobsAsTextOrHex) {
  ExpectPrints("cat reader --step 100",
               ContainsRegex("^step 100 attempt [0-9]+, blob reader, rank 0, "
                             "11 B\nposition 17\n$"));
  ExpectPrints(
      "cat reader --step 100 --hex",
      HasSubstr("\n00000000  70 6f 73 69 74 69 6f 6e 20 31 37                "
                " position 17\n"));
  ExpectPrints("cat reader --step 100 --bytes 3",
               HasSubstr("\npos\n... 8 more bytes\n"));
  EXPECT_THAT(RunJson("cat reader --step 100"), Includes(R"({
      "kind": "blob", "rank": 0, "raw_bytes": 11, "text": "position 17",
      "hex": null})"));
  SaveTensor<float>(DType::kF32, {1}, {1}, std::string("a\n\x1b[2J", 6));
  EXPECT_THAT(RunJson("cat b"), Includes(R"({"text": null,
      "hex": "610a1b5b324a"})"));
  ExpectPrints("cat b", HasSubstr("61 0a 1b 5b 32 4a"));
}

TEST_F(ToolCat, NamesWhatIsWrong) {
  ExpectFails("cat user --step 100", 1,
              "ckptdb: cat: \"user\" is a table; run \"ckptdb rows user\"\n");
  ExpectFails("cat mpl --step 100", 2,
              HasSubstr("step 100 has no tensor or blob \"mpl\""));
  ExpectFails("cat reader --step 100 --rank 1", 2,
              HasSubstr("step 100 has no blob \"reader\" on rank 1"));
  ExpectFails("cat mlp.weight --rank 0", 1,
              HasSubstr("\"mlp.weight\" is a tensor, and --rank is an option "
                        "for blobs"));
  ExpectFails("cat reader --step 100 --slice 0", 1,
              HasSubstr("\"reader\" is a blob, and --slice is an option for "
                        "tensors"));
  ExpectFails("cat mlp.weight --slice 0,0,0", 1,
              HasSubstr("the slice \"0,0,0\" has 3 dimensions"));
  ExpectFails("cat mlp.weight --slice 6", 1,
              HasSubstr("invalid slice \"6\" of dimension 0, which has 6 ele"));
}

TEST(ParseSliceTest, FollowsNumPy) {
  const auto parse = [](const std::string& text) {
    const auto box = tool::ParseSlice(text, {10, 4});
    if (!box.ok()) return std::string("error");
    return ToString(box->offset) + ToString(box->shape);
  };
  EXPECT_EQ(parse(""), "[0, 0][10, 4]");
  EXPECT_EQ(parse("3"), "[3, 0][1, 4]");
  EXPECT_EQ(parse("-1"), "[9, 0][1, 4]");
  EXPECT_EQ(parse("2:5, 1:"), "[2, 1][3, 3]");
  EXPECT_EQ(parse(":,:-1"), "[0, 0][10, 3]");
  EXPECT_EQ(parse("-3:,0"), "[7, 0][3, 1]");
  EXPECT_EQ(parse("5:5"), "[5, 0][0, 4]");
  for (const char* bad :
       {"10", "-11", "5:4", "0:11", "x", ",", "1:2:3", "0,0,0",
        "9223372036854775807", "-9223372036854775808:"}) {
    EXPECT_EQ(parse(bad), "error") << bad;
  }
}

TEST(DivideBoxTest, KeepsTheOrderOfElements) {
  const tool::TensorBox box = {{1, 0, 0}, {2, 3, 4}};
  const auto parts = tool::DivideBox(box, DType::kF32, 24);
  int64_t next = 0;
  for (const tool::TensorBox& part : parts) {
    EXPECT_LE(tool::BytesOf(part, DType::kF32), 24u);
    const int64_t first =
        ((part.offset[0] - 1) * 3 + part.offset[1]) * 4 + part.offset[2];
    EXPECT_EQ(first, next);
    next += static_cast<int64_t>(tool::BytesOf(part, DType::kF32)) / 4;
  }
  EXPECT_EQ(next, 24);
}

}  // namespace
}  // namespace ckptdb::testing
