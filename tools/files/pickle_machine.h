// SPDX-License-Identifier: Apache-2.0
// Interprets a pickle of torch.save: see torch_pickle.h.
#ifndef CKPTDB_TOOLS_FILES_PICKLE_MACHINE_H_
#define CKPTDB_TOOLS_FILES_PICKLE_MACHINE_H_

#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
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
  // Not null for a tensor, and for a storage, which has only a dtype and bytes.
  std::unique_ptr<TorchTensor> tensor = {};
};
using PickleKind = PickleValue::Kind;

// Limits the memory of a pickle's values, which may be thousands of times the
// pickle's size.
class PickleMemory {
 public:
  static constexpr uint64_t kMaxBytes = uint64_t{512} << 20;
  static constexpr uint64_t kReferenceBytes = 2 * sizeof(void*);  // of a vector

  // Returns false if too little memory is left, and then in all later calls.
  bool Take(uint64_t bytes) {
    exhausted_ = exhausted_ || bytes > kMaxBytes - taken_;
    if (!exhausted_) taken_ += bytes;
    return !exhausted_;
  }
  // Returns InvalidArgument if Take has returned false.
  absl::Status Check() const;

 private:
  uint64_t taken_ = 0;
  bool exhausted_ = false;
};

// Returns the pickle's result. All values are in `values`, and may refer to
// each other, also in circles. Returns InvalidArgument if they take more than
// `memory`.
absl::StatusOr<const PickleValue*> RunPickle(absl::string_view pickle,
                                             PickleMemory* memory,
                                             std::deque<PickleValue>* values);

}  // namespace ckptdb::tool

#endif  // CKPTDB_TOOLS_FILES_PICKLE_MACHINE_H_
