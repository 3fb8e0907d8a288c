// SPDX-License-Identifier: Apache-2.0
// Row-wise int8, compared with the arithmetic for one number, on ordinary,
// extreme and damaged rows.
#include "schema/bytes/codec.h"
#include "schema/bytes/limits.h"
#include "schema/bytes/lossy.h"
#include "schema/bytes/quantize.h"
#include "schema/bytes/quantize_loops.h"
#include "tests/schema/bytes/lossy_calls.h"
#include "tests/support/seed.h"

namespace ckptdb::testing {
namespace {

using internal::FloatBits;
using internal::FloatOf;
using internal::Int8Bounds;
using internal::Int8Scale;
using internal::OrderedKey;

Int8Bounds BoundsOf(const Floats& row) {
  int32_t least = std::numeric_limits<int32_t>::max();
  int32_t greatest = std::numeric_limits<int32_t>::min();
  for (const float number : row) {
    least = std::min(least, OrderedKey(FloatBits(number)));
    greatest = std::max(greatest, OrderedKey(FloatBits(number)));
  }
  return Int8Bounds::Of(least, greatest);
}

// Fails unless the row is stored as Int8Scale specifies, checking each number.
void ExpectRow(const Floats& row, const std::string& stored, size_t rows,
               size_t r, size_t codes_at) {
  const Int8Bounds expected = BoundsOf(row);
  Int8Bounds bounds{};
  std::memcpy(&bounds, stored.data() + 4 + r * sizeof(bounds), sizeof(bounds));
  ASSERT_EQ(bounds.least, expected.least);
  ASSERT_EQ(bounds.greatest, expected.greatest);
  const Int8Scale scale(bounds);
  for (size_t i = 0; i < row.size(); ++i) {
    const auto code =
        static_cast<uint8_t>(stored[4 + rows * sizeof(bounds) + codes_at + i]);
    ASSERT_EQ(code, scale.Encode(row[i]));
    const float back = scale.Decode(code);
    ASSERT_LE(std::abs(static_cast<double>(row[i]) - back), scale.ErrorBound())
        << row[i];
    const bool is_end =
        row[i] == FloatOf(bounds.least) || row[i] == FloatOf(bounds.greatest);
    ASSERT_TRUE(!is_end || back == row[i]) << row[i] << " is " << back;
  }
}

TEST(Int8, RandomRowsOfAnyWidth) {
  std::mt19937_64 random(TestSeed());
  for (const uint32_t width : {4u, 5u, 7u, 8u, 15u, 16u, 31u, 32u, 33u, 64u,
                               100u, 128u, 129u, 1000u}) {
    SCOPED_TRACE(width);
    for (int round = 0; round < 10; ++round) {
      const size_t rows = 1 + random() % 20;
      std::vector<Floats> all;
      Floats numbers;
      for (size_t r = 0; r < rows; ++r) {
        // The last row may be shorter.
        all.push_back(RandomRow(
            r + 1 == rows && rows > 1 ? 1 + random() % width : width, &random));
        numbers.insert(numbers.end(), all[r].begin(), all[r].end());
      }
      const std::string raw = BytesOf(numbers);
      const Encoded encoded = EncodeLossy(Codec::kInt8, raw, width);
      if (!encoded.taken) {
        EXPECT_GE(4 + rows * 8 + numbers.size(), raw.size());
        continue;
      }
      ASSERT_EQ(encoded.stored.size(), 4 + rows * 8 + numbers.size());
      for (size_t r = 0; r < rows; ++r) {
        ASSERT_NO_FATAL_FAILURE(
            ExpectRow(all[r], encoded.stored, rows, r, r * width));
      }
      const std::string back =
          DecodeLossy(Codec::kInt8, encoded.stored, raw.size());
      ExpectErrors(numbers, FloatsOf(back), encoded.error);
    }
  }
}

// The error bound of docs/manager.md, where the error can exceed half a step
// because a step is about the distance between two floats.
TEST(Int8, ErrorBoundOfNarrowRowsIncludesRounding) {
  std::mt19937_64 random(TestSeed());
  double largest_of_half_steps = 0;
  for (int round = 0; round < 2000; ++round) {
    // Includes subnormals, and the largest magnitude of each power of two.
    const uint32_t range = 1 + static_cast<uint32_t>(random() % 2000);
    const uint32_t least = static_cast<uint32_t>(random() % 0x7f000000);
    const bool negative = random() % 2 == 0;
    Floats row = {FloatOf(least), FloatOf(least + range)};
    while (row.size() < 64) {
      row.push_back(FloatOf(least + static_cast<uint32_t>(random() % range)));
    }
    if (negative)
      for (float& number : row) number = -number;
    const Encoded encoded = EncodeLossy(Codec::kInt8, BytesOf(row), 64);
    ASSERT_TRUE(encoded.taken);
    const Floats back = FloatsOf(
        DecodeLossy(Codec::kInt8, encoded.stored, row.size() * sizeof(float)));
    const double low = FloatOf(least);
    const double high = FloatOf(least + range);
    const double distance = high - FloatOf(least + range - 1);
    for (size_t i = 0; i < row.size(); ++i) {
      const double error = std::abs(static_cast<double>(row[i]) - back[i]);
      ASSERT_LE(error, (high - low) / 509 + distance / 2) << row[i];
      largest_of_half_steps =
          std::max(largest_of_half_steps, error / ((high - low) / 510));
    }
  }
  EXPECT_GT(largest_of_half_steps, 1.5);
}

// Decoded values are stable: they are stored as the same bytes if a step
// exceeds the distance between two floats, and otherwise verbatim if necessary.
TEST(Int8, ReencodingIsStable) {
  std::mt19937_64 random(TestSeed());
  constexpr uint32_t kWidth = 64;
  size_t verbatim = 0;
  size_t near = 0;
  for (int round = 0; round < 3000; ++round) {
    const Floats row = RandomRow(kWidth, &random);
    const Encoded once = EncodeLossy(Codec::kInt8, BytesOf(row), kWidth);
    ASSERT_TRUE(once.taken);
    const std::string back =
        DecodeLossy(Codec::kInt8, once.stored, kWidth * sizeof(float));
    Int8Bounds bounds{};
    std::memcpy(&bounds, once.stored.data() + 4, sizeof(bounds));
    const double low = FloatOf(bounds.least);
    const double high = FloatOf(bounds.greatest);
    const double distance =
        std::max(std::abs(low), std::abs(high)) * 0x1p-23 + kLeast;
    const Encoded again =
        EncodeLossy(Codec::kInt8, back, kWidth, Rounding::kNone);
    if ((high - low) / 255 > distance * 1.001) {
      ASSERT_TRUE(again.taken);
      ASSERT_TRUE(again.stored == once.stored) << low << " to " << high;
      EXPECT_EQ(again.error.max, 0);
    } else {
      ++near;
      verbatim += again.taken ? 0 : 1;
    }
    if (again.taken) {
      ASSERT_TRUE(DecodeLossy(Codec::kInt8, again.stored, back.size()) == back);
    }
  }
  EXPECT_GT(near, 0u);
  EXPECT_LT(verbatim, near);
}

TEST(Int8, ConstantAndSubnormalAndExtremeRows) {
  const std::vector<Floats> rows = {
      {0, 0, 0, 0, 0, 0, 0, 0},
      {-0.0f, 0, -0.0f, 0, 0, 0, 0, 0},
      {3.25f, 3.25f, 3.25f, 3.25f, 3.25f, 3.25f, 3.25f, 3.25f},
      {-kGreatest, kGreatest, 0, 1, -1, kLeast, 1e30f, -1e30f},
      {kLeast, 2 * kLeast, 3 * kLeast, 0, -kLeast, 7 * kLeast, 0, 0},
      {kGreatest, kGreatest, kGreatest, 0, 0, 0, 0, 0},
      {1, std::nextafter(1.0f, 2.0f), 1, 1, 1, 1, 1, 1},
      {-1e30f, 1e-30f, 0, 0, 0, 0, 0, 0}};
  for (const Floats& row : rows) {
    SCOPED_TRACE(::testing::PrintToString(row));
    const Encoded encoded = EncodeLossy(Codec::kInt8, BytesOf(row), 8);
    ASSERT_TRUE(encoded.taken);
    ASSERT_NO_FATAL_FAILURE(ExpectRow(row, encoded.stored, 1, 0, 0));
    const Floats back = FloatsOf(DecodeLossy(Codec::kInt8, encoded.stored, 32));
    ExpectErrors(row, back, encoded.error);
  }
  // In so small a range, all multiples of the least number are exact.
  const Encoded tiny = EncodeLossy(Codec::kInt8, BytesOf(rows[4]), 8);
  EXPECT_EQ(tiny.error.max, 0);
}

TEST(Int8, RowsWithInfinitiesAndNansAreVerbatim) {
  std::mt19937_64 random(TestSeed());
  for (const float special :
       {kInfinity, -kInfinity, kQuietNan, FloatOf(0xff800001),
        FloatOf(0x7fffffff), FloatOf(0xffc00000)}) {
    Floats numbers;
    for (int r = 0; r < 10; ++r) {
      const Floats row = RandomRow(16, &random);
      numbers.insert(numbers.end(), row.begin(), row.end());
    }
    numbers[3 * 16 + random() % 16] = special;
    const std::string raw = BytesOf(numbers);
    const Encoded encoded = EncodeLossy(Codec::kInt8, raw, 16);
    ASSERT_TRUE(encoded.taken);
    ASSERT_EQ(encoded.stored.size(), 4u + 10 * (8 + 16) + 16 * 4);
    const std::string back =
        DecodeLossy(Codec::kInt8, encoded.stored, raw.size());
    EXPECT_TRUE(back.substr(3 * 64, 64) == raw.substr(3 * 64, 64));
    ExpectErrors(numbers, FloatsOf(back), encoded.error);
  }
  // The codec is not used if all rows are verbatim.
  EXPECT_FALSE(
      EncodeLossy(Codec::kInt8, BytesOf(Floats(160, kQuietNan)), 16).taken);
}

// Encodes rows one number at a time, as lossy.h and quantize.h specify.
Encoded ModelOf(const Floats& numbers, uint32_t width, Rounding rounding) {
  const uint32_t used = std::min<uint32_t>(width, numbers.size());
  std::string bounds(reinterpret_cast<const char*>(&used), sizeof(used));
  std::string codes;
  std::string verbatim;
  Item::Error error;
  for (size_t at = 0; at < numbers.size(); at += used) {
    const Floats row(numbers.begin() + at,
                     numbers.begin() + std::min(at + used, numbers.size()));
    Int8Bounds row_bounds = BoundsOf(row);
    const Int8Scale scale(row_bounds.is_verbatim() ? Int8Bounds{0, 0}
                                                   : row_bounds);
    std::string row_codes(row.size(), '\0');
    float row_error = 0;
    bool exact = true;
    for (size_t i = 0; i < row.size() && !row_bounds.is_verbatim(); ++i) {
      row_codes[i] = static_cast<char>(scale.Encode(row[i]));
      const float back = scale.Decode(static_cast<uint8_t>(row_codes[i]));
      row_error = std::max(row_error, std::abs(row[i] - back));
      exact = exact && FloatBits(row[i]) == FloatBits(back);
    }
    if (row_bounds.is_verbatim() || (rounding == Rounding::kNone && !exact)) {
      row_bounds = {Int8Bounds::kVerbatim, Int8Bounds::kVerbatim};
      row_codes.assign(row.size(), '\0');
      verbatim += BytesOf(row);
    } else {
      error = Larger(error, {row_error, scale.ErrorBound()});
    }
    bounds.append(reinterpret_cast<const char*>(&row_bounds),
                  sizeof(row_bounds));
    codes += row_codes;
  }
  const std::string stored = bounds + codes + verbatim;
  if (stored.size() >= BytesOf(numbers).size()) return {};
  return {true, stored, error};
}

// Ordinary rows of a table; some of them already decoded values, with a NaN or
// an infinity, or with any bits.
Floats RowsOfATable(size_t numbers, uint32_t width, std::mt19937_64* random) {
  const uint64_t rare = 1 + (*random)() % 40;
  Floats all;
  while (all.size() < numbers) {
    Floats row = RandomRow(width, random);
    if ((*random)() % 2 == 0) {
      const Int8Scale scale(BoundsOf(row));
      for (float& number : row) number = scale.Decode(scale.Encode(number));
    }
    if ((*random)() % rare == 0) {
      row[(*random)() % width] = (*random)() % 2 == 0 ? kQuietNan : -kInfinity;
    }
    all.insert(all.end(), row.begin(), row.end());
  }
  all.resize(numbers);
  return all;
}

// Rows are encoded in groups: here a group that is not full, with verbatim rows
// between others, and a shorter last row.
TEST(Int8, GroupsAreEncodedLikeSingleRows) {
  std::mt19937_64 random(TestSeed());
  size_t taken = 0;
  for (const uint32_t width :
       {1u,  2u,  3u,  4u,  5u,  7u,   8u,   9u,    12u,   15u,   16u,
        17u, 31u, 32u, 64u, 65u, 127u, 128u, 2047u, 2048u, 2049u, 5000u}) {
    const uint64_t most = std::min<uint64_t>(
        width * 3 * internal::kInt8GroupRows, kChunkBytes / sizeof(float));
    for (int round = 0; round < 20; ++round) {
      const size_t count = 1 + random() % most;
      SCOPED_TRACE(absl::StrCat(count, " numbers in rows of ", width));
      const Floats numbers = RowsOfATable(count, width, &random);
      const std::string raw = BytesOf(numbers);
      for (const Rounding rounding : {Rounding::kNearest, Rounding::kNone}) {
        const Encoded expected = ModelOf(numbers, width, rounding);
        const Encoded encoded = EncodeLossy(Codec::kInt8, raw, width, rounding);
        ASSERT_EQ(encoded.taken, expected.taken);
        ASSERT_TRUE(encoded.stored == expected.stored);
        ASSERT_EQ(encoded.error, expected.error);
        if (!encoded.taken) continue;
        ++taken;
        ExpectErrors(
            numbers,
            FloatsOf(DecodeLossy(Codec::kInt8, encoded.stored, raw.size())),
            encoded.error);
      }
    }
  }
  EXPECT_GT(taken, 100u);
}

// With FMA, the last bit of these rows' bound would differ.
TEST(Int8, ErrorBoundDoesNotDependOnFma) {
  Floats numbers;
  for (int row = 0; row < 40; ++row) {
    for (const float number :
         {-1.0f, 0.0f, 0.5f, 0.0f, 0.0f, 0.0f, 0.0f, 1.0f}) {
      numbers.push_back(number * 0x1.fdfa2ep+0f);
    }
  }
  const Encoded encoded = EncodeLossy(Codec::kInt8, BytesOf(numbers), 8);
  ASSERT_TRUE(encoded.taken);
  EXPECT_EQ(encoded.error.bound, 0x1.0000130b53382p-7);
}

TEST(Int8, RejectsDamage) {
  Floats numbers(32, 1);
  numbers[5] = 2;
  numbers[20] = kQuietNan;
  const std::string good =
      EncodeLossy(Codec::kInt8, BytesOf(numbers), 16).stored;
  ASSERT_EQ(good.size(), 4u + 16 + 32 + 64);
  const auto expect = [&](size_t at, uint32_t word, const std::string& words) {
    std::string bad = good;
    std::memcpy(bad.data() + at, &word, sizeof(word));
    std::string raw(128, '\0');
    EXPECT_THAT(Dequantize(Codec::kInt8, bad, 128, raw.data()),
                DataLoss(words));
  };
  expect(0, 0, "rows of int8 have 0 numbers; expected 1 to 32");
  expect(0, 33, "rows of int8 have 33 numbers; expected 1 to 32");
  expect(0, 1, "116 bytes of int8 do not decode to 128 bytes of f32");
  expect(0, 17, "116 bytes of int8 do not decode to 128 bytes of f32");
  expect(4, FloatBits(kInfinity), "row 0 of int8 has the invalid bounds");
  expect(4, FloatBits(3), "row 0 of int8 has the invalid bounds");
  expect(4, FloatBits(-0.0f), "row 0 of int8 has the invalid bounds");
  expect(8, FloatBits(kQuietNan) + 1, "row 0 of int8 has the invalid bounds");
  expect(12, FloatBits(1), "row 1 of int8 has the invalid bounds");
  expect(20 + 16, 1, "row 1 of int8 is verbatim but has nonzero codes");
  std::string raw(4096, '\0');
  for (size_t bytes = 0; bytes < good.size(); ++bytes) {
    EXPECT_THAT(
        Dequantize(Codec::kInt8, absl::string_view(good).substr(0, bytes), 128,
                   raw.data()),
        DataLoss(""));
  }
  for (const size_t raw_bytes : {0, 116, 124, 127, 132, 4096}) {
    EXPECT_THAT(Dequantize(Codec::kInt8, good, raw_bytes, raw.data()),
                DataLoss(""));
    EXPECT_THAT(Dequantize(Codec::kBf16, good, raw_bytes, raw.data()),
                DataLoss(""));
  }
}

TEST(Int8, EmptyInputIsNotEncoded) {
  EXPECT_FALSE(EncodeLossy(Codec::kInt8, "", 16).taken);
  EXPECT_FALSE(EncodeLossy(Codec::kInt8, BytesOf(Floats(64, 1)), 0).taken);
}

}  // namespace
}  // namespace ckptdb::testing
