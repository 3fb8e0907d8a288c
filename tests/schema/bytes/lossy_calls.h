// SPDX-License-Identifier: Apache-2.0
// Encodes and decodes numbers with the lossy codecs, with all loops that this
// processor supports; for the tests of each codec.
#ifndef CKPTDB_TESTS_SCHEMA_BYTES_LOSSY_CALLS_H_
#define CKPTDB_TESTS_SCHEMA_BYTES_LOSSY_CALLS_H_

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>

#include "schema/bytes/lossy.h"
#include "schema/bytes/quantize.h"
#include "schema/bytes/quantize_loops.h"
#include "tests/support/code_numbers.h"
#include "tests/support/test.h"

namespace ckptdb::testing {

inline constexpr float kInfinity = std::numeric_limits<float>::infinity();
inline constexpr float kQuietNan = std::numeric_limits<float>::quiet_NaN();
inline constexpr float kGreatest = std::numeric_limits<float>::max();
inline constexpr float kLeast = std::numeric_limits<float>::denorm_min();

using Floats = std::vector<float>;

inline std::string BytesOf(const Floats& numbers) {
  return {reinterpret_cast<const char*>(numbers.data()),
          numbers.size() * sizeof(float)};
}
inline Floats FloatsOf(const std::string& bytes) {
  Floats numbers(bytes.size() / sizeof(float));
  std::memcpy(numbers.data(), bytes.data(), bytes.size());
  return numbers;
}
// All exponents are equally likely.
inline float AnyFinite(std::mt19937_64* random) {
  return AnyFiniteNumber(random);
}

// Rows with any offset and spread, and with any bits.
inline Floats RandomRow(uint64_t elements, std::mt19937_64* random) {
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

struct Encoded {
  bool taken = false;
  std::string stored;
  Item::Error error;
};

inline Encoded EncodeLossy(Codec codec, const std::string& raw,
                           uint32_t row_elements,
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

inline std::string DecodeLossy(Codec codec, const std::string& stored,
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

// Fails unless `back` is near `numbers`, within the errors of `error`.
inline void ExpectErrors(const Floats& numbers, const Floats& back,
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

}  // namespace ckptdb::testing

#endif  // CKPTDB_TESTS_SCHEMA_BYTES_LOSSY_CALLS_H_
