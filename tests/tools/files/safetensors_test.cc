// SPDX-License-Identifier: Apache-2.0
// safetensors files and their indexes.
#include "tools/files/safetensors.h"

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/tools/files/file_bytes.h"

namespace ckptdb::tool {
namespace {

using ::testing::IsEmpty;

std::string Safe(const std::string& json, const std::string& data) {
  return LittleEndian(uint64_t{json.size()}) + json + data;
}

TEST(SafetensorsTest, HeadersComeBack) {
  const std::vector<ArraySpec> arrays = {{"w", DType::kF32, {2, 3}, 24},
                                         {"e", DType::kBf16, {0, 3}, 0},
                                         {"\n\xc3\xa4", DType::kF8E5M2, {}, 1}};
  const std::string header = SafetensorsHeader(arrays, {{"format", "pt"}});
  EXPECT_EQ(header.size() % 8, 0u);
  const std::string file = header + std::string(25, 'x');
  ASSERT_OK_AND_ASSIGN(const Safetensors parsed, ParseSafetensors(file));
  EXPECT_EQ(parsed.metadata.at("format"), "pt");
  ASSERT_EQ(parsed.arrays.size(), 3u);
  EXPECT_EQ(parsed.arrays[2].spec.name, "\n\xc3\xa4");
  EXPECT_EQ(parsed.arrays[0].spec.shape, (Shape{2, 3}));
  EXPECT_EQ(parsed.arrays[0].data - file.data(),
            static_cast<ptrdiff_t>(header.size()));
}

TEST(SafetensorsTest, RefusesBadHeaders) {
  const auto one = [](const std::string& fields) {
    return Safe("{\"w\":{" + fields + "}}", "12345678");
  };
  const std::string dtype = R"("dtype":"F32",)";
  const struct {
    std::string file;
    absl::StatusCode code;
    std::string text;
  } cases[] = {
      {"", kDataLoss, "has 0 bytes"},
      {LittleEndian(~uint64_t{0}) + "{}", kInvalid, "18446744073709551615"},
      {LittleEndian(uint64_t{100}) + "{}", kDataLoss, "longer than the file"},
      {Safe("[]", ""), kInvalid, "JSON object"},
      {Safe("{", ""), kInvalid, "JSON object"},
      {Safe("{}", "x"), kInvalid, "the data has 1 bytes"},
      {one(dtype + R"("shape":[2],"data_offsets":[0,8])") + "x", kInvalid,
       "has 9 bytes, of which the header names 8"},
      {one(dtype + R"("shape":[2],"data_offsets":[0,9])"), kInvalid,
       "data_offsets [0, 9]"},
      {one(dtype + R"("shape":[2],"data_offsets":[8,0])"), kInvalid,
       "data_offsets [8, 0]"},
      {one(dtype + R"("shape":[4],"data_offsets":[0,16])"), kDataLoss,
       "truncated"},
      {one(dtype + R"("shape":[-2],"data_offsets":[0,8])"), kInvalid,
       "a number of shape"},
      {one(dtype + R"("shape":[1e3],"data_offsets":[0,8])"), kInvalid,
       "a number of shape"},
      {one(dtype + R"("shape":[4611686018427387904,4],"data_offsets":[0,8])"),
       kInvalid, "\"w\""},
      {one(dtype + R"("shape":[2],"data_offsets":[0,18446744073709551615])"),
       kInvalid, "data_offsets"},
      {one(R"("dtype":"F4","shape":[2],"data_offsets":[0,8])"), kInvalid,
       "dtype \"F4\""},
      {one(R"("shape":[2],"data_offsets":[0,8])"), kInvalid, "no dtype"},
      {Safe(R"({"a":{"dtype":"U8","shape":[2],"data_offsets":[0,2]},)"
            R"("b":{"dtype":"U8","shape":[2],"data_offsets":[1,3]}})",
            "123"),
       kInvalid, "begins at byte 1"},
      {Safe(R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},)"
            R"("a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}})",
            "1"),
       kInvalid, "occurs twice"},
      {Safe(R"({"__metadata__":{"a":1}})", ""), kInvalid, "not a string"}};
  for (const auto& [file, code, text] : cases) {
    ExpectError(ParseSafetensors(file), code, text);
  }
}

TEST(SafetensorsTest, IndexNamesFilesOfItsFolder) {
  ASSERT_OK_AND_ASSIGN(
      const SafetensorsIndex index,
      ParseSafetensorsIndex(SafetensorsIndexJson({{"w", "a.safetensors"}}, 9)));
  EXPECT_EQ(index.files.at("w"), "a.safetensors");
  EXPECT_THAT(index.metadata, IsEmpty());
  for (const char* file : {"../a", "/etc/passwd", "..", "", "a/b"}) {
    ExpectError(ParseSafetensorsIndex(
                    absl::StrCat(R"({"weight_map":{"w":")", file, R"("}})")),
                kInvalid, "not a name of a file");
  }
  ExpectError(ParseSafetensorsIndex("{}"), kInvalid, "weight_map");
  ExpectError(ParseSafetensorsIndex("[1"), kInvalid, "JSON object");
}

// The parser's time per name must not grow with the number of names.
TEST(SafetensorsTest, ReadsManyArrays) {
  constexpr size_t kMany = 200'000;
  std::vector<ArraySpec> arrays(kMany);
  std::map<std::string, std::string> files;
  for (size_t i = 0; i < kMany; ++i) {
    arrays[i] = {absl::StrCat("t", i), DType::kU8, {1}, 1};
    if (i % 4 == 0) files[arrays[i].name] = "model.safetensors";
  }
  ASSERT_OK_AND_ASSIGN(const Safetensors parsed,
                       ParseSafetensors(SafetensorsHeader(arrays, {}) +
                                        std::string(kMany, 'x')));
  EXPECT_EQ(parsed.arrays.size(), kMany);
  ASSERT_OK_AND_ASSIGN(
      const SafetensorsIndex index,
      ParseSafetensorsIndex(SafetensorsIndexJson(files, kMany)));
  EXPECT_EQ(index.files, files);
}

TEST(SafetensorsTest, BoundsTheLevelsOfJson) {
  for (const std::string open : {"[", "{\"a\":"}) {
    std::string text = "{\"weight_map\":{},\"metadata\":";
    for (int i = 0; i < 100'000; ++i) text += open;
    ExpectError(ParseSafetensorsIndex(text), kInvalid,
                "nested more than 64 levels");
  }
}

}  // namespace
}  // namespace ckptdb::tool
