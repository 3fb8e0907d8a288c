// SPDX-License-Identifier: Apache-2.0
// Errors of system calls on files.
#ifndef CKPTDB_TOOLS_FILES_FILE_ERROR_H_
#define CKPTDB_TOOLS_FILES_FILE_ERROR_H_

#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace ckptdb::tool {

// Returns `cannot write "out/w.npy": No space left on device` for the current
// errno, which determines the code.
absl::Status FileError(absl::string_view action, const std::string& path);

}  // namespace ckptdb::tool

#endif  // CKPTDB_TOOLS_FILES_FILE_ERROR_H_
