// SPDX-License-Identifier: Apache-2.0
// Pickles of torch.save, which are interpreted and never executed.
#include "tools/files/torch_pickle.h"

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/tools/files/file_bytes.h"

namespace ckptdb::tool {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

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
  } cases[] = {
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
      {Pickle(Storage("ComplexFloatStorage", 2) + "."),
       "torch.ComplexFloatStorage at byte 59; complex numbers are not "},
      {Pickle(Storage("QInt8Storage", 2) + "."), "dtype is not supported"},
      {Pickle("cbuiltins\ncomplex\n(tR."), "complex numbers are not"},
      {Pickle("c__builtin__\ncomplex\n(tR."), "complex numbers are not"},
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
  for (const auto& [pickle, text] : cases) {
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

// Each pickle makes a value from a few bytes, or doubles one with few bytes.
TEST(TorchPickleTest, BoundsTheMemoryOfValues) {
  constexpr uint32_t kMany = 9 << 20;
  std::string doubled = Text(std::string(1024, 'a'));
  for (int i = 0; i < 40; ++i) doubled += "2\x93";
  std::string entries;
  for (uint32_t i = 0; i < kMany; ++i) entries += "r" + LittleEndian(i);
  std::string copies = Text(std::string(1 << 20, 'k')) + "q";
  copies += std::string("\x01", 1) + "0";
  for (int i = 0; i < 2048; ++i) {
    copies += "(" + Text("storage") + "ctorch\nFloatStorage\nh\x01" +
              Text("cpu") + "K\x01tQ";
  }
  const std::string cases[] = {
      "](" + std::string(kMany, ']') + "e.",    // objects
      std::string(kMany, '(') + ".",            // marks
      "N" + std::string(4 * kMany, '2') + ".",  // the stack
      "N" + entries + ".",                      // the memo
      doubled + ".",                            // names of classes
      copies + "."};                            // keys of storages
  for (const std::string& each : cases) {
    ExpectError(ParseTorchPickle(Pickle(each), "root"), kInvalid,
                "more than 512 MiB of memory, the limit");
  }
}

// A list in a dictionary with a long name, many times.
TEST(TorchPickleTest, BoundsTheMemoryOfNames) {
  std::string pickle = "](" + std::string(1 << 20, 'N') + "eq\x01";
  pickle += "0}(";
  for (int i = 0; i < 8; ++i) {
    pickle += Text(std::string(500, static_cast<char>('a' + i))) + "h\x01";
  }
  ExpectError(ParseTorchPickle(Pickle(pickle + "u."), "root"), kInvalid,
              "more than 512 MiB of memory, the limit");
}

TEST(TorchPickleTest, ReadsAStateDictionaryOfManyTensors) {
  std::vector<TorchTensor> tensors(100'000);
  for (size_t i = 0; i < tensors.size(); ++i) {
    tensors[i].name = absl::StrCat("model.layers.", i, ".attention.weight");
    tensors[i].storage = absl::StrCat(i);
    tensors[i].shape = {2, 3, 1, 1};
    tensors[i].strides = {3, 1, 1, 1};
    tensors[i].storage_bytes = 24;
  }
  ASSERT_OK_AND_ASSIGN(const TorchPickle parsed,
                       ParseTorchPickle(MakeTorchPickle(tensors), "root"));
  EXPECT_EQ(parsed.tensors.size(), tensors.size());
}

}  // namespace
}  // namespace ckptdb::tool
