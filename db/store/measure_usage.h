// Usage of a store, for its owner and for readers; internal to db/.
#ifndef CKPTDB_DB_STORE_MEASURE_USAGE_H_
#define CKPTDB_DB_STORE_MEASURE_USAGE_H_

#include <cstdint>
#include <map>
#include <set>
#include <string>

#include "absl/status/statusor.h"
#include "ckptdb/db/meta/catalog.h"
#include "ckptdb/db/rocks/database.h"
#include "ckptdb/db/usage.h"

namespace ckptdb::internal {

// Bytes of the data files of each version.
std::map<Version, uint64_t> BulkBytes(const Database& database);

// `in_progress`: the attempts of saves under way; null when it is not known,
// as to a reader, and then every begun attempt counts as one.
absl::StatusOr<Usage> MeasureUsage(const Database& database,
                                   const std::string& store,
                                   const Catalog& catalog, int64_t now_micros,
                                   const std::set<uint32_t>* in_progress,
                                   const UsageOptions& options = {});

}  // namespace ckptdb::internal

#endif  // CKPTDB_DB_STORE_MEASURE_USAGE_H_
