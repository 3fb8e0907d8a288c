// SPDX-License-Identifier: Apache-2.0
// Runs disk I/O on background threads; internal to db/.
#ifndef CKPTDB_DB_DISK_IO_THREADS_H_
#define CKPTDB_DB_DISK_IO_THREADS_H_

#include <rocksdb/io_status.h>

#include <functional>
#include <future>

namespace ckptdb::internal {

// Runs `work` on a thread of the process's pool, which grows as needed and
// shrinks when idle. If no thread can be started, runs it on the calling
// thread.
std::future<rocksdb::IOStatus> RunAsync(
    std::function<rocksdb::IOStatus()> work);

}  // namespace ckptdb::internal

#endif  // CKPTDB_DB_DISK_IO_THREADS_H_
