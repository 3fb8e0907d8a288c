// SPDX-License-Identifier: Apache-2.0
// Ordinary and extreme rows of f32, for tests of lossy codecs.
#ifndef CKPTDB_TESTS_SUPPORT_CODE_NUMBERS_H_
#define CKPTDB_TESTS_SUPPORT_CODE_NUMBERS_H_

#include <cmath>
#include <cstdint>
#include <random>
#include <vector>

#include "schema/bytes/quantize.h"

namespace ckptdb::testing {

inline float NanWithPayload() { return internal::FloatOf(0xff8abcde); }

inline float AnyFiniteNumber(std::mt19937_64* random) {
  for (;;) {
    const float number = internal::FloatOf(static_cast<uint32_t>((*random)()));
    if (std::isfinite(number)) return number;
  }
}

// Kinds of rows that both codecs can encode.
enum class RowKind {
  kNormal,   // like embeddings
  kAnyBits,  // all exponents equally likely, without overflow in bf16
  kZeros,    // of both signs
  kOnes,
  kSubnormal,
  kNeighbours,  // adjacent floats
  kGreatest,    // the greatest that bf16 can represent, of both signs
  kOutlier,     // one number far from the others
};
inline constexpr int kRowKinds = 8;

inline float NumberOfKind(RowKind kind, uint32_t i, std::mt19937_64* random) {
  std::normal_distribution<float> normal(0, 0.05F);
  const bool odd = (*random)() % 2 == 1;
  switch (kind) {
    case RowKind::kNormal:
      return normal(*random);
    case RowKind::kAnyBits: {
      float number = AnyFiniteNumber(random);
      while (internal::OverflowsBf16(internal::FloatBits(number))) {
        number = AnyFiniteNumber(random);
      }
      return number;
    }
    case RowKind::kZeros:
      return odd ? -0.0F : 0.0F;
    case RowKind::kOnes:
      return 1;
    case RowKind::kSubnormal:
      return internal::FloatOf(static_cast<uint32_t>((*random)()) & 0x807fffff);
    case RowKind::kNeighbours:
      return internal::FloatOf(0x3f800000 + (*random)() % 3);
    case RowKind::kGreatest:
      return internal::FloatOf(odd ? 0x7f7f7fff : 0xff7f7fff);
    case RowKind::kOutlier:
      return i == 0 ? 1e30F : normal(*random);
  }
  return 0;
}

inline std::vector<float> RowOfKind(RowKind kind, uint32_t elements,
                                    std::mt19937_64* random) {
  std::vector<float> row(elements);
  for (uint32_t i = 0; i < elements; ++i) {
    row[i] = NumberOfKind(kind, i, random);
  }
  return row;
}

}  // namespace ckptdb::testing

#endif  // CKPTDB_TESTS_SUPPORT_CODE_NUMBERS_H_
