// SPDX-License-Identifier: Apache-2.0
// Reads objects of versions; internal to remote/.
#ifndef CKPTDB_REMOTE_SYNC_VERSION_OBJECT_H_
#define CKPTDB_REMOTE_SYNC_VERSION_OBJECT_H_

#include <cstdint>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "remote/object_store.h"
#include "schema/records/remote.h"

namespace ckptdb::internal {

inline constexpr uint64_t kReadBytes = uint64_t{8} << 20;  // of one read

// Returns the version object of an entry, whose hash was compared. Returns
// NotFound if it is missing, and DataLoss if it is damaged; both name it.
absl::StatusOr<RemoteVersion> ReadVersionObject(ObjectStore* remote,
                                                const RemoteEntry& entry);

// Returns DataLoss for an object of other bytes than the catalog says.
absl::Status OtherHash(ObjectStore* remote, absl::string_view key,
                       uint64_t expected, uint64_t found);

}  // namespace ckptdb::internal

#endif  // CKPTDB_REMOTE_SYNC_VERSION_OBJECT_H_
