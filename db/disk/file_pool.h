// SPDX-License-Identifier: Apache-2.0
// Files of which only some are open at a time; internal to db/.
//
// RocksDB keeps a file open as long as an iterator may read from it, and a
// merge of many runs has an iterator in each of their files. A pool closes a
// file when it needs to open others, and opens it again when it is read.
#ifndef CKPTDB_DB_DISK_FILE_POOL_H_
#define CKPTDB_DB_DISK_FILE_POOL_H_

#include <rocksdb/file_system.h>

#include <cstddef>
#include <functional>
#include <list>
#include <memory>

#include "db/base/mutex.h"

namespace ckptdb::internal {

// Thread-safe.
class FilePool : public std::enable_shared_from_this<FilePool> {
 public:
  using File = rocksdb::FSRandomAccessFile;
  // Opens the file again.
  using Opener = std::function<rocksdb::IOStatus(std::unique_ptr<File>*)>;

  // Keeps at most `most_open` files open, at least 1, plus one for each reading
  // thread.
  explicit FilePool(size_t most_open) : most_open_(most_open) {}

  // Returns a file that reads from `opened`, or from the result of `reopen`
  // once the pool has closed it. An error of `reopen` becomes the error of the
  // read. The file's name must stay, because a removed file cannot be opened
  // again.
  std::unique_ptr<File> Add(std::unique_ptr<File> opened, Opener reopen);

 private:
  friend class PooledFile;
  struct Slot {
    Opener reopen;
    std::shared_ptr<File> file;           // null while it is closed
    std::list<Slot*>::iterator position;  // in open_, while it is open
  };

  rocksdb::IOStatus Use(Slot* slot, std::shared_ptr<File>* file);
  std::shared_ptr<File> Put(Slot* slot, std::shared_ptr<File> file);
  void Remove(Slot* slot);

  const size_t most_open_;
  Mutex mutex_;
  // Least recently used first.
  std::list<Slot*> open_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace ckptdb::internal

#endif  // CKPTDB_DB_DISK_FILE_POOL_H_
