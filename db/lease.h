// Leases: small files by which readers ask for steps to stay; internal to db/.
#ifndef CKPTDB_DB_LEASE_H_
#define CKPTDB_DB_LEASE_H_

#include <rocksdb/file_system.h>

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "ckptdb/schema/records.h"

namespace ckptdb::internal {

// "8-4-4-4-12" hexadecimal digits, random.
std::string NewUuid();

absl::Status WriteLease(rocksdb::FileSystem* files, const std::string& store,
                        const Lease& lease);
absl::Status RemoveLease(rocksdb::FileSystem* files, const std::string& store,
                         const std::string& uuid);

// The leases that last beyond `now_micros`; on demand, removes those that
// expired, and what is none. Readers replace their files in one step, so a file
// that does not decode holds nothing. A file that cannot be read may hold
// anything: it is an error that names it.
absl::StatusOr<std::vector<Lease>> ReadLeases(rocksdb::FileSystem* files,
                                              const std::string& store,
                                              int64_t now_micros,
                                              bool remove_expired);

}  // namespace ckptdb::internal

#endif  // CKPTDB_DB_LEASE_H_
