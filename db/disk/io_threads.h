// Threads that wait for the disk, so that others can go on; internal to db/.
#ifndef CKPTDB_DB_DISK_IO_THREADS_H_
#define CKPTDB_DB_DISK_IO_THREADS_H_

#include <rocksdb/io_status.h>

#include <functional>
#include <future>

namespace ckptdb::internal {

// Runs `work` on another thread, of a pool of the process that grows as needed
// and shrinks when there is nothing to do. Where no thread can be started, it
// runs on the calling one.
std::future<rocksdb::IOStatus> RunBeside(
    std::function<rocksdb::IOStatus()> work);

}  // namespace ckptdb::internal

#endif  // CKPTDB_DB_DISK_IO_THREADS_H_
