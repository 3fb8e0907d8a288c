// SPDX-License-Identifier: Apache-2.0
// Tensors of one rank: every dtype, shape, size and codec, whole and in part.

#include "schema/bytes/shape.h"
#include "schema/types.h"
#include "tests/db/store_fixture.h"

namespace ckptdb::testing {
namespace {

using TensorTest = StoreFixture;

TensorContent RandomTensor(std::mt19937_64* random, DType dtype, Shape shape) {
  TensorContent tensor;
  tensor.dtype = dtype;
  size_t bytes = DTypeBytes(dtype);
  for (const int64_t dimension : shape) bytes *= static_cast<size_t>(dimension);
  tensor.shape = std::move(shape);
  tensor.bytes = RandomBytes(random, bytes);
  return tensor;
}

TEST_F(TensorTest, EveryDTypeInlineAndBulk) {
  std::mt19937_64 random(1);
  for (const bool bulk : {false, true}) {
    RankContent content;
    for (uint8_t d = 0; d < kDTypes; ++d) {
      content.tensors["t" + std::to_string(d)] =
          RandomTensor(&random, static_cast<DType>(d),
                       bulk ? Shape{701, 1003} : Shape{3, 5});
    }
    ASSERT_OK(Save(bulk, content));
    Reopen();
    ExpectStep(bulk, {content});
  }
}

TEST_F(TensorTest, ScalarAndEmptyTensors) {
  RankContent content;
  content.tensors["scalar"] = TensorContent::Of<double>({}, {2.5});
  content.tensors["one"] = TensorContent::Of<int8_t>({1, 1, 1}, {-7});
  content.tensors["empty"] = TensorContent::Of<float>({0}, {});
  content.tensors["empty3"] = TensorContent::Of<float>({4, 0, 1 << 30}, {});
  ASSERT_OK(Save(1, content));
  Reopen();
  ExpectStep(1, {content});
  ASSERT_OK_AND_ASSIGN(const auto step, store_->OpenStep(1));
  EXPECT_OK(step->ReadTensor("empty", nullptr, 0));
  EXPECT_EQ(step->FindTensor("empty3").value().shape, (Shape{4, 0, 1 << 30}));
  EXPECT_EQ(step->FindTensor("empty3").value().raw_bytes, 0u);
  RankState state;
  state.AddTensor("empty", {DType::kF32, {0, 3}, nullptr, {}, {}});
  ASSERT_OK(store_->Save({.step = 2}, state));
  EXPECT_OK(store_->OpenStep(2).value()->ReadTensor("empty", nullptr, 0));
}

TEST_F(TensorTest, AroundTheSizeOfAChunk) {
  std::mt19937_64 random(3);
  RankContent content;
  for (const int64_t bytes :
       {int64_t{kChunkBytes} - 1, int64_t{kChunkBytes},
        int64_t{kChunkBytes} + 1, int64_t{3} * int64_t{kChunkBytes} + 17}) {
    content.tensors["t" + std::to_string(bytes)] =
        RandomTensor(&random, DType::kU8, {bytes});
  }
  ASSERT_OK(Save(1, content));
  Reopen();
  ExpectStep(1, {content});
}

TEST_F(TensorTest, AroundTheSizeOfAnInlineSave) {
  std::mt19937_64 random(4);
  for (const int64_t bytes : {int64_t{kInlineBytes} - 1, int64_t{kInlineBytes},
                              int64_t{kInlineBytes} + 1}) {
    RankContent content;
    content.tensors["t"] = RandomTensor(&random, DType::kU8, {bytes});
    ASSERT_OK(Save(bytes, content));
    Reopen();
    ExpectStep(bytes, {content});
  }
}

TEST_F(TensorTest, EveryCodecOnBytesThatCompressAndThatDoNot) {
  RankContent content;
  for (const Codec codec :
       {Codec::kNone, Codec::kLz4, Codec::kShuffleLz4, Codec::kAuto}) {
    const std::string name(CodecName(codec));
    TensorContent random = BulkTensor(1, size_t{5} << 20);
    random.codec = codec;
    TensorContent zeroes = random;
    zeroes.bytes.assign(zeroes.bytes.size(), '\0');
    TensorContent counts = random;
    for (size_t i = 0; i < counts.bytes.size(); i += 4) {
      const auto value = static_cast<float>(i % 1000);
      std::memcpy(&counts.bytes[i], &value, 4);
    }
    content.tensors[name + ".random"] = random;
    content.tensors[name + ".zeroes"] = zeroes;
    content.tensors[name + ".counts"] = counts;
  }
  ASSERT_OK_AND_ASSIGN(const SaveResult result, Save(1, content));
  EXPECT_LT(result.exclusive_bytes, result.raw_bytes);
  Reopen();
  ExpectStep(1, {content});
}

TEST_F(TensorTest, CodecOfTheItemIsWhatWasAskedFor) {
  RankContent content;
  for (const Codec codec : {Codec::kLz4, Codec::kShuffleLz4}) {
    TensorContent zeroes =
        TensorContent::Of({10000}, std::vector<float>(10000, 1.5f));
    zeroes.codec = codec;
    content.tensors[std::string(CodecName(codec))] = zeroes;
  }
  ASSERT_OK(Save(1, content));
  ASSERT_OK_AND_ASSIGN(const auto step, store_->OpenStep(1));
  for (const Item& item : step->ranks().at(0).items) {
    EXPECT_EQ(CodecName(item.codec), item.name);
    EXPECT_LT(item.stored_bytes, item.raw_bytes / 10);
  }
}

// The bytes of a box, element by element.
std::string PlainBox(const TensorContent& tensor, const Box& box) {
  const size_t element = DTypeBytes(tensor.dtype);
  std::string out;
  Shape at(box.shape.size());
  for (;;) {
    size_t index = 0;
    for (size_t i = 0; i < at.size(); ++i) {
      index = index * static_cast<size_t>(tensor.shape[i]) +
              static_cast<size_t>(box.offset[i] + at[i]);
    }
    out += tensor.bytes.substr(index * element, element);
    size_t i = at.size();
    while (i > 0 && ++at[i - 1] == box.shape[i - 1]) at[--i] = 0;
    if (i == 0) return out;
  }
}

Box RandomBox(std::mt19937_64* random, const Shape& shape) {
  Box box;
  for (const int64_t dimension : shape) {
    const auto limit = static_cast<uint64_t>(dimension);
    const uint64_t begin = (*random)() % limit;
    box.offset.push_back(static_cast<int64_t>(begin));
    box.shape.push_back(
        static_cast<int64_t>(1 + (*random)() % (limit - begin)));
  }
  return box;
}

TEST_F(TensorTest, RandomBoxesOfTensorsOfSeveralChunks) {
  std::mt19937_64 random(TestSeed());
  RankContent content;
  const std::vector<std::pair<DType, Shape>> kinds = {
      {DType::kU8, {5'000'000}},
      {DType::kF32, {1500, 1001}},
      {DType::kF16, {17, 301, 499}},
      {DType::kF64, {3, 5, 7, 11, 13, 17}},
      {DType::kBool, {1, 4'200'000, 1}}};
  for (size_t i = 0; i < kinds.size(); ++i) {
    TensorContent tensor =
        RandomTensor(&random, kinds[i].first, kinds[i].second);
    if (i % 2 == 1) {
      tensor.codec = Codec::kLz4;
      std::fill_n(tensor.bytes.begin(), tensor.bytes.size() / 2, '\1');
    }
    content.tensors["t" + std::to_string(i)] = tensor;
  }
  ASSERT_OK(Save(1, content));
  ASSERT_OK_AND_ASSIGN(const auto step, store_->OpenStep(1));
  for (const auto& [name, tensor] : content.tensors) {
    for (int i = 0; i < 6; ++i) {
      const Box box = RandomBox(&random, tensor.shape);
      const std::string expected = PlainBox(tensor, box);
      std::string out(expected.size(), '\xcc');
      ReadOptions options;
      options.threads = 1 + i;
      ASSERT_OK(step->ReadTensorPart(name, box.offset, box.shape, out.data(),
                                     out.size(), options));
      EXPECT_TRUE(out == expected)
          << name << " " << ToString(box.offset) << " " << ToString(box.shape);
    }
  }
}

TEST_F(TensorTest, RejectsOtherBuffersBoxesAndNames) {
  SaveSmall({1});
  ASSERT_OK_AND_ASSIGN(const auto step, store_->OpenStep(1));
  std::string out(100, '\0');
  for (const uint64_t bytes : {0, 23, 25}) {
    EXPECT_THAT(step->ReadTensor("w", out.data(), bytes),
                InvalidArgument("\"w\"", "24", std::to_string(bytes)));
  }
  EXPECT_THAT(step->ReadTensor("w", nullptr, 24),
              InvalidArgument("\"w\"", "null"));
  const Box boxes[] = {
      {{0, 0}, {3, 1}},  {{1, 3}, {1, 1}},
      {{-1, 0}, {1, 1}}, {{0, 0}, {-1, 1}},
      {{0}, {1}},        {{1, std::numeric_limits<int64_t>::max()}, {1, 1}}};
  for (const Box& box : boxes) {
    EXPECT_THAT(step->ReadTensorPart("w", box.offset, box.shape, out.data(),
                                     out.size()),
                InvalidArgument(ToString(box.offset)));
  }
  EXPECT_THAT(step->ReadTensorPart("w", {0, 0}, {1, 2}, out.data(), 7),
              InvalidArgument("7", "8"));
  EXPECT_OK(step->ReadTensorPart("w", {1, 1}, {0, 2}, nullptr, 0));
  EXPECT_OK(step->ReadTensorPart("w", {2, 3}, {0, 0}, nullptr, 0));
  for (const char* name : {"v", "user", "reader", ""}) {
    EXPECT_THAT(step->FindTensor(name), NotFound(name));
    EXPECT_THAT(step->ReadTensor(name, out.data(), 4), NotFound(name));
  }
}

TEST_F(TensorTest, ReadsFromSeveralThreadsAtOnce) {
  const RankContent content = BulkContent(1);
  ASSERT_OK(Save(1, content));
  ASSERT_OK_AND_ASSIGN(const auto step, store_->OpenStep(1));
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i)
    threads.emplace_back([&] { ExpectHolds(*step, {content}); });
  for (std::thread& thread : threads) thread.join();
}

}  // namespace
}  // namespace ckptdb::testing
