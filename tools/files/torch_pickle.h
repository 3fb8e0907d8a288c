// SPDX-License-Identifier: Apache-2.0
// The pickles of torch.save, without executing them: a small interpreter of
// the opcodes that state dictionaries consist of. It knows tensors,
// dictionaries, lists, tuples, numbers and texts; everything else, which only
// running code could make, is an error that names the class.
#ifndef CKPTDB_TOOLS_FILES_TORCH_PICKLE_H_
#define CKPTDB_TOOLS_FILES_TORCH_PICKLE_H_

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "schema/types.h"

namespace ckptdb::tool {

// A view of a storage, which several tensors may share.
struct TorchTensor {
  std::string name;  // keys and indices, joined by dots
  std::string storage;
  uint64_t storage_bytes = 0;
  DType dtype = DType::kF32;
  int64_t offset = 0;  // in elements
  Shape shape;
  Shape strides;  // in elements
};

struct TorchPickle {
  std::vector<TorchTensor> tensors;
  // All other values by name, as JSON: numbers, texts, true, false, null, and
  // empty dictionaries and lists.
  std::map<std::string, std::string> values;
  std::map<std::string, std::string> bytes;
};

// Parses a pickle; `root` is the name of a tensor or value that is not in a
// dictionary or list. Returns InvalidArgument, with the offset, for a pickle
// that is not valid, a class that is not known, a key that is neither text nor
// an integer, and tensors that exceed their storage. Memory and time are in
// proportion to the pickle's size.
absl::StatusOr<TorchPickle> ParseTorchPickle(absl::string_view pickle,
                                             const std::string& root);

// Returns whether the elements are in row-major order without gaps.
bool IsContiguous(const TorchTensor& tensor);

// Returns the pickle of an ordered dictionary of contiguous tensors, each with
// a separate storage, named by its number.
std::string MakeTorchPickle(const std::vector<TorchTensor>& tensors);

}  // namespace ckptdb::tool

#endif  // CKPTDB_TOOLS_FILES_TORCH_PICKLE_H_
