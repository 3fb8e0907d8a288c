// SPDX-License-Identifier: Apache-2.0
// Leases: small files with which readers keep steps from being swept; internal
// to db/.
#ifndef CKPTDB_DB_META_LEASE_H_
#define CKPTDB_DB_META_LEASE_H_

#include <rocksdb/file_system.h>

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "db/store.h"
#include "schema/records/records.h"
#include "schema/types.h"

namespace ckptdb::internal {

// Writes or renews a lease. Returns InvalidArgument if its file would exceed
// kMaxSmallFileBytes.
absl::Status WriteLease(rocksdb::FileSystem* files, const std::string& store,
                        const Lease& lease);
// Removes a lease. A missing lease is not an error.
absl::Status RemoveLease(rocksdb::FileSystem* files, const std::string& store,
                         const std::string& uuid);

// Returns whether this is the name of a lease's file, a UUID.
bool IsLeaseName(absl::string_view name);

// Returns the leases that expire after `now_micros`. Readers replace their
// files atomically, so a file that does not decode, or is not regular, holds
// nothing. Neither does a lease that expires more than kMaxLeaseMs +
// kMaxClockSkewMs after it was written, or after now. A lease that cannot be
// read may hold anything: the error names it, unless it was written longer ago
// than any lease lasts.
//
// If `remove_expired` is set, removes leases that hold nothing, links, and
// abandoned temporary files. `unswept`, if not null, receives the entries that
// could not be removed and foreign entries.
absl::StatusOr<std::vector<Lease>> ReadLeases(
    rocksdb::FileSystem* files, const std::string& store, int64_t now_micros,
    bool remove_expired, std::vector<Usage::SkippedEntry>* unswept = nullptr);

}  // namespace ckptdb::internal

#endif  // CKPTDB_DB_META_LEASE_H_
