// SPDX-License-Identifier: Apache-2.0
// Locks files of the machine between open file descriptions; internal to db/.
//
// RocksDB's locks belong to a process and are identified by path, so a process
// that reaches one file by two paths (such as bind mounts) locks it twice.
// These locks belong to the open description, and identify the file by device
// and inode.
#ifndef CKPTDB_DB_DISK_FILE_LOCK_H_
#define CKPTDB_DB_DISK_FILE_LOCK_H_

#include <rocksdb/env.h>
#include <rocksdb/io_status.h>

#include <string>

namespace ckptdb::internal {

// Creates the file if it is missing. Returns Busy if the lock is held by
// another process, or by this one through any path. A forked child does not
// inherit it.
rocksdb::IOStatus LockMachineFile(const std::string& path,
                                  rocksdb::FileLock** lock);

// Releases a lock of LockMachineFile. In a forked child it only frees the
// memory.
rocksdb::IOStatus UnlockMachineFile(rocksdb::FileLock* lock);

}  // namespace ckptdb::internal

#endif  // CKPTDB_DB_DISK_FILE_LOCK_H_
