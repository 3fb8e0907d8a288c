// SPDX-License-Identifier: Apache-2.0
// Lossy codecs, compared with the arithmetic for one number, with all loops
// that this processor supports, on ordinary, extreme and damaged input.
#include "schema/bytes/lossy.h"

#include <cfenv>

#include "schema/bytes/codec.h"
#include "schema/bytes/limits.h"
#include "schema/bytes/page.h"
#include "schema/bytes/quantize.h"
#include "schema/bytes/quantize_loops.h"
#include "schema/bytes/small_float.h"
#include "tests/schema/bytes/lossy_calls.h"
#include "tests/support/seed.h"

#if defined(__x86_64__)
#include <xmmintrin.h>
#endif

namespace ckptdb::testing {
namespace {

using internal::DecodeBf16;
using internal::EncodeBf16;
using internal::FloatBits;
using internal::FloatOf;

TEST(Bf16, RoundsLikeTheReference) {
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

// The error bound of docs/manager.md for numbers so small that bf16 has as few
// bits for them as f32 has for 2^-149.
TEST(Bf16, ErrorBoundOfSmallNumbersIsConstant) {
  EXPECT_EQ(FloatOf(DecodeBf16(EncodeBf16(FloatBits(4.9e-42F)))), 0);
  float largest_share = 0;
  for (uint32_t bits = 1; bits < 0x1000000; bits += 97) {
    const float number = FloatOf(bits);
    const float back = FloatOf(DecodeBf16(EncodeBf16(bits)));
    const double error = std::abs(static_cast<double>(number) - back);
    ASSERT_LE(error, std::max(number / 256.0, 0x1p-134)) << number;
    largest_share =
        std::max(largest_share, static_cast<float>(error / 0x1p-134));
  }
  EXPECT_GT(largest_share, 0.99F);  // the bound is tight
}

TEST(Bf16, FiniteNumbersStayFinite) {
  const float largest = FloatOf(0x7f7f7fff);  // rounds to the largest bf16
  EXPECT_TRUE(EncodeLossy(Codec::kBf16, BytesOf({1, largest, 1}), 1).taken);
  EXPECT_FALSE(
      EncodeLossy(Codec::kBf16, BytesOf({1, FloatOf(0x7f7f8000), 1}), 1).taken);
  EXPECT_FALSE(EncodeLossy(Codec::kBf16, BytesOf({-kGreatest, 1}), 1).taken);
  EXPECT_TRUE(
      EncodeLossy(Codec::kBf16, BytesOf({kInfinity, -kInfinity}), 1).taken);
}

TEST(Bf16, ExactModeAcceptsOnlyExactNumbers) {
  EXPECT_TRUE(
      EncodeLossy(Codec::kBf16, BytesOf({1, -2.5f}), 1, Rounding::kNone).taken);
  EXPECT_FALSE(
      EncodeLossy(Codec::kBf16, BytesOf({1, 1.001f}), 1, Rounding::kNone)
          .taken);
}

// A flipped bit in a page, such as in a row's bound, is damage.
TEST(Lossy, DetectsEveryFlippedBitOfAPage) {
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
      EXPECT_THAT(view.ok() ? ReadPage(*view, 4, &scratch).status() : view,
                  DataLoss(""))
          << bit;
    }
  }
}

TEST(Lossy, PagesRequireF32) {
  const std::string raw = BytesOf({1, 2, 3, 4, 5, 6, 7, 8});
  PageBuilder page;
  raw.copy(page.Reset(raw.size()), raw.size());
  page.Finish(Codec::kBf16, 2, 4);
  ASSERT_OK_AND_ASSIGN(const PageView view, ParsePage(page.entry()));
  std::string scratch;
  EXPECT_EQ(ReadPage(view, 4, &scratch).value(), raw);
  EXPECT_THAT(ReadPage(view, 8, &scratch),
              DataLoss("page with codec bf16 has 8-byte elements"));
}

// The bytes do not depend on the floating-point modes of the trainer's thread.
TEST(Lossy, ResultDoesNotDependOnFloatingPointModes) {
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

TEST(Lossy, ErrorsNameTheRequirements) {
  EXPECT_OK(CheckLossy(Codec::kLz4, DType::kI64, 1));
  EXPECT_OK(CheckLossy(Codec::kBf16, DType::kF32, 1));
  EXPECT_OK(CheckLossy(Codec::kInt8, DType::kF32, kLeastInt8Elements));
  EXPECT_THAT(
      CheckLossy(Codec::kBf16, DType::kF64, 8),
      InvalidArgument("codec bf16 supports only f32, not f64; use one of "
                      "none, lz4, shuffle-lz4, auto"));
  EXPECT_THAT(CheckLossy(Codec::kInt8, DType::kI64, 8),
              InvalidArgument("codec int8 supports only f32, not i64"));
  EXPECT_THAT(
      CheckLossy(Codec::kInt8, DType::kF32, kLeastInt8Elements - 1),
      InvalidArgument(
          "codec int8 needs rows of at least 4 numbers, because "
          "each row stores 8 bytes of bounds; these rows have 3; use bf16"));
}

}  // namespace
}  // namespace ckptdb::testing
