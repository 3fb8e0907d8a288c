// Element types of tensors and slots. The numbers are stored and never change.
//
//   DTypeBytes(DType::kF32)  == 4
//   DTypeName(DType::kBf16)  == "bf16"
//   ParseDType("u8")         == DType::kU8
#ifndef CKPTDB_SCHEMA_DTYPE_H_
#define CKPTDB_SCHEMA_DTYPE_H_

#include <cstdint>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace ckptdb {

enum class DType : uint8_t {
  kF64 = 0,
  kF32 = 1,
  kF16 = 2,
  kBf16 = 3,
  kF8E4M3 = 4,
  kF8E5M2 = 5,
  kI64 = 6,
  kI32 = 7,
  kI16 = 8,
  kI8 = 9,
  kU64 = 10,
  kU32 = 11,
  kU16 = 12,
  kU8 = 13,
  kBool = 14,
};
inline constexpr uint8_t kDTypes = 15;

// Returns the bytes of one element: 1, 2, 4 or 8.
uint32_t DTypeBytes(DType dtype);

// "f64", "f32", "f16", "bf16", "f8e4m3", "f8e5m2", "i64", ..., "bool".
absl::string_view DTypeName(DType dtype);

// Returns InvalidArgument for an unknown name.
absl::StatusOr<DType> ParseDType(absl::string_view name);

// Returns DataLoss for a stored number that is not a dtype.
absl::StatusOr<DType> DTypeFromStored(uint8_t number);

}  // namespace ckptdb

#endif  // CKPTDB_SCHEMA_DTYPE_H_
