// RocksDB's threads, started before a database is opened; internal to db/.
#ifndef CKPTDB_DB_QUIRKS_START_THREADS_H_
#define CKPTDB_DB_QUIRKS_START_THREADS_H_

#include <rocksdb/options.h>

#include "absl/status/status.h"

namespace ckptdb::internal {

// RocksDB throws where it cannot start a thread, and leaves what it had begun:
// a folder that is locked until the process ends. This starts the threads that
// stay before a database is opened with `options`, and tries as many more as
// the opening starts for a while. Returns an error when the machine does not
// give them.
absl::Status StartRocksDbThreads(const rocksdb::DBOptions& options);

}  // namespace ckptdb::internal

#endif  // CKPTDB_DB_QUIRKS_START_THREADS_H_
