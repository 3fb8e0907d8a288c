// Measures the usage of a store, for its owner and for readers; internal to
// db/.
#ifndef CKPTDB_DB_STORE_MEASURE_USAGE_H_
#define CKPTDB_DB_STORE_MEASURE_USAGE_H_

#include <cstdint>
#include <map>
#include <set>
#include <string>

#include "absl/status/statusor.h"
#include "ckptdb/db/meta/catalog.h"
#include "ckptdb/db/rocks/database.h"
#include "ckptdb/db/store.h"

namespace ckptdb::internal {

// Returns the bytes of the data files of each version that has some. They are
// known to RocksDB: nothing is read.
std::map<Version, uint64_t> BulkBytes(const Database& database);

// Measures the folder and the database of a store, whose records are `catalog`.
// `in_progress` has the attempts of saves and folds in progress. It is null for
// a reader, which does not know: every attempt that has begun counts as one
// then.
absl::StatusOr<Usage> MeasureUsage(const Database& database,
                                   const std::string& store,
                                   const Catalog& catalog, int64_t now_micros,
                                   const std::set<uint32_t>* in_progress,
                                   const Usage::Options& options = {});

}  // namespace ckptdb::internal

#endif  // CKPTDB_DB_STORE_MEASURE_USAGE_H_
