// SPDX-License-Identifier: Apache-2.0
// Encoding rows as they are gathered, on a real or an emulated GPU, compared
// with a simple model of the codecs and with the host's pages, for random and
// extreme numbers.
#include "cuda/rows/row_codes.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "cuda/kernels/row_kernels.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "schema/bytes/lossy.h"
#include "tests/cuda/gpu_machine.h"
#include "tests/support/code_numbers.h"
#include "tests/support/seed.h"

namespace ckptdb::internal {
namespace {

using testing::GpuArray;
using testing::GpuIsEmulated;
using testing::RowKind;
using testing::TestSeed;

using Numbers = std::vector<float>;

class RowCodes : public testing::GpuMachineTest {
 protected:
  std::mt19937_64 random_{TestSeed()};
};

// Values of a slot, with gaps between rows and before the first one.
class CodeSlot {
 public:
  CodeSlot(std::vector<Numbers> rows, uint64_t shift, uint64_t gap)
      : rows_(std::move(rows)),
        row_bytes_(static_cast<uint32_t>(rows_[0].size() * sizeof(float))),
        stride_(row_bytes_ + gap),
        shift_(shift),
        memory_(shift + rows_.size() * stride_) {
    std::vector<char> bytes(shift + rows_.size() * stride_);
    for (size_t row = 0; row < rows_.size(); ++row) {
      std::memcpy(bytes.data() + shift + row * stride_, rows_[row].data(),
                  row_bytes_);
    }
    memory_.Write(bytes);
  }
  NumberRows all() const {
    return {{memory_.data() + shift_, stride_, row_bytes_},
            nullptr,
            0,
            rows_.size()};
  }
  const std::vector<Numbers>& rows() const { return rows_; }

