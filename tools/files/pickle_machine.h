// SPDX-License-Identifier: Apache-2.0
// Interprets a pickle of torch.save: see torch_pickle.h.
#ifndef CKPTDB_TOOLS_FILES_PICKLE_MACHINE_H_
#define CKPTDB_TOOLS_FILES_PICKLE_MACHINE_H_

#include <cstdint>
#include <deque>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "schema/types.h"
#include "tools/files/torch_pickle.h"

namespace ckptdb::tool {

struct PickleValue {
  enum class Kind {
    kMark,
    kNone,
    kBool,
    kInteger,
    kFloat,
    kText,
    kBytes,
    kSequence,  // a list or tuple: items
    kDict,      // items are keys and values in turn
    kGlobal,    // text is "module.name"
    kStorage,   // text is its key
    kTensor,
  };
  Kind kind = Kind::kNone;
  bool boolean = false;
  int64_t integer = 0;
  double number = 0;
  std::string text = {};
  std::vector<PickleValue*> items = {};
  PickleValue* attributes = nullptr;  // only for a dictionary
  TorchTensor tensor = {};            // for a storage: its dtype and bytes
};
using PickleKind = PickleValue::Kind;

struct TorchName {
  absl::string_view name;
  DType dtype;
};
inline constexpr TorchName kTorchDTypes[] = {
    {"torch.float64", DType::kF64},
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

// Returns the pickle's result. All values are in `values`, and may refer to
// each other, also in circles.
absl::StatusOr<const PickleValue*> RunPickle(absl::string_view pickle,
                                             std::deque<PickleValue>* values);

}  // namespace ckptdb::tool

#endif  // CKPTDB_TOOLS_FILES_PICKLE_MACHINE_H_
