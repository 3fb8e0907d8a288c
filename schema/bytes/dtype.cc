// SPDX-License-Identifier: Apache-2.0
#include "schema/bytes/dtype.h"

#include "schema/types.h"

#include <array>

#include "absl/strings/str_cat.h"

namespace ckptdb {
namespace {

struct Entry {
  absl::string_view name;
  uint32_t bytes;
};

constexpr std::array<Entry, kDTypes> kEntries = {{{"f64", 8},
                                                  {"f32", 4},
                                                  {"f16", 2},
                                                  {"bf16", 2},
                                                  {"f8e4m3", 1},
                                                  {"f8e5m2", 1},
                                                  {"i64", 8},
                                                  {"i32", 4},
                                                  {"i16", 2},
                                                  {"i8", 1},
                                                  {"u64", 8},
                                                  {"u32", 4},
                                                  {"u16", 2},
                                                  {"u8", 1},
                                                  {"bool", 1}}};

}  // namespace

uint32_t DTypeBytes(DType dtype) {
  return kEntries[static_cast<uint8_t>(dtype)].bytes;
}

absl::string_view DTypeName(DType dtype) {
  return kEntries[static_cast<uint8_t>(dtype)].name;
}

absl::StatusOr<DType> ParseDType(absl::string_view name) {
  for (uint8_t i = 0; i < kDTypes; ++i) {
    if (kEntries[i].name == name) return static_cast<DType>(i);
  }
  return absl::InvalidArgumentError(absl::StrCat(
      "unknown dtype \"", name,
      "\"; expected one of f64, f32, f16, bf16, f8e4m3, f8e5m2, i64, i32, "
      "i16, i8, u64, u32, u16, u8, bool"));
}

absl::StatusOr<DType> DTypeFromStored(uint8_t number) {
  if (number < kDTypes) return static_cast<DType>(number);
  return absl::DataLossError(absl::StrCat("invalid stored dtype ", number,
                                          "; expected less than ", kDTypes));
}

}  // namespace ckptdb
