// SPDX-License-Identifier: Apache-2.0
// Removes garbage outside the database for a sweep; internal to db/.
#ifndef CKPTDB_DB_STORE_SWEEP_FOLDER_H_
#define CKPTDB_DB_STORE_SWEEP_FOLDER_H_

#include <rocksdb/file_system.h>

#include <cstdint>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "db/store.h"

namespace ckptdb::internal {

// Foreign entries and entries that cannot be removed stay: `unswept` receives
// both, with the reason.

// Removes the folders of attempts for which `may_stage` is false, and links.
void CleanStaging(rocksdb::FileSystem* files, const std::string& store,
                  absl::FunctionRef<bool(uint32_t attempt)> may_stage,
                  std::vector<Usage::SkippedEntry>* unswept);

// Removes temporary files that an owner left in the store's and the database's
// folders.
void CleanTemporaries(rocksdb::FileSystem* files, const std::string& store,
                      int64_t now_micros,
                      std::vector<Usage::SkippedEntry>* unswept);

}  // namespace ckptdb::internal

#endif  // CKPTDB_DB_STORE_SWEEP_FOLDER_H_
