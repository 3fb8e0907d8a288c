// SPDX-License-Identifier: Apache-2.0
// The dtypes of C++ types. Not for users.
#ifndef CKPTDB_DB_INTERNAL_DTYPE_OF_H_
#define CKPTDB_DB_INTERNAL_DTYPE_OF_H_

#include <cstdint>

#include "schema/types.h"

namespace ckptdb::internal {

template <typename T>
struct DTypeOf;
template <>
struct DTypeOf<double> {
  static constexpr DType kValue = DType::kF64;
};
template <>
struct DTypeOf<float> {
  static constexpr DType kValue = DType::kF32;
};
template <>
struct DTypeOf<int64_t> {
  static constexpr DType kValue = DType::kI64;
};
template <>
struct DTypeOf<int32_t> {
  static constexpr DType kValue = DType::kI32;
};
template <>
struct DTypeOf<int16_t> {
  static constexpr DType kValue = DType::kI16;
};
template <>
struct DTypeOf<int8_t> {
  static constexpr DType kValue = DType::kI8;
};
template <>
struct DTypeOf<uint64_t> {
  static constexpr DType kValue = DType::kU64;
};
template <>
struct DTypeOf<uint32_t> {
  static constexpr DType kValue = DType::kU32;
};
template <>
struct DTypeOf<uint16_t> {
  static constexpr DType kValue = DType::kU16;
};
template <>
struct DTypeOf<uint8_t> {
  static constexpr DType kValue = DType::kU8;
};
template <>
struct DTypeOf<bool> {
  static constexpr DType kValue = DType::kBool;
};

template <typename T>
concept Element = requires {
  DTypeOf<T>::kValue;
};

}  // namespace ckptdb::internal

#endif  // CKPTDB_DB_INTERNAL_DTYPE_OF_H_
