// SPDX-License-Identifier: Apache-2.0
// Checks that files named by the content of an imported folder lie in it: a
// folder from an untrusted source could contain links to any file.
#ifndef CKPTDB_TOOLS_FILES_INSIDE_FOLDER_H_
#define CKPTDB_TOOLS_FILES_INSIDE_FOLDER_H_

#include <string>

#include "absl/status/status.h"

namespace ckptdb::tool {

// Returns InvalidArgument if `name`, once all symbolic links are resolved, is
// not in `folder`, which may itself be a link; and an error if it does not
// exist. In a folder "snapshots/<revision>" of Hugging Face's cache a file may
// also be a link to one directly in "blobs" beside "snapshots".
absl::Status CheckInside(const std::string& folder, const std::string& name);

}  // namespace ckptdb::tool

#endif  // CKPTDB_TOOLS_FILES_INSIDE_FOLDER_H_
