// SPDX-License-Identifier: Apache-2.0
// Accesses elements of tensors and slots in memory by dtype; internal to the
// library.
//
//   WithElements(dtype, [&](auto elements) {
//     return std::to_string(elements.Load(bytes));
//   });
#ifndef CKPTDB_SCHEMA_BYTES_ELEMENT_H_
#define CKPTDB_SCHEMA_BYTES_ELEMENT_H_

#include <cstdint>
#include <cstring>
#include <limits>
#include <type_traits>

#include "schema/bytes/small_float.h"
#include "schema/types.h"

namespace ckptdb::internal {

// Elements may be unaligned, so they are copied.
template <typename T>
T LoadRaw(const char* at) {
  T value;
  std::memcpy(&value, at, sizeof(value));
  return value;
}
template <typename T>
void StoreRaw(T value, char* at) {
  std::memcpy(at, &value, sizeof(value));
}

// Each of the following types has: Number, a type that represents all values of
// the dtype; kBytes, the size of an element; Load, which returns a Number; and
// Store, which takes an integer that the dtype represents, or any double, which
// it rounds.
template <typename T>
struct NumberElements {
  using Number = T;
  static constexpr uint32_t kBytes = sizeof(T);
  static T Load(const char* at) { return LoadRaw<T>(at); }
  template <typename From>
  static void Store(From number, char* at) {
    StoreRaw(static_cast<T>(number), at);
  }
};

struct BoolElements {
  using Number = bool;
  static constexpr uint32_t kBytes = 1;
  static bool Load(const char* at) { return LoadRaw<uint8_t>(at) != 0; }
  static void Store(bool number, char* at) { StoreRaw<uint8_t>(number, at); }
};

template <FloatLayout kLayout, typename Bits>
struct SmallFloatElements {
  using Number = float;
  static constexpr uint32_t kBytes = sizeof(Bits);
  static float Load(const char* at) {
    return DecodeFloat<kLayout>(LoadRaw<Bits>(at));
  }
  static void Store(double number, char* at) {
    StoreRaw(static_cast<Bits>(EncodeFloat<kLayout>(number)), at);
  }
};

// Calls `take` with the type above for the dtype.
template <typename Take>
auto WithElements(DType dtype, const Take& take) {
  switch (dtype) {
    case DType::kF64:
      return take(NumberElements<double>());
    case DType::kF32:
      return take(NumberElements<float>());
    case DType::kF16:
      return take(SmallFloatElements<kF16Layout, uint16_t>());
    case DType::kBf16:
      return take(SmallFloatElements<kBf16Layout, uint16_t>());
    case DType::kF8E4M3:
      return take(SmallFloatElements<kF8E4M3Layout, uint8_t>());
    case DType::kF8E5M2:
      return take(SmallFloatElements<kF8E5M2Layout, uint8_t>());
    case DType::kI64:
      return take(NumberElements<int64_t>());
    case DType::kI32:
      return take(NumberElements<int32_t>());
    case DType::kI16:
      return take(NumberElements<int16_t>());
    case DType::kI8:
      return take(NumberElements<int8_t>());
    case DType::kU64:
      return take(NumberElements<uint64_t>());
    case DType::kU32:
      return take(NumberElements<uint32_t>());
    case DType::kU16:
      return take(NumberElements<uint16_t>());
    case DType::kU8:
      return take(NumberElements<uint8_t>());
    case DType::kBool:
      break;
  }
  return take(BoolElements());
}

}  // namespace ckptdb::internal

#endif  // CKPTDB_SCHEMA_BYTES_ELEMENT_H_
