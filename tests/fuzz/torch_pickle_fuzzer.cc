// SPDX-License-Identifier: Apache-2.0
// Pickles of torch.save: every element of a tensor lies in its storage.
#include "tests/fuzz/fuzz_input.h"
#include "tools/files/torch_pickle.h"

namespace ckptdb::tool {
namespace {

using testing::Require;

void CheckTorchPickle(absl::string_view pickle) {
  const auto parsed = ParseTorchPickle(pickle, "root");
  if (!parsed.ok()) return;
  for (const TorchTensor& tensor : parsed->tensors) {
    const uint32_t element_bytes = DTypeBytes(tensor.dtype);
    Require(tensor.shape.size() == tensor.strides.size());
    Require(tensor.offset >= 0);
    auto last = static_cast<unsigned __int128>(tensor.offset);
    bool empty = false;
    for (size_t i = 0; i < tensor.shape.size(); ++i) {
      Require(tensor.shape[i] >= 0);
      empty = empty || tensor.shape[i] == 0;
      if (empty) break;
      Require(tensor.strides[i] >= 0);
      last += static_cast<unsigned __int128>(tensor.shape[i] - 1) *
              static_cast<uint64_t>(tensor.strides[i]);
    }
    Require(empty || last < tensor.storage_bytes / element_bytes);
    IsContiguous(tensor);
  }
}

}  // namespace
}  // namespace ckptdb::tool

CKPTDB_FUZZ(ckptdb::tool::CheckTorchPickle)
