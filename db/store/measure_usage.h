// SPDX-License-Identifier: Apache-2.0
// Measures the usage of a store, for its owner and for readers; internal to
// db/.
#ifndef CKPTDB_DB_STORE_MEASURE_USAGE_H_
#define CKPTDB_DB_STORE_MEASURE_USAGE_H_

#include <cstdint>
#include <map>
#include <set>
#include <string>

#include "absl/status/statusor.h"
#include "db/meta/catalog.h"
#include "db/rocks/database.h"
#include "db/store.h"

namespace ckptdb::internal {

// Returns the bytes of data files by version. RocksDB tracks them, so this
// reads no files.
std::map<Version, uint64_t> BulkBytes(const Database& database);

// Measures the folder and the database of a store, whose records are `catalog`.
// `in_progress` lists the attempts of saves and folds in progress. A reader
// does not know them and passes null: every attempt that has begun then counts
// as in progress.
absl::StatusOr<Usage> MeasureUsage(const Database& database,
                                   const std::string& store,
                                   const Catalog& catalog, int64_t now_micros,
                                   const std::set<uint32_t>* in_progress,
                                   bool by_name = false);

}  // namespace ckptdb::internal

#endif  // CKPTDB_DB_STORE_MEASURE_USAGE_H_
