// SPDX-License-Identifier: Apache-2.0
// PyTorch's names of dtypes.
#ifndef CKPTDB_TOOLS_FILES_TORCH_DTYPE_H_
#define CKPTDB_TOOLS_FILES_TORCH_DTYPE_H_

#include <optional>

#include "absl/strings/string_view.h"
#include "schema/types.h"

namespace ckptdb::tool {

// Returns "torch.float32".
absl::string_view TorchDTypeName(DType dtype);

// The inverse; nullopt for a dtype that a store lacks.
std::optional<DType> TorchDType(absl::string_view name);

// Returns the dtype of a class such as "torch.FloatStorage".
std::optional<DType> TorchStorageDType(absl::string_view name);

// Returns whether the name is that of a class of storages, whatever its dtype.
bool IsTorchStorage(absl::string_view name);

}  // namespace ckptdb::tool

#endif  // CKPTDB_TOOLS_FILES_TORCH_DTYPE_H_
