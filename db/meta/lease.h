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
#include "ckptdb/db/usage.h"
#include "ckptdb/schema/records.h"

namespace ckptdb::internal {

absl::Status WriteLease(rocksdb::FileSystem* files, const std::string& store,
                        const Lease& lease);
absl::Status RemoveLease(rocksdb::FileSystem* files, const std::string& store,
                         const std::string& uuid);

// Whether a lease has a file of such a name, that of a UUID.
bool IsLeaseName(absl::string_view name);

// The leases that last beyond `now_micros`, as files of a lease's name tell.
// Readers replace their files in one step, so one that does not decode, or is
// no regular file, holds nothing; so does one that ends more than kMaxLeaseMs
// and kMaxClockSkewMs after it was written, and after now. A lease that cannot
// be read may hold anything, unless it was written longer ago than that: it is
// an error that names it.
//
// With `remove_expired` those that hold nothing are removed, and so are links
// and what is left of a lease that was not written to its end.
// `unswept`, if not null, gets what else is in the folder and what could not be
// removed.
absl::StatusOr<std::vector<Lease>> ReadLeases(
    rocksdb::FileSystem* files, const std::string& store, int64_t now_micros,
    bool remove_expired, std::vector<UnsweptEntry>* unswept = nullptr);

}  // namespace ckptdb::internal

#endif  // CKPTDB_DB_META_LEASE_H_
