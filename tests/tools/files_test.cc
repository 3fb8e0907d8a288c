// SPDX-License-Identifier: Apache-2.0
// Files of other systems: what is written is read back, and hostile headers
// are refused with their offset.
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/as_nobody.h"
#include "tests/support/status_matchers.h"
#include "tests/support/temp_dir.h"
#include "tools/files/array_writer.h"
#include "tools/files/file_name.h"
#include "tools/files/import_state.h"
#include "tools/files/loaded_files.h"
#include "tools/files/mapped_file.h"
#include "tools/files/npy.h"
#include "tools/files/output_folder.h"
#include "tools/files/safetensors.h"
#include "tools/files/torch_pickle.h"
#include "tools/files/zip.h"

namespace ckptdb::tool {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing::TempDir;

constexpr auto kInvalid = absl::StatusCode::kInvalidArgument;
constexpr auto kDataLoss = absl::StatusCode::kDataLoss;

template <typename Result>
void ExpectError(const Result& result, absl::StatusCode code,
                 const std::string& text) {
  EXPECT_EQ(result.status().code(), code) << result.status();
  EXPECT_THAT(std::string(result.status().message()), HasSubstr(text));
}

template <typename T>
std::string LittleEndian(T value) {
  return {reinterpret_cast<const char*>(&value), sizeof(value)};
}

// --- Names.

TEST(FileNameTest, EscapesWhatLeavesAFolder) {
  EXPECT_EQ(EscapeFileName("mlp.0/weight"), "mlp.0%2Fweight");
  EXPECT_EQ(EscapeFileName("../../etc/passwd"), "%2E.%2F..%2Fetc%2Fpasswd");
  EXPECT_EQ(EscapeFileName("100%\n\\\x7f"), "100%25%0A%5C%7F");
  EXPECT_EQ(EscapeMemberName("params/dense/kernel"), "params/dense/kernel");
  EXPECT_EQ(EscapeMemberName("/etc/../x/./y"), "%2Fetc/%2E./x/%2E/y");
  EXPECT_EQ(EscapeMemberName("a//b/"), "a%2F%2Fb%2F");
}

TEST(FileNameTest, NamesComeBack) {
  for (const char* name :
       {"w", "..", ".", "/", "//", "a/b", "a//b", "../x", "50%", "%41", "a%2Fb",
        "\xc3\xa4/\xe2\x82\xac", "\x01\x1f", "a/.b/..", "...", "a\\b"}) {
    EXPECT_EQ(UnescapeName(EscapeFileName(name)), name);
    EXPECT_EQ(UnescapeName(EscapeMemberName(name)), name);
  }
}

TEST(FileNameTest, NamesOfOthersStay) {
  for (const char* name : {"50%", "%41", "a%2fb", "%zz", "x.%2E"}) {
    EXPECT_EQ(UnescapeName(name), name);
  }
}

// --- .npy

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
  } kCases[] = {
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
  for (const auto& [file, code, text] : kCases) {
    ExpectError(ParseNpy(file), code, text);
  }
  std::string deep = "{'descr': '<f4', 'fortran_order': False, 'shape': (";
  for (int i = 0; i < 65; ++i) deep += "1, ";
  ExpectError(ParseNpy(Npy(deep + ")}", "1234")), kInvalid, "64 dimensions");
}

// --- Archives.

// An archive of stored members with these contents.
std::string Zip(const std::vector<std::pair<std::string, std::string>>& parts) {
  std::string file;
  std::vector<ZipMember> members;
  for (const auto& [name, bytes] : parts) {
    ZipMember member;
    member.name = name;
    member.header_at = file.size();
    member.bytes = bytes.size();
    PieceCrc crc;
    crc.Add(0, bytes);
    member.crc = crc.Value();
    file += ZipHeader(member) + bytes;
    members.push_back(member);
  }
  return file + ZipEnd(members, file.size());
}

absl::StatusOr<std::string> ReadMember(const std::string& file,
                                       const ZipMember& member) {
  std::string bytes;
  const absl::Status read =
      ReadZipMember(file, member, [&](absl::string_view piece) {
        bytes.append(piece.data(), piece.size());
        return absl::OkStatus();
      });
  if (!read.ok()) return read;
  return bytes;
}

