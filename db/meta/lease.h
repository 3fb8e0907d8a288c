// Leases: small files by which readers ask for steps to stay; internal to db/.
#ifndef CKPTDB_DB_META_LEASE_H_
#define CKPTDB_DB_META_LEASE_H_

#include <rocksdb/file_system.h>

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "ckptdb/db/store.h"
#include "ckptdb/schema/records/records.h"
#include "ckptdb/schema/types.h"

namespace ckptdb::internal {

// Writes or renews a lease. Returns InvalidArgument when its file would be
// larger than kMaxSmallFileBytes.
absl::Status WriteLease(rocksdb::FileSystem* files, const std::string& store,
                        const Lease& lease);
// Removes a lease. It is no error when there is none.
absl::Status RemoveLease(rocksdb::FileSystem* files, const std::string& store,
                         const std::string& uuid);

// Returns whether this is the name of a lease's file, which is a UUID.
bool IsLeaseName(absl::string_view name);

// Returns the leases that last beyond `now_micros`. Readers replace their files
// in one step, so a file that does not decode, or is not a regular file, holds
// nothing. A lease that ends more than kMaxLeaseMs and kMaxClockSkewMs after it
// was written, and after now, holds nothing either. A lease that cannot be read
// may hold anything: the error names it, unless it was written longer ago than
// any lease lasts.
//
// If `remove_expired` is set, leases that hold nothing are removed, and so are
// links and temporary files that were abandoned. `unswept`, if not null, gets
// what could not be removed and what else is in the folder.
absl::StatusOr<std::vector<Lease>> ReadLeases(
    rocksdb::FileSystem* files, const std::string& store, int64_t now_micros,
    bool remove_expired, std::vector<Usage::SkippedEntry>* unswept = nullptr);

}  // namespace ckptdb::internal

#endif  // CKPTDB_DB_META_LEASE_H_
