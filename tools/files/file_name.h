// SPDX-License-Identifier: Apache-2.0
// Names of items as names of files, and back.
//
//   EscapeFileName("a/../b")      == "a%2F..%2Fb"
//   EscapeMemberName("a/../b")    == "a/%2E./b"
//   UnescapeName("a%2F..%2Fb")    == "a/../b"
#ifndef CKPTDB_TOOLS_FILES_FILE_NAME_H_
#define CKPTDB_TOOLS_FILES_FILE_NAME_H_

#include <string>

#include "absl/strings/string_view.h"

namespace ckptdb::tool {

// Returns the name of one file of a folder: %XX replaces control characters,
// "/", "\", "%" and a leading ".".
std::string EscapeFileName(absl::string_view name);

// The same for a relative path in an archive: "/" between two parts stays.
std::string EscapeMemberName(absl::string_view name);

// The inverse of both. Returns a name that neither of them returns unchanged.
std::string UnescapeName(absl::string_view file_name);

}  // namespace ckptdb::tool

#endif  // CKPTDB_TOOLS_FILES_FILE_NAME_H_
