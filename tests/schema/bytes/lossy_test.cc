// Lossy codecs: each number against the mathematics of one number, on all loops
// that this processor has, with ordinary, extreme and damaged input.
#include "ckptdb/schema/bytes/lossy.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <cfenv>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "ckptdb/schema/bytes/codec.h"
#include "ckptdb/schema/bytes/limits.h"
#include "ckptdb/schema/bytes/page.h"
#include "ckptdb/schema/bytes/quantize.h"
#include "ckptdb/schema/bytes/quantize_loops.h"
#include "ckptdb/schema/bytes/small_float.h"
#include "ckptdb/tests/support/seed.h"
#include "ckptdb/tests/support/status_matchers.h"

#if defined(__x86_64__)
#include <xmmintrin.h>
#endif

namespace ckptdb {
namespace {

using internal::DecodeBf16;
using internal::EncodeBf16;
using internal::FloatBits;
using internal::FloatOf;
using internal::Int8Bounds;
using internal::Int8Scale;
using internal::OrderedKey;
using ::testing::HasSubstr;
using testing::StatusIs;
using testing::TestSeed;

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kQuietNan = std::numeric_limits<float>::quiet_NaN();
constexpr float kGreatest = std::numeric_limits<float>::max();
constexpr float kLeast = std::numeric_limits<float>::denorm_min();

using Floats = std::vector<float>;

std::string BytesOf(const Floats& numbers) {
  return {reinterpret_cast<const char*>(numbers.data()),
          numbers.size() * sizeof(float)};
}
Floats FloatsOf(const std::string& bytes) {
  Floats numbers(bytes.size() / sizeof(float));
  std::memcpy(numbers.data(), bytes.data(), bytes.size());
  return numbers;
}
// Any bits, so that all exponents are as likely.
float AnyFloat(std::mt19937_64* random) {
  return FloatOf(static_cast<uint32_t>((*random)()));
}
float AnyFinite(std::mt19937_64* random) {
  float number = kQuietNan;
  while (!std::isfinite(number)) number = AnyFloat(random);
  return number;
}

struct Encoded {
  bool taken = false;
  std::string stored;
  Item::Error error;
};

Encoded EncodeLossy(Codec codec, const std::string& raw, uint32_t row_elements,
                    Rounding rounding = Rounding::kNearest) {
  Encoded plain;
  internal::UsePlainLoops(true);
  plain.taken =
      Quantize(codec, raw, row_elements, rounding, &plain.stored, &plain.error);
  Encoded widest;
  internal::UsePlainLoops(false);
  widest.taken = Quantize(codec, raw, row_elements, rounding, &widest.stored,
                          &widest.error);
  EXPECT_EQ(plain.taken, widest.taken);
  if (!plain.taken || !widest.taken) return {};
  EXPECT_TRUE(plain.stored == widest.stored);
  EXPECT_EQ(plain.error, widest.error);
  return widest;
}

std::string DecodeLossy(Codec codec, const std::string& stored,
                        size_t raw_bytes) {
  std::string plain(raw_bytes, '?');
  internal::UsePlainLoops(true);
  EXPECT_OK(Dequantize(codec, stored, raw_bytes, plain.data()));
  std::string widest(raw_bytes, '!');
  internal::UsePlainLoops(false);
  EXPECT_OK(Dequantize(codec, stored, raw_bytes, widest.data()));
  EXPECT_TRUE(plain == widest);
  return widest;
}

// Fails unless `back` is near `numbers` and as near as `error` says.
void ExpectErrors(const Floats& numbers, const Floats& back,
                  const Item::Error& error) {
  double largest = 0;
  for (size_t i = 0; i < numbers.size(); ++i) {
    if (std::isnan(numbers[i])) {
      EXPECT_TRUE(std::isnan(back[i])) << i;
      EXPECT_EQ(std::signbit(numbers[i]), std::signbit(back[i]));
    } else if (std::isinf(numbers[i])) {
      EXPECT_EQ(numbers[i], back[i]) << i;
    } else {
      const double off = static_cast<double>(numbers[i]) - back[i];
      largest = std::max(largest, std::abs(off));
    }
  }
  EXPECT_LE(largest, error.bound);
  EXPECT_LE(error.max, error.bound);
  EXPECT_LE(std::abs(error.max - largest), largest * 0x1p-23);
}

TEST(Bf16, RoundsEveryUpperHalfAsTheReferenceDoes) {
  const std::vector<uint32_t> lower = {0,      1,      0x3fff, 0x4000, 0x7fff,
                                       0x8000, 0x8001, 0xbfff, 0xc000, 0xffff};
  Floats numbers;
  for (uint32_t upper = 0; upper < 0x10000; ++upper) {
    for (const uint32_t low : lower) {
      const uint32_t bits = upper << 16 | low;
      const float number = FloatOf(bits);
      const uint16_t half = EncodeBf16(bits);
      if (std::isnan(number)) {
        ASSERT_TRUE(std::isnan(FloatOf(DecodeBf16(half)))) << bits;
        ASSERT_EQ(half, upper | 0x40) << bits;
      } else {
        ASSERT_EQ(half, internal::EncodeFloat<internal::kBf16Layout>(number))
            << bits;
      }
      if (!internal::OverflowsBf16(bits)) numbers.push_back(FloatOf(bits));
      ASSERT_EQ(internal::OverflowsBf16(bits),
                std::isfinite(number) && std::isinf(FloatOf(DecodeBf16(half))));
    }
  }
  const std::string all = BytesOf(numbers);
  for (size_t at = 0; at < all.size(); at += kChunkBytes) {
    const std::string raw = all.substr(at, kChunkBytes);
    const Encoded encoded = EncodeLossy(Codec::kBf16, raw, 1);
    ASSERT_TRUE(encoded.taken);
    const Floats part = FloatsOf(raw);
    for (size_t i = 0; i < part.size(); ++i) {
      uint16_t half = 0;
      std::memcpy(&half, encoded.stored.data() + i * 2, 2);
      ASSERT_EQ(half, EncodeBf16(FloatBits(part[i])));
    }
    const std::string back =
        DecodeLossy(Codec::kBf16, encoded.stored, raw.size());
    ExpectErrors(part, FloatsOf(back), encoded.error);
    const Encoded again = EncodeLossy(Codec::kBf16, back, 1, Rounding::kNone);
    ASSERT_TRUE(again.taken);
    EXPECT_TRUE(again.stored == encoded.stored);
    EXPECT_EQ(again.error.max, 0);
  }
}

TEST(Bf16, MakesNoInfinityOfAFiniteNumber) {
  const float largest = FloatOf(0x7f7f7fff);  // rounds to the largest bf16
  EXPECT_TRUE(EncodeLossy(Codec::kBf16, BytesOf({1, largest, 1}), 1).taken);
  EXPECT_FALSE(
      EncodeLossy(Codec::kBf16, BytesOf({1, FloatOf(0x7f7f8000), 1}), 1).taken);
  EXPECT_FALSE(EncodeLossy(Codec::kBf16, BytesOf({-kGreatest, 1}), 1).taken);
  EXPECT_TRUE(
      EncodeLossy(Codec::kBf16, BytesOf({kInfinity, -kInfinity}), 1).taken);
}

TEST(Bf16, WithoutRoundingTakesExactNumbersAlone) {
  EXPECT_TRUE(
      EncodeLossy(Codec::kBf16, BytesOf({1, -2.5f}), 1, Rounding::kNone).taken);
  EXPECT_FALSE(
      EncodeLossy(Codec::kBf16, BytesOf({1, 1.001f}), 1, Rounding::kNone)
          .taken);
}

// Rows with an offset and a spread of any size, and of any bits.
Floats RandomRow(uint64_t elements, std::mt19937_64* random) {
  Floats row(elements);
  std::uniform_real_distribution<float> uniform(-1, 1);
  const float offset = (*random)() % 2 == 0 ? 0 : AnyFinite(random) / 4;
  const float spread = AnyFinite(random) / 4;
  const uint64_t kind = (*random)() % 4;
  for (float& number : row) {
    number = kind == 0 ? AnyFinite(random) : offset + spread * uniform(*random);
  }
  return row;
}

Int8Bounds BoundsOf(const Floats& row) {
  int32_t least = std::numeric_limits<int32_t>::max();
  int32_t greatest = std::numeric_limits<int32_t>::min();
  for (const float number : row) {
    least = std::min(least, OrderedKey(FloatBits(number)));
    greatest = std::max(greatest, OrderedKey(FloatBits(number)));
  }
  return Int8Bounds::Of(least, greatest);
}

// Fails unless the row is stored as Int8Scale says, one number at a time.
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

// What was decoded comes back as it was: in the same bytes where a step is more
// than the distance of two floats, and else verbatim where need be.
TEST(Int8, IsStableOnceItHasRounded) {
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
  // All multiples of the least number in so small a range are exact.
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
  // Nothing is saved when all rows are.
  EXPECT_FALSE(
      EncodeLossy(Codec::kInt8, BytesOf(Floats(160, kQuietNan)), 16).taken);
}

// Encodes rows one number at a time, as lossy.h and quantize.h say.
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

// Rows of a table: ordinary ones, and a part of them as they are decoded, with
// a NaN or an infinity, or of any bits.
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

// Rows are encoded in groups: here one that is not full, with verbatim rows
// between others, and a last row that is shorter.
TEST(Int8, GroupsOfRowsAreEncodedAsRowsOneByOne) {
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

// With FMA the bound of these rows has another last bit.
TEST(Int8, TheBoundOfErrorsIsTheSameWithoutFma) {
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
                StatusIs(absl::StatusCode::kDataLoss, HasSubstr(words)));
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
  expect(20 + 16, 1, "row 1 of int8 is verbatim and has codes");
  std::string raw(4096, '\0');
  for (size_t bytes = 0; bytes < good.size(); ++bytes) {
    EXPECT_THAT(
        Dequantize(Codec::kInt8, absl::string_view(good).substr(0, bytes), 128,
                   raw.data()),
        StatusIs(absl::StatusCode::kDataLoss, HasSubstr("")));
  }
  for (const size_t raw_bytes : {0, 116, 124, 127, 132, 4096}) {
    EXPECT_THAT(Dequantize(Codec::kInt8, good, raw_bytes, raw.data()),
                StatusIs(absl::StatusCode::kDataLoss, HasSubstr("")));
    EXPECT_THAT(Dequantize(Codec::kBf16, good, raw_bytes, raw.data()),
                StatusIs(absl::StatusCode::kDataLoss, HasSubstr("")));
  }
}

// A flipped bit of a page, of a bound of a row say, is damage.
TEST(Lossy, EveryFlippedBitOfAPageIsFound) {
  std::mt19937_64 random(TestSeed());
  for (const Codec codec : {Codec::kBf16, Codec::kInt8}) {
    Floats numbers;
    for (int r = 0; r < 4; ++r) {
      for (int i = 0; i < 8; ++i) {
        numbers.push_back(static_cast<float>(random() % 1000));
      }
    }
    numbers[9] = kQuietNan;
    const std::string raw = BytesOf(numbers);
    PageBuilder page;
    raw.copy(page.Reset(raw.size()), raw.size());
    page.Finish(codec, 4, 4);
    const std::string good(page.entry());
    ASSERT_EQ(good[4], static_cast<char>(codec));
    for (size_t bit = 0; bit < good.size() * 8; ++bit) {
      std::string bad = good;
      bad[bit / 8] = static_cast<char>(bad[bit / 8] ^ (1 << (bit % 8)));
      const absl::StatusOr<PageView> view = ParsePage(bad);
      std::string scratch;
      EXPECT_THAT(
          view.ok() ? ReadPage(*view, 4, &scratch).status() : view.status(),
          StatusIs(absl::StatusCode::kDataLoss, HasSubstr("")))
          << bit;
    }
  }
}

TEST(Lossy, PagesAreOfF32Alone) {
  const std::string raw = BytesOf({1, 2, 3, 4, 5, 6, 7, 8});
  PageBuilder page;
  raw.copy(page.Reset(raw.size()), raw.size());
  page.Finish(Codec::kBf16, 2, 4);
  ASSERT_OK_AND_ASSIGN(const PageView view, ParsePage(page.entry()));
  std::string scratch;
  ASSERT_OK_AND_ASSIGN(const absl::string_view read,
                       ReadPage(view, 4, &scratch));
  EXPECT_EQ(read, raw);
  EXPECT_THAT(
      ReadPage(view, 8, &scratch),
      StatusIs(absl::StatusCode::kDataLoss,
               HasSubstr("page of elements of 8 bytes has codec bf16")));
}

// The bytes do not depend on how the thread of a trainer calculates.
TEST(Lossy, TheThreadMayFlushRoundAndTrap) {
  std::mt19937_64 random(TestSeed());
  Floats numbers;
  for (int i = 0; i < 1024; ++i) {
    numbers.push_back(i % 64 < 32 ? static_cast<float>(i % 7) * kLeast
                                  : RandomRow(1, &random)[0]);
  }
  const std::string raw = BytesOf(numbers);
  for (const Codec codec : {Codec::kBf16, Codec::kInt8}) {
    const Encoded expected = EncodeLossy(codec, raw, 32);
    ASSERT_TRUE(expected.taken);
    const std::string back = DecodeLossy(codec, expected.stored, raw.size());
    std::fenv_t before;
    ASSERT_EQ(std::fegetenv(&before), 0);
    ASSERT_EQ(std::fesetround(FE_UPWARD), 0);
#if defined(__x86_64__)
    feenableexcept(FE_INEXACT | FE_INVALID | FE_UNDERFLOW);
    const uint32_t flushing = _mm_getcsr() | 0x8040;
    _mm_setcsr(flushing);
#endif
    std::string stored;
    Item::Error error;
    const bool taken =
        Quantize(codec, raw, 32, Rounding::kNearest, &stored, &error);
    std::string again(raw.size(), '?');
    const absl::Status status =
        Dequantize(codec, stored, raw.size(), again.data());
    const int rounding = std::fegetround();
#if defined(__x86_64__)
    const uint32_t after = _mm_getcsr();
#endif
    std::fesetenv(&before);
    EXPECT_TRUE(taken);
    EXPECT_OK(status);
    EXPECT_TRUE(stored == expected.stored);
    EXPECT_EQ(error, expected.error);
    EXPECT_TRUE(again == back);
    EXPECT_EQ(rounding, FE_UPWARD);
#if defined(__x86_64__)
    EXPECT_EQ(after, flushing);
#endif
  }
}

TEST(Lossy, SaysWhatItTakes) {
  EXPECT_OK(CheckLossy(Codec::kLz4, DType::kI64, 1));
  EXPECT_OK(CheckLossy(Codec::kBf16, DType::kF32, 1));
  EXPECT_OK(CheckLossy(Codec::kInt8, DType::kF32, kLeastInt8Elements));
  const auto invalid = [](const std::string& words) {
    return StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr(words));
  };
  EXPECT_THAT(CheckLossy(Codec::kBf16, DType::kF64, 8),
              invalid("codec bf16 is of f32 alone, not of f64; use one of "
                      "none, lz4, shuffle-lz4, auto"));
  EXPECT_THAT(CheckLossy(Codec::kInt8, DType::kI64, 8),
              invalid("codec int8 is of f32 alone, not of i64"));
  EXPECT_THAT(CheckLossy(Codec::kInt8, DType::kF32, kLeastInt8Elements - 1),
              invalid("codec int8 takes rows of at least 4 numbers, as each "
                      "has bounds of 8 bytes, and these have 3; use bf16"));
}

TEST(Int8, NoNumbersAreStoredAsTheyAre) {
  EXPECT_FALSE(EncodeLossy(Codec::kInt8, "", 16).taken);
  EXPECT_FALSE(EncodeLossy(Codec::kInt8, BytesOf(Floats(64, 1)), 0).taken);
}

}  // namespace
}  // namespace ckptdb
