// SPDX-License-Identifier: Apache-2.0
// Divides the files of a store's folder by their use; internal to db/.
#ifndef CKPTDB_DB_STORE_FOLDER_USAGE_H_
#define CKPTDB_DB_STORE_FOLDER_USAGE_H_

#include <rocksdb/file_system.h>

#include <cstdint>
#include <functional>
#include <string>

#include "db/store.h"

namespace ckptdb::internal {

// Fills in Usage::disk_bytes, its breakdown and Usage::unswept.
// `is_in_progress` returns whether a save or a fold still needs the staging
// folder of an attempt.
void MeasureFolder(rocksdb::FileSystem* files, const std::string& store,
                   const std::function<bool(uint32_t attempt)>& is_in_progress,
                   Usage* usage);

}  // namespace ckptdb::internal

#endif  // CKPTDB_DB_STORE_FOLDER_USAGE_H_
