// SPDX-License-Identifier: Apache-2.0
// The root of the source tree. Only one small object knows it, so that ccache
// finds all others from another clone.
#ifndef CKPTDB_TESTS_SUPPORT_SOURCE_FOLDER_H_
#define CKPTDB_TESTS_SUPPORT_SOURCE_FOLDER_H_

#include <string>

namespace ckptdb::testing {

// Returns the path of a file or folder of the tree: "docs/manager.md".
std::string SourcePath(const std::string& relative);

}  // namespace ckptdb::testing

#endif  // CKPTDB_TESTS_SUPPORT_SOURCE_FOLDER_H_
