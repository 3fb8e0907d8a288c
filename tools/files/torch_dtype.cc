// SPDX-License-Identifier: Apache-2.0
#include "tools/files/torch_dtype.h"

#include <iterator>

#include "absl/strings/match.h"

namespace ckptdb::tool {
namespace {

struct TorchName {
  absl::string_view name;
  DType dtype;
};
constexpr TorchName kTorchDTypes[] = {{"torch.float64", DType::kF64},
                                      {"torch.float32", DType::kF32},
                                      {"torch.float16", DType::kF16},
                                      {"torch.bfloat16", DType::kBf16},
                                      {"torch.float8_e4m3fn", DType::kF8E4M3},
                                      {"torch.float8_e5m2", DType::kF8E5M2},
                                      {"torch.int64", DType::kI64},
                                      {"torch.int32", DType::kI32},
                                      {"torch.int16", DType::kI16},
                                      {"torch.int8", DType::kI8},
                                      {"torch.uint64", DType::kU64},
                                      {"torch.uint32", DType::kU32},
                                      {"torch.uint16", DType::kU16},
                                      {"torch.uint8", DType::kU8},
                                      {"torch.bool", DType::kBool}};
static_assert(std::size(kTorchDTypes) == kDTypes);
constexpr TorchName kStorageNames[] = {{"DoubleStorage", DType::kF64},
                                       {"FloatStorage", DType::kF32},
                                       {"HalfStorage", DType::kF16},
                                       {"BFloat16Storage", DType::kBf16},
                                       {"LongStorage", DType::kI64},
                                       {"IntStorage", DType::kI32},
                                       {"ShortStorage", DType::kI16},
                                       {"CharStorage", DType::kI8},
                                       {"ByteStorage", DType::kU8},
                                       {"BoolStorage", DType::kBool},
                                       {"UntypedStorage", DType::kU8},
                                       {"Float8_e4m3fnStorage", DType::kF8E4M3},
                                       {"Float8_e5m2Storage", DType::kF8E5M2}};

}  // namespace

absl::string_view TorchDTypeName(DType dtype) {
  for (const TorchName& each : kTorchDTypes) {
    if (each.dtype == dtype) return each.name;
  }
  return "";
}

std::optional<DType> TorchDType(absl::string_view name) {
  for (const TorchName& each : kTorchDTypes) {
    if (each.name == name) return each.dtype;
  }
  return std::nullopt;
}

std::optional<DType> TorchStorageDType(absl::string_view name) {
  if (!IsTorchStorage(name)) return std::nullopt;
  const absl::string_view last = name.substr(name.rfind('.') + 1);
  for (const TorchName& each : kStorageNames) {
    if (each.name == last) return each.dtype;
  }
  return std::nullopt;
}

bool IsTorchStorage(absl::string_view name) {
  return absl::StartsWith(name, "torch.") && absl::EndsWith(name, "Storage");
}

}  // namespace ckptdb::tool