 private:
  const std::vector<Numbers> rows_;
  const uint32_t row_bytes_;
  const uint64_t stride_;
  const uint64_t shift_;
  GpuArray<char> memory_;
};

// Receives the kernels' output.
struct CodeBatch {
  std::vector<Lane> codes;
  std::vector<Int8Bounds> bounds;
  uint64_t digest = 0;
  CodesFound found;
};

constexpr uint64_t kGuardBits = 0x5555aaaa5555aaaa;

CodeBatch Launch(Codec codec, const NumberRows& from) {
  const uint32_t lanes =
      LanesOf(static_cast<uint32_t>(CodeBytes(codec, from.Numbers())));
  const GpuArray<Lane> codes(
      std::vector<Lane>(from.count * lanes + 1, {kGuardBits, kGuardBits}));
  const GpuArray<uint64_t> bounds(
      std::vector<uint64_t>(from.count + 1, kGuardBits));
  const GpuArray<uint64_t> digest(1);
  const GpuArray<CodesFound> found(1);
  EXPECT_CUDA(
      codec == Codec::kBf16
          ? LaunchEncode(
                EncodeBf16Rows{from, codes.data(), digest.data(), found.data()},
                nullptr)
          : LaunchEncode(EncodeInt8Rows{from, codes.data(), bounds.data(),
                                        digest.data(), found.data()},
                         nullptr));
  CodeBatch batch = {codes.Read(), {}, digest.Read()[0], found.Read()[0]};
  const std::vector<uint64_t> ends = bounds.Read();
  EXPECT_EQ(batch.codes.back().low, kGuardBits);
  EXPECT_EQ(ends.back(), kGuardBits);
  batch.codes.pop_back();
  batch.bounds.resize(from.count);
  std::memcpy(batch.bounds.data(), ends.data(), from.count * 8);
  return batch;
}

// A simple model of the codecs, written from docs/format.md.
struct RowModel {
  std::string codes;
  float least = 0;
  float greatest = 0;
  double error = 0;
};

// Returns the nearest bf16 of a number, with ties to even.
uint16_t NearestHalf(float number) {
  uint32_t bits = 0;
  std::memcpy(&bits, &number, sizeof(bits));
  const auto lower = static_cast<uint16_t>(bits >> 16);
  if (std::isnan(number)) return lower | 0x40;
  if (std::isinf(number)) return lower;
  const auto value = [](uint32_t half) {
    const uint32_t wide = half << 16;
    float half_value = 0;
    std::memcpy(&half_value, &wide, sizeof(half_value));
    return static_cast<double>(half_value);
  };
  const double below = std::abs(number - value(lower));
  const double above = std::abs(value(lower + 1U) - number);
  if (below == above) return lower % 2 == 0 ? lower : lower + 1;
  return below < above ? lower : lower + 1;
}

RowModel Bf16Model(const Numbers& row) {
  RowModel model;
  for (const float number : row) {
    const uint16_t half = NearestHalf(number);
    model.codes.append(reinterpret_cast<const char*>(&half), sizeof(half));
    if (!std::isfinite(number)) continue;
    model.error = std::max<double>(
        model.error, std::abs(number - FloatOf(uint32_t{half} << 16)));
  }
  return model;
}

RowModel Int8Model(const Numbers& row) {
  RowModel model;
  model.least = *std::min_element(row.begin(), row.end()) + 0.0F;
  model.greatest = *std::max_element(row.begin(), row.end()) + 0.0F;
  const double range =
      static_cast<double>(model.greatest) - static_cast<double>(model.least);
  int exponent = 0;
  const double fraction = std::frexp(range / 255, &exponent);
  const double scale =
      std::ldexp(std::floor(std::ldexp(fraction, 44)), exponent - 44);
  for (const float number : row) {
    const double place =
        range == 0 ? 0
                   : (number - (static_cast<double>(model.least) - scale / 2)) *
                         (255 / range);
    const auto code = static_cast<uint8_t>(std::floor(place));
    model.codes.push_back(static_cast<char>(code));
    const float back = code == 255
                           ? model.greatest
                           : static_cast<float>(model.least + code * scale);
    model.error = std::max<double>(model.error, std::abs(number - back));
  }
  return model;
}

// Fails unless the batch equals the model's result for the rows.
void ExpectModel(Codec codec, const std::vector<Numbers>& rows,
                 const CodeBatch& batch) {
  const uint64_t elements = rows[0].size();
  const uint64_t code_bytes = CodeBytes(codec, elements);
  const uint64_t lanes = LanesOf(static_cast<uint32_t>(code_bytes));
  uint64_t digest = 0;
  double error = 0;
  for (size_t i = 0; i < rows.size(); ++i) {
    const RowModel model =
        codec == Codec::kBf16 ? Bf16Model(rows[i]) : Int8Model(rows[i]);
    std::string padded = model.codes;
    padded.resize(lanes * kLaneBytes, '\0');
    const char* const got =
        reinterpret_cast<const char*>(batch.codes.data() + i * lanes);
    ASSERT_EQ(std::string(got, padded.size()), padded) << "row " << i;
    for (uint64_t l = 0; l < lanes; ++l) {
      digest += MixLane(i * lanes + l, batch.codes[i * lanes + l]);
    }
    error = std::max(error, model.error);
    if (codec == Codec::kBf16) continue;
    ASSERT_EQ(batch.bounds[i].least, FloatBits(model.least));
    ASSERT_EQ(batch.bounds[i].greatest, FloatBits(model.greatest));
    digest += MixLane(
        rows.size() * lanes + i,
        {uint64_t{batch.bounds[i].greatest} << 32 | batch.bounds[i].least, 0});
  }
  EXPECT_EQ(batch.digest, digest);
  EXPECT_EQ(batch.found.refused, 0U);
  EXPECT_EQ(FloatOf(batch.found.error), static_cast<float>(error));
}

// Fails unless the page of the rows equals the host's.
void ExpectPage(Codec codec, const std::vector<Numbers>& rows,
                const CodeBatch& batch) {
  const auto elements = static_cast<uint32_t>(rows[0].size());
  std::string raw;
  for (const Numbers& row : rows) {
    raw.append(reinterpret_cast<const char*>(row.data()),
               row.size() * sizeof(float));
  }
  std::string stored;
  Item::Error error;
  ASSERT_TRUE(
      Quantize(codec, raw, elements, Rounding::kNearest, &stored, &error));
  const EncodedPage page(codec, rows.size(), elements);
  std::string made(page.bytes(), '?');
  page.WriteHead(made.data());
  if (codec == Codec::kInt8) {
    std::memcpy(made.data() + page.bounds_at(), batch.bounds.data(),
                rows.size() * sizeof(Int8Bounds));
  }
  const uint64_t padded = PaddedBytes(static_cast<uint32_t>(page.code_bytes()));
  for (size_t i = 0; i < rows.size(); ++i) {
    std::memcpy(made.data() + page.codes_at() + i * page.code_bytes(),
                reinterpret_cast<const char*>(batch.codes.data()) + i * padded,
                page.code_bytes());
  }
  EXPECT_TRUE(made == stored);
  EncodedRows found;
  found.error = FloatOf(batch.found.error);
  found.magnitude = FloatOf(batch.found.magnitude);
  EXPECT_EQ(page.ErrorOf(made.data(), found), error);
}

std::vector<Numbers> RandomRows(uint64_t count, uint32_t elements,
                                std::mt19937_64* random) {
  std::vector<Numbers> rows;
  for (uint64_t i = 0; i < count; ++i) {
    rows.push_back(
        testing::RowOfKind(static_cast<RowKind>(i % 8), elements, random));
  }
  return rows;
}

// int8 rows have 1, 2, 4, 8, 16 or 32 threads.
TEST_F(RowCodes, MatchTheModelAndTheHost) {
  const uint64_t count = GpuIsEmulated() ? 24 : 500;
  for (const uint32_t elements :
       {1, 2, 3, 4, 5, 6, 7, 8, 15, 16, 17, 31, 33, 64, 67, 128, 500, 1030}) {
    // Addresses and strides with alignments of 16 to 1.
    for (const uint64_t shift : {0, 8, 4, 2, 1}) {
      SCOPED_TRACE(absl::StrCat(elements, " ", shift));
      const CodeSlot slot(RandomRows(count, elements, &random_), shift,
                          (16 - elements * 4 % 16) % 16 + shift);
      const CodeBatch halves = Launch(Codec::kBf16, slot.all());
      ExpectModel(Codec::kBf16, slot.rows(), halves);
      ExpectPage(Codec::kBf16, slot.rows(), halves);
      const CodeBatch bytes = Launch(Codec::kInt8, slot.all());
      ExpectModel(Codec::kInt8, slot.rows(), bytes);
      if (EncodesByRow(Codec::kInt8, DType::kF32, elements)) {
        ExpectPage(Codec::kInt8, slot.rows(), bytes);
      }
    }
  }
}

// More rows than a grid has threads for.
TEST_F(RowCodes, OfManyRowsMatchTheModel) {
  const CodeSlot slot(RandomRows(5'003, 1030, &random_), 0, 0);
  for (const Codec codec : {Codec::kBf16, Codec::kInt8}) {
    ExpectModel(codec, slot.rows(), Launch(codec, slot.all()));
  }
}

TEST_F(RowCodes, OfAListMatchItsRows) {
  const CodeSlot slot(RandomRows(40, 21, &random_), 4, 8);
  const std::vector<uint32_t> list = {0, 3, 4, 17, 39};
  // The list begins at its second row.
  std::vector<Numbers> rows;
  for (size_t i = 1; i < list.size(); ++i) rows.push_back(slot.rows()[list[i]]);
  const GpuArray<uint32_t> listed(list);
  const NumberRows from = {slot.all().slot, listed.data(), 1, rows.size()};
  for (const Codec codec : {Codec::kBf16, Codec::kInt8}) {
    ExpectModel(codec, rows, Launch(codec, from));
  }
}

TEST_F(RowCodes, ThreadsPerRowArePowersOfTwo) {
  for (const auto& [elements, parts] :
       std::vector<std::pair<uint32_t, uint32_t>>{{1, 1},
                                                  {16, 1},
                                                  {17, 2},
                                                  {64, 4},
                                                  {496, 16},
                                                  {497, 32},
                                                  {65'536, 32}}) {
    EncodeInt8Rows rows;
    rows.from.slot.row_bytes = elements * 4;
    EXPECT_EQ(rows.Parts(), parts) << elements;
  }
}

// One of many numbers cannot be encoded.
TEST_F(RowCodes, RejectNumbersWithoutACode) {
  constexpr float kInfinite = std::numeric_limits<float>::infinity();
  constexpr float kMost = std::numeric_limits<float>::max();
  struct Case {
    float number;
    bool bf16;
    bool int8;
  };
  const Case cases[] = {{testing::NanWithPayload(), false, true},
                        {kInfinite, false, true},
                        {-kInfinite, false, true},
                        {kMost, true, false},
                        {-kMost, true, false},
                        {FloatOf(0x7f7f8000), true, false},
                        {FloatOf(0x7f7f7fff), false, false},
                        {-0.0F, false, false}};
  for (const Case& each : cases) {
    for (const auto& [row, at] : {std::pair(0, 36), std::pair(4, 0),
                                  std::pair(37, 13), std::pair(99, 36)}) {
      SCOPED_TRACE(absl::StrCat(each.number, " ", row));
      std::vector<Numbers> rows;
      for (int i = 0; i < 100; ++i) {
        rows.push_back(testing::RowOfKind(RowKind::kNormal, 37, &random_));
      }
      rows[row][at] = each.number;
      const CodeSlot slot(rows, 0, 0);
      const auto refused = [&](Codec codec) {
        const uint32_t found = Launch(codec, slot.all()).found.refused;
        EXPECT_TRUE(found == 0 || found == CodesFound::kRefused);
        return found != 0;
      };
      EXPECT_EQ(refused(Codec::kBf16), each.bf16);
      EXPECT_EQ(refused(Codec::kInt8), each.int8);
    }
  }
}

// NaN keeps its sign and the upper bits of its payload, without an error.
TEST_F(RowCodes, Bf16KeepsNanAndInfinities) {
  const Numbers row = {testing::NanWithPayload(), FloatOf(0x7f800001),
                       -std::numeric_limits<float>::infinity(), -0.0F, 1};
  const CodeSlot slot({row}, 0, 0);
  const CodeBatch batch = Launch(Codec::kBf16, slot.all());
  ExpectModel(Codec::kBf16, {row}, batch);
  ExpectPage(Codec::kBf16, {row}, batch);
  EXPECT_EQ(batch.codes[0].low, 0x8000ff807fc0ffcaU);
}

}  // namespace
}  // namespace ckptdb::internal
