// SPDX-License-Identifier: Apache-2.0
// A store on a file system that is really full, in a process of its own: what
// is asserted inside RocksDB ends that process alone.
#ifndef CKPTDB_TESTS_DB_FULL_VOLUME_H_
#define CKPTDB_TESTS_DB_FULL_VOLUME_H_

#include <string>

#include "absl/status/status.h"

namespace ckptdb::testing {

// Mounts a small file system of `kind` ("tmpfs" or "ext4") at `folder`, in a
// name space of mounts, and does each thing with a store there with each room
// of 0 to 1 MiB in steps of 4 KiB, or one in so many of them. Prints "ok" and
// how much it did. Unimplemented where it may not mount; else the first thing
// that did not go as it should.
absl::Status FillVolume(const std::string& kind, const std::string& folder);

}  // namespace ckptdb::testing

#endif  // CKPTDB_TESTS_DB_FULL_VOLUME_H_
