// SPDX-License-Identifier: Apache-2.0
// Arithmetic on arrays of any dtype: elements are widened, block by block, to
// one of four types that represent all their values.
//
//   ForWidened(dtype, bytes, elements, 1, [&](const auto* numbers, size_t n) {
//     for (size_t i = 0; i < n; ++i) sum += static_cast<double>(numbers[i]);
//   });
#ifndef CKPTDB_TOOLS_WIDENED_H_
#define CKPTDB_TOOLS_WIDENED_H_

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <type_traits>
#include <vector>

#include "schema/types.h"

namespace ckptdb::tool {

// Small enough for the first-level cache.
inline constexpr size_t kWidenedBlock = 2048;

// Also of integers.
template <typename T>
bool IsNanElement(T number) {
  if constexpr (std::is_floating_point_v<T>) {
    return std::isnan(number);
  } else {
    return false;
  }
}
template <typename T>
bool IsFiniteElement(T number) {
  if constexpr (std::is_floating_point_v<T>) {
    return std::isfinite(number);
  } else {
    return true;
  }
}

template <typename T, typename Take>
void ForWidenedTo(DType from, DType to, const char* bytes, size_t elements,
                  size_t multiple, const Take& take) {
  const size_t block = std::max(multiple, kWidenedBlock / multiple * multiple);
  std::vector<T> numbers(std::min(block, elements));
  for (size_t at = 0; at < elements; at += block) {
    const size_t count = std::min(block, elements - at);
    // Cannot fail: `to` represents all values of `from`.
    CastElements(from, bytes + at * DTypeBytes(from), to, numbers.data(), count)
        .IgnoreError();
    take(static_cast<const T*>(numbers.data()), count);
  }
}

// Calls take(const T* numbers, size_t count) for consecutive blocks, whose
// counts are multiples of `multiple` if `elements` is. T is double for f64,
// float for other floats, int64_t for signed integers, and uint64_t for others
// and bools. `bytes` need not be aligned.
template <typename Take>
void ForWidened(DType dtype, const char* bytes, size_t elements,
                size_t multiple, const Take& take) {
  switch (dtype) {
    case DType::kF64:
      return ForWidenedTo<double>(dtype, DType::kF64, bytes, elements, multiple,
                                  take);
    case DType::kF32:
    case DType::kF16:
    case DType::kBf16:
    case DType::kF8E4M3:
    case DType::kF8E5M2:
      return ForWidenedTo<float>(dtype, DType::kF32, bytes, elements, multiple,
                                 take);
    case DType::kI64:
    case DType::kI32:
    case DType::kI16:
    case DType::kI8:
      return ForWidenedTo<int64_t>(dtype, DType::kI64, bytes, elements,
                                   multiple, take);
    case DType::kU64:
    case DType::kU32:
    case DType::kU16:
    case DType::kU8:
    case DType::kBool:
      return ForWidenedTo<uint64_t>(dtype, DType::kU64, bytes, elements,
                                    multiple, take);
  }
}

}  // namespace ckptdb::tool

#endif  // CKPTDB_TOOLS_WIDENED_H_