TEST(ZipTest, MembersComeBack) {
  const std::string file = Zip({{"a.npy", "first"}, {"b", ""}, {"c/d", "3"}});
  ASSERT_OK_AND_ASSIGN(const std::vector<ZipMember> members, ParseZip(file));
  ASSERT_EQ(members.size(), 3u);
  EXPECT_EQ(members[2].name, "c/d");
  EXPECT_EQ(ReadMember(file, members[0]).value(), "first");
  EXPECT_EQ(ReadMember(file, members[1]).value(), "");
  for (const ZipMember& member : members) EXPECT_EQ(member.data_at % 64, 0u);
}

TEST(ZipTest, PieceCrcsOfAnyOrderAreEqual) {
  const std::string bytes(100'000, 'x');
  PieceCrc whole;
  whole.Add(0, bytes);
  PieceCrc pieces;
  pieces.Add(70'000, absl::string_view(bytes).substr(70'000));
  pieces.Add(0, absl::string_view(bytes).substr(0, 1));
  pieces.Add(1, absl::string_view(bytes).substr(1, 69'999));
  EXPECT_EQ(whole.Value(), pieces.Value());
}

// The records that begin with these bytes, in order.
size_t Find(const std::string& file, const char* record, size_t from = 0) {
  return file.find(record, from);
}
std::string With(std::string file, size_t at, const std::string& bytes) {
  return file.replace(at, bytes.size(), bytes);
}

TEST(ZipTest, RefusesBadArchives) {
  const std::string good = Zip({{"a", "first"}, {"b", "second"}});
  const size_t central = Find(good, "PK\x01\x02");
  const size_t second = Find(good, "PK\x01\x02", central + 1);
  const size_t end = Find(good, "PK\x05\x06");
  const std::string huge(4, '\xfe');
  ExpectError(ParseZip(""), kDataLoss, "has 0 bytes");
  ExpectError(ParseZip(std::string(1000, 'x')), kDataLoss, "central directory");
  ExpectError(ParseZip(good.substr(0, good.size() - 1)), kDataLoss,
              "truncated");
  // The directory's place and size, and the number of members.
  ExpectError(ParseZip(With(good, end + 16, huge)), kInvalid, "outside");
  ExpectError(ParseZip(With(good, end + 12, huge)), kInvalid, "outside");
  ExpectError(ParseZip(With(good, end + 10, "\xfe\xfe")), kInvalid,
              "number of members, 65278,");
  ExpectError(ParseZip(With(good, end + 10, "\xff\xff")), kInvalid, "Zip64");
  // A member's sizes, method, flags and place.
  ExpectError(ParseZip(With(good, central + 20, huge)), kInvalid,
              "that takes 4278124286");
  ExpectError(ParseZip(With(good, central + 20, huge + huge)), kDataLoss,
              "beyond the archive");
  ExpectError(ParseZip(With(good, central + 10, "\x0c")), kInvalid,
              "compression method 12");
  ExpectError(ParseZip(With(good, central + 8, "\x01")), kInvalid, "encrypted");
  ExpectError(ParseZip(With(good, central + 42, huge)), kInvalid, "outside");
  ExpectError(ParseZip(With(good, central + 42, "\x01")), kInvalid,
              "no header");
  ExpectError(ParseZip(With(good, central + 28, "\xff\xff")), kInvalid, "cut");
  ExpectError(ParseZip(With(good, second + 46, "a")), kInvalid, "differs");
  ExpectError(ParseZip(Zip({{"a", "1"}, {"a", "2"}})), kInvalid,
              "a second member \"a\"");
  // Both entries lead to the same data.
  ExpectError(
      ParseZip(With(With(good, second + 42, good.substr(central + 42, 4)),
                    second + 46, "a")),
      kInvalid, "second member");
}

TEST(ZipTest, DetectsDamage) {
  const std::string good = Zip({{"a", "first"}});
  ASSERT_OK_AND_ASSIGN(const std::vector<ZipMember> members, ParseZip(good));
  ExpectError(ReadMember(With(good, members[0].data_at, "F"), members[0]),
              kDataLoss, "with CRC");
  ZipMember deflated = members[0];
  deflated.deflated = true;
  ExpectError(ReadMember(good, deflated), kDataLoss, "decompressed");
}

// A member that begins beyond 4 GiB, in a file with a hole.
TEST(ZipTest, Zip64) {
  ZipMember large;
  large.name = "large";
  large.bytes = uint64_t{5} << 30;
  large.data_at = ZipHeader(large).size();
  ZipMember late;
  late.name = "late";
  late.header_at = large.data_at + large.bytes;
  late.bytes = 3;
  PieceCrc crc;
  crc.Add(0, "abc");
  late.crc = crc.Value();
  const std::string header = ZipHeader(late);
  late.data_at = late.header_at + header.size();
  const uint64_t end_at = late.data_at + late.bytes;
  const TempDir dir;
  const std::string path = dir.path() + "/large.zip";
  std::ofstream file(path, std::ios::binary);
  file << ZipHeader(large);
  file.seekp(static_cast<std::streamoff>(late.header_at));
  file << header << "abc" << ZipEnd({large, late}, end_at);
  file.close();
  ASSERT_TRUE(file.good());
  ASSERT_OK_AND_ASSIGN(const auto mapped, MappedFile::Open(path));
  ASSERT_OK_AND_ASSIGN(const std::vector<ZipMember> members,
                       ParseZip(mapped->bytes()));
  ASSERT_EQ(members.size(), 2u);
  EXPECT_EQ(members[0].bytes, large.bytes);
  EXPECT_EQ(members[1].data_at, late.data_at);
  EXPECT_EQ(mapped->bytes().substr(members[1].data_at, 3), "abc");
}

// --- safetensors

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
  const std::string kDType = R"("dtype":"F32",)";
  const struct {
    std::string file;
    absl::StatusCode code;
    std::string text;
  } kCases[] = {
      {"", kDataLoss, "has 0 bytes"},
      {LittleEndian(~uint64_t{0}) + "{}", kInvalid, "18446744073709551615"},
      {LittleEndian(uint64_t{100}) + "{}", kDataLoss, "longer than the file"},
      {Safe("[]", ""), kInvalid, "JSON object"},
      {Safe("{", ""), kInvalid, "JSON object"},
      {Safe("{}", "x"), kInvalid, "the data has 1 bytes"},
      {one(kDType + R"("shape":[2],"data_offsets":[0,8])") + "x", kInvalid,
       "has 9 bytes, of which the header names 8"},
      {one(kDType + R"("shape":[2],"data_offsets":[0,9])"), kInvalid,
       "data_offsets [0, 9]"},
      {one(kDType + R"("shape":[2],"data_offsets":[8,0])"), kInvalid,
       "data_offsets [8, 0]"},
      {one(kDType + R"("shape":[4],"data_offsets":[0,16])"), kDataLoss,
       "truncated"},
      {one(kDType + R"("shape":[-2],"data_offsets":[0,8])"), kInvalid,
       "a number of shape"},
      {one(kDType + R"("shape":[1e3],"data_offsets":[0,8])"), kInvalid,
       "a number of shape"},
      {one(kDType + R"("shape":[4611686018427387904,4],"data_offsets":[0,8])"),
       kInvalid, "\"w\""},
      {one(kDType + R"("shape":[2],"data_offsets":[0,18446744073709551615])"),
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
  for (const auto& [file, code, text] : kCases) {
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

// --- Pickles.

// Protocol 2, and a storage of two floats, which the rest puts on the stack.
std::string Pickle(const std::string& rest) { return "\x80\x02" + rest; }
std::string Text(const std::string& text) {
  return "X" + LittleEndian(static_cast<uint32_t>(text.size())) + text;
}
std::string Int(int32_t value) { return "J" + LittleEndian(value); }
std::string Storage(const std::string& type, uint8_t elements) {
  return "(" + Text("storage") + "ctorch\n" + type + "\n" + Text("0") +
         Text("cpu") + "K" + std::string(1, static_cast<char>(elements)) + "tQ";
}
// Offset, shape and strides are opcodes.
std::string Tensor(const std::string& layout) {
  return "ctorch._utils\n_rebuild_tensor_v2\n(" + Storage("FloatStorage", 6) +
         layout + "\x89N" + "tR";
}

TEST(TorchPickleTest, OwnPicklesComeBack) {
  std::vector<TorchTensor> tensors(kDTypes);
  for (uint8_t i = 0; i < kDTypes; ++i) {
    TorchTensor& tensor = tensors[i];
    tensor.name = absl::StrCat("w.", i);
    tensor.storage = absl::StrCat(i);
    tensor.dtype = static_cast<DType>(i);
    tensor.shape = {2, 3};
    tensor.strides = {3, 1};
    tensor.storage_bytes = 6 * DTypeBytes(tensor.dtype);
  }
  ASSERT_OK_AND_ASSIGN(const TorchPickle parsed,
                       ParseTorchPickle(MakeTorchPickle(tensors), "root"));
  ASSERT_EQ(parsed.tensors.size(), tensors.size());
  for (uint8_t i = 0; i < kDTypes; ++i) {
    EXPECT_EQ(parsed.tensors[i].name, tensors[i].name);
    EXPECT_EQ(parsed.tensors[i].dtype, tensors[i].dtype);
    EXPECT_EQ(parsed.tensors[i].shape, tensors[i].shape);
    EXPECT_EQ(parsed.tensors[i].storage, tensors[i].storage);
    EXPECT_TRUE(IsContiguous(parsed.tensors[i]));
  }
  EXPECT_THAT(parsed.values, IsEmpty());
}

TEST(TorchPickleTest, NamesNestedValues) {
  const std::string dict = "}(" + Text("a") + "](" + Int(1) + Int(2) + "e" +
                           Text("b") + "}" + Text("c") + "Ns" + Int(7) +
                           Tensor(Int(1) + Int(2) + "\x85" + Int(1) + "\x85") +
                           "u.";
  ASSERT_OK_AND_ASSIGN(const TorchPickle parsed,
                       ParseTorchPickle(Pickle(dict), "root"));
  ASSERT_EQ(parsed.tensors.size(), 1u);
  EXPECT_EQ(parsed.tensors[0].name, "7");
  EXPECT_EQ(parsed.tensors[0].offset, 1);
  EXPECT_THAT(parsed.values,
              ElementsAre(std::pair("a.0", "1"), std::pair("a.1", "2"),
                          std::pair("b.c", "null")));
}

TEST(TorchPickleTest, RefusesCodeAndBadPickles) {
  const struct {
    std::string pickle;
    std::string text;
  } kCases[] = {
      {"", "cut"},
      {"\x80\x02", "cut"},
      {Pickle("."), "STOP"},
      {Pickle("X\xff\xff\xff\xff"
              "a."),
       "cut"},
      {Pickle("\x8d"
              "\xff\xff\xff\xff\xff\xff\xff\xff"
              "a."),
       "cut"},
      {Pickle("h\x05."), "cut"},
      {Pickle("t."), "cut"},
      {Pickle("cos\nsystem\n(" + Text("true") + "tR."), "os.system"},
      {Pickle("cargparse\nNamespace\n)\x81}b."), "argparse.Namespace"},
      {Pickle("}" + Text("f") + "cbuiltins\neval\ns."), "builtins.eval"},
      {Pickle("S'text'\n."), "opcode 0x53"},
      {Pickle(Storage("ComplexFloatStorage", 2) + "."), "ComplexFloatStorage"},
      {Pickle("}" + Int(1) + "Ns" + Text("x") + "a."), "items of something"},
      {Pickle("}NNs."), "neither text nor an integer"},
      {Pickle(Tensor(Int(0) + Int(7) + "\x85" + Int(1) + "\x85") + "."),
       "a storage of 6"},
      {Pickle(Tensor(Int(6) + Int(1) + "\x85" + Int(1) + "\x85") + "."),
       "a storage of 6"},
      {Pickle(Tensor(Int(-1) + Int(1) + "\x85" + Int(1) + "\x85") + "."),
       "at -1"},
      {Pickle(Tensor(Int(0) + Int(2) + "\x85" + Int(-1) + "\x85") + "."),
       "strides [-1]"},
      {Pickle(Tensor(Int(0) + Int(2) + "\x85" + Int(1) + Int(1) + "\x86") +
              "."),
       "strides [1, 1]"},
      // More elements than an int64 counts bytes, all at one place.
      {Pickle(Tensor(Int(0) + "\x8a\x08" + LittleEndian(int64_t{1} << 62) +
                     "\x85" + Int(0) + "\x85") +
              "."),
       "a storage of 6"}};
  for (const auto& [pickle, text] : kCases) {
    ExpectError(ParseTorchPickle(pickle, "root"), kInvalid, text);
  }
}

// Lists that contain themselves, or each other many times.
TEST(TorchPickleTest, BoundsWhatAPickleExpandsTo) {
  ExpectError(ParseTorchPickle(Pickle("]q\x01h\x01"
                                      "a."),
                               "root"),
              kInvalid, "nested more than 64 levels");
  std::string lists = "]q";
  lists += std::string("\x00", 1);
  for (char i = 1; i < 60; ++i) {
    lists += std::string("](h") + std::string(1, i - 1) + "h" +
             std::string(1, i - 1) + "eq" + std::string(1, i);
  }
  ExpectError(ParseTorchPickle(Pickle("(" + lists + "t."), "root"), kInvalid,
              "repeats too often");
}

// --- Folders of output.

std::vector<std::string> Entries(const std::string& folder) {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    names.push_back(entry.path().filename().string());
  }
  std::sort(names.begin(), names.end());
  return names;
}

TEST(OutputFolderTest, FilesAppearTogether) {
  const TempDir dir;
  ASSERT_OK_AND_ASSIGN(auto folder,
                       OutputFolder::Open(dir.path() + "/out", false));
  ASSERT_OK_AND_ASSIGN(OutputFile * a, folder->Create("a", 2));
  ASSERT_OK_AND_ASSIGN(OutputFile * b, folder->Create("b", 1));
  ASSERT_OK(a->Write(1, "y"));
  ASSERT_OK(a->Write(0, "x"));
  EXPECT_EQ(folder->Commit().code(), absl::StatusCode::kInternal);
  ASSERT_OK(b->Write(0, "z"));
  ASSERT_OK(folder->Commit());
  EXPECT_THAT(Entries(dir.path() + "/out"), ElementsAre("a", "b"));
}

TEST(OutputFolderTest, LeavesNothingUnlessCommitted) {
  const TempDir dir;
  for (const bool exists : {false, true}) {
    if (exists) std::filesystem::create_directory(dir.path() + "/out");
    ASSERT_OK_AND_ASSIGN(auto folder,
                         OutputFolder::Open(dir.path() + "/out", false));
    ASSERT_OK_AND_ASSIGN(OutputFile * a, folder->Create("a", 2));
    ASSERT_OK(a->Write(0, "x"));
    EXPECT_THAT(Entries(dir.path() + "/out"), ElementsAre(".a.ckptdb-part"));
    folder.reset();
    EXPECT_EQ(std::filesystem::exists(dir.path() + "/out"), exists);
  }
  EXPECT_THAT(Entries(dir.path() + "/out"), IsEmpty());
}

TEST(OutputFolderTest, ReplacesFilesOnlyIfForced) {
  const TempDir dir;
  std::ofstream(dir.path() + "/a") << "old";
  ASSERT_OK_AND_ASSIGN(auto folder, OutputFolder::Open(dir.path(), false));
  EXPECT_EQ(folder->Create("a", 1).status().code(),
            absl::StatusCode::kAlreadyExists);
  // The name is taken meanwhile.
  ASSERT_OK_AND_ASSIGN(OutputFile * b, folder->Create("b", 1));
  ASSERT_OK(b->Write(0, "x"));
  std::ofstream(dir.path() + "/b") << "old";
  EXPECT_EQ(folder->Commit().code(), absl::StatusCode::kAlreadyExists);
  folder.reset();
  EXPECT_THAT(Entries(dir.path()), ElementsAre("a", "b"));
  ASSERT_OK_AND_ASSIGN(auto forced, OutputFolder::Open(dir.path(), true));
  ASSERT_OK_AND_ASSIGN(OutputFile * a, forced->Create("a", 1));
  ASSERT_OK(a->Write(0, "n"));
  ASSERT_OK(forced->Commit());
  EXPECT_EQ(std::filesystem::file_size(dir.path() + "/a"), 1u);
}

TEST(OutputFolderTest, DoesNotFollowALinkOrShareAFile) {
  const TempDir dir;
  std::filesystem::create_symlink("target", dir.path() + "/.a.ckptdb-part");
  ASSERT_OK_AND_ASSIGN(auto folder, OutputFolder::Open(dir.path(), false));
  ASSERT_OK_AND_ASSIGN(OutputFile * a, folder->Create("a", 1));
  EXPECT_FALSE(a->Write(0, "x").ok());
  ASSERT_OK_AND_ASSIGN(OutputFile * b, folder->Create("b", 2));
  ASSERT_OK(b->Write(0, "x"));
  ASSERT_OK_AND_ASSIGN(auto other, OutputFolder::Open(dir.path(), false));
  ASSERT_OK_AND_ASSIGN(OutputFile * same, other->Create("b", 2));
  EXPECT_EQ(same->Write(0, "x").code(), absl::StatusCode::kFailedPrecondition);
}

TEST(OutputFolderTest, NamesTheFileThatItMayNotWrite) {
  const TempDir dir;
  std::filesystem::permissions(dir.path(), std::filesystem::perms(0755));
  const testing::AsNobody nobody;
  if (nobody.failed()) GTEST_SKIP() << "cannot become another user";
  if (geteuid() == getuid()) {
    std::filesystem::permissions(dir.path(), std::filesystem::perms(0555));
  }
  ASSERT_OK_AND_ASSIGN(auto folder, OutputFolder::Open(dir.path(), false));
  ASSERT_OK_AND_ASSIGN(OutputFile * a, folder->Create("a", 1));
  ExpectError(absl::StatusOr<int>(a->Write(0, "x")),
              absl::StatusCode::kPermissionDenied, dir.path());
}

TEST(OutputFolderTest, RefusesNamesTooLongForAFile) {
  const TempDir dir;
  ASSERT_OK_AND_ASSIGN(auto folder, OutputFolder::Open(dir.path(), false));
  EXPECT_OK(folder->Create(std::string(242, 'x'), 1).status());
  ExpectError(folder->Create(std::string(243, 'x'), 1), kInvalid,
              "the limit is 242");
}

TEST(ArrayWriterTest, SafetensorsAreSharded) {
  const TempDir dir;
  ASSERT_OK_AND_ASSIGN(auto folder, OutputFolder::Open(dir.path(), false));
  const std::vector<ArraySpec> arrays = {{"a", DType::kU8, {4}, 4},
                                         {"b", DType::kI64, {1}, 8},
                                         {"c", DType::kU8, {9}, 9},
                                         {"d", DType::kU8, {1}, 1}};
  ASSERT_OK_AND_ASSIGN(auto writer,
                       NewSafetensorsWriter(folder.get(), arrays, {}, 12));
  for (size_t i = 0; i < arrays.size(); ++i) {
    ASSERT_OK(writer->Write(i, 0, std::string(arrays[i].bytes, 'x')));
  }
  ASSERT_OK(writer->Finish());
  ASSERT_OK(folder->Commit());
  EXPECT_THAT(Entries(dir.path()),
              ElementsAre("model-00001-of-00002.safetensors",
                          "model-00002-of-00002.safetensors",
                          "model.safetensors.index.json"));
  LoadedFiles files;
  ASSERT_OK(LoadFile(dir.path() + "/model.safetensors.index.json", &files));
  ASSERT_EQ(files.arrays.size(), 4u);
  // Its array is not in the index any more.
  std::filesystem::copy_file(dir.path() + "/model-00001-of-00002.safetensors",
                             dir.path() + "/model-00002-of-00002.safetensors",
                             std::filesystem::copy_options::overwrite_existing);
  LoadedFiles swapped;
  EXPECT_EQ(
      LoadFile(dir.path() + "/model.safetensors.index.json", &swapped).code(),
      kInvalid);
}

TEST(MappedFileTest, RefusesWhatIsNoFile) {
  const TempDir dir;
  ASSERT_EQ(mkfifo((dir.path() + "/fifo").c_str(), 0600), 0);
  ExpectError(MappedFile::Open(dir.path() + "/fifo"), kInvalid, "regular");
  ExpectError(MappedFile::Open(dir.path()), kInvalid, "regular");
  EXPECT_EQ(MappedFile::Open(dir.path() + "/none").status().code(),
            absl::StatusCode::kNotFound);
}

TEST(MappedFileTest, TruncatedFileEndsTheProcessWithAnError) {
  const TempDir dir;
  const std::string path = dir.path() + "/file";
  std::ofstream(path) << std::string(100'000, 'x');
  ASSERT_OK_AND_ASSIGN(const auto file, MappedFile::Open(path));
  std::filesystem::resize_file(path, 0);
  const pid_t child = fork();
  if (child == 0) {
    const MappedFileErrors errors;
    const volatile char last = file->bytes().back();
    _exit(last == 'x' ? 1 : 2);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 5);
}

TEST(LoadedFilesTest, LosesNoMetadataOrBlob) {
  LoadedFiles files;
  files.AddMetadata("a", {{"k", "1"}});
  files.AddMetadata("b", {{"k", "1"}, {"l", "2"}});
  files.AddMetadata("c", {{"k", "3"}});
  files.AddMetadata("c", {{"k", "4"}});
  EXPECT_THAT(files.metadata,
              ElementsAre(std::pair("c/k", "3"), std::pair("c/k+", "4"),
                          std::pair("k", "1"), std::pair("l", "2")));
  EXPECT_OK(files.AddBlob("b", "1"));
  EXPECT_EQ(files.AddBlob("b", "2").code(), kInvalid);
}

// --- Tables.

FileArray Array(const std::string& name, DType dtype, Shape shape) {
  FileArray array;
  array.spec = MakeArraySpec(name, dtype, std::move(shape)).value();
  return array;
}

std::vector<std::string> TableNames(
    const absl::StatusOr<std::vector<ArrayTable>>& tables) {
  std::vector<std::string> names;
  for (const ArrayTable& table : tables.value()) {
    names.push_back(absl::StrCat(table.name, ":", table.slots.size()));
  }
  return names;
}

TEST(FindTablesTest, FindsThemByName) {
  const std::vector<FileArray> arrays = {
      Array("user.ids", DType::kI64, {5}),
      Array("user.embedding", DType::kF32, {5, 4}),
      Array("user.x.ids", DType::kI64, {3}),
      Array("user.x.freq", DType::kU32, {3}),
      Array("alone.ids", DType::kI64, {5}),
      Array("other.ids", DType::kI64, {5}),
      Array("other.weight", DType::kF32, {4, 5}),
      Array("narrow.ids", DType::kI32, {5}),
      Array("narrow.weight", DType::kF32, {5}),
      Array("w", DType::kF32, {5})};
  EXPECT_THAT(TableNames(FindTables(arrays, {})),
              ElementsAre("user:1", "user.x:1"));
  EXPECT_THAT(TableNames(FindTables(arrays, {"narrow"})),
              ElementsAre("narrow:1", "user:1", "user.x:1"));
  ExpectError(FindTables(arrays, {"other"}), kInvalid,
              "\"other.weight\" is [4, 5], but \"other.ids\" is [5]");
  ExpectError(FindTables(arrays, {"w"}), kInvalid, "there is no table \"w\"");
}

TEST(SlotOfTest, HasOneRowOfTheArray) {
  EXPECT_EQ(SlotOf("s", Array("a", DType::kF32, {5, 2, 3}).spec)->elements, 6u);
  EXPECT_EQ(SlotOf("s", Array("a", DType::kF32, {0}).spec)->elements, 1u);
  for (const Shape& shape :
       {Shape{}, Shape{5, 0}, Shape{1, 65537}, Shape{0, 1L << 40, 1L << 40}}) {
    EXPECT_FALSE(SlotOf("s", Array("a", DType::kU8, shape).spec).ok())
        << ToString(shape);
  }
  EXPECT_OK(SlotOf("s", Array("a", DType::kU8, {1, 65536}).spec).status());
}

}  // namespace
}  // namespace ckptdb::tool
