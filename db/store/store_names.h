// SPDX-License-Identifier: Apache-2.0
// The names in a store's folder, which protect other files of the user from
// calls that replace a store; internal to db/.
#ifndef CKPTDB_DB_STORE_STORE_NAMES_H_
#define CKPTDB_DB_STORE_STORE_NAMES_H_

#include <rocksdb/file_system.h>

#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace ckptdb::internal {

// Whether a store, or a copy that is being made, has files of this name.
bool IsStoreName(const std::string& name);

// Whether this is a temporary file of OWNER, SHIPPED or WATERMARK that a
// process left when it died in ReplaceFile.
bool IsTemporaryNote(absl::string_view name);

// Returns an error unless the folder at `path` contains a store and nothing
// else.
absl::Status CheckIsStore(const std::shared_ptr<rocksdb::FileSystem>& files,
                          const std::string& path);

}  // namespace ckptdb::internal

#endif  // CKPTDB_DB_STORE_STORE_NAMES_H_
