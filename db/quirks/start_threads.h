// SPDX-License-Identifier: Apache-2.0
// Starts RocksDB's threads before a database is opened; internal to db/.
#ifndef CKPTDB_DB_QUIRKS_START_THREADS_H_
#define CKPTDB_DB_QUIRKS_START_THREADS_H_

#include <rocksdb/options.h>

#include "absl/status/status.h"

namespace ckptdb::internal {

// If RocksDB cannot start a thread, it throws and leaves its folder locked
// until the process ends. This starts the threads that stay before a database
// is opened with `options`, and briefly as many as the open starts temporarily.
// Returns an error if the system cannot create them.
absl::Status StartRocksDbThreads(const rocksdb::DBOptions& options);

}  // namespace ckptdb::internal

#endif  // CKPTDB_DB_QUIRKS_START_THREADS_H_
