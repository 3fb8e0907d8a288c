// Locks of the machine's files between open file descriptions; internal to
// db/.
//
// RocksDB's own locks belong to a process and are known by path, so that a
// process which reaches one file by two paths (bind mounts, say) locks it
// twice. These belong to the description that was opened, and the file is known
// by its device and inode.
#ifndef CKPTDB_DB_DISK_FILE_LOCK_H_
#define CKPTDB_DB_DISK_FILE_LOCK_H_

#include <rocksdb/env.h>
#include <rocksdb/io_status.h>

#include <string>

namespace ckptdb::internal {

// Makes the file when it is missing. Busy when anyone has the lock: another
// process, or this one by whatever path. A forked child does not inherit it.
rocksdb::IOStatus LockMachineFile(const std::string& path,
                                  rocksdb::FileLock** lock);

// Releases a lock of LockMachineFile. In a forked child it does nothing but
// free the memory.
rocksdb::IOStatus UnlockMachineFile(rocksdb::FileLock* lock);

}  // namespace ckptdb::internal

#endif  // CKPTDB_DB_DISK_FILE_LOCK_H_
