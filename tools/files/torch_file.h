// SPDX-License-Identifier: Apache-2.0
// The files of torch.save.
#ifndef CKPTDB_TOOLS_FILES_TORCH_FILE_H_
#define CKPTDB_TOOLS_FILES_TORCH_FILE_H_

#include <string>

#include "absl/status/status.h"
#include "tools/files/loaded_files.h"

namespace ckptdb::tool {

// Adds the tensors of a file; other values become a blob "<stem>.values" in
// JSON. Storages stay in the mapped file; tensors with gaps, such as transposed
// ones, are copied to memory. Returns the errors of ParseZip and
// ParseTorchPickle, and InvalidArgument for big-endian files and those of
// versions before 1.6.
absl::Status LoadTorch(const std::string& path, LoadedFiles* files);

}  // namespace ckptdb::tool

#endif  // CKPTDB_TOOLS_FILES_TORCH_FILE_H_
