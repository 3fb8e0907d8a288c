// SPDX-License-Identifier: Apache-2.0
#include "db/disk/file_pool.h"

#include <utility>
#include <vector>

namespace ckptdb::internal {

using rocksdb::IODebugContext;
using rocksdb::IOOptions;
using rocksdb::IOStatus;

class PooledFile : public rocksdb::FSRandomAccessFile {
  using File = FilePool::File;

 public:
  PooledFile(std::shared_ptr<FilePool> pool, std::unique_ptr<File> opened,
             FilePool::Opener reopen)
      : pool_(std::move(pool)),
        direct_(opened->use_direct_io()),
        alignment_(opened->GetRequiredBufferAlignment()) {
    slot_.reopen = std::move(reopen);
    pool_->Put(&slot_, std::move(opened));
  }
  ~PooledFile() override { pool_->Remove(&slot_); }
  PooledFile(const PooledFile&) = delete;
  PooledFile& operator=(const PooledFile&) = delete;

  IOStatus Read(uint64_t offset, size_t n, const IOOptions& options,
                rocksdb::Slice* result, char* scratch,
                IODebugContext* debug) const override {
    return With([&](File* file) {
      return file->Read(offset, n, options, result, scratch, debug);
    });
  }
  IOStatus MultiRead(rocksdb::FSReadRequest* requests, size_t count,
                     const IOOptions& options, IODebugContext* debug) override {
    return With([&](File* file) {
      return file->MultiRead(requests, count, options, debug);
    });
  }
  IOStatus Prefetch(uint64_t offset, size_t n, const IOOptions& options,
                    IODebugContext* debug) override {
    return With(
        [&](File* file) { return file->Prefetch(offset, n, options, debug); });
  }
  IOStatus InvalidateCache(size_t offset, size_t length) override {
    return With(
        [&](File* file) { return file->InvalidateCache(offset, length); });
  }
  bool use_direct_io() const override { return direct_; }
  size_t GetRequiredBufferAlignment() const override { return alignment_; }

 private:
  // The file stays open during the read, even if the pool drops it.
  template <typename Call>
  IOStatus With(const Call& call) const {
    std::shared_ptr<File> file;
    IOStatus status = pool_->Use(&slot_, &file);
    return status.ok() ? call(file.get()) : status;
  }

  const std::shared_ptr<FilePool> pool_;
  const bool direct_;
  const size_t alignment_;
  mutable FilePool::Slot slot_;  // guarded by the pool
};

std::unique_ptr<FilePool::File> FilePool::Add(std::unique_ptr<File> opened,
                                              Opener reopen) {
  return std::make_unique<PooledFile>(shared_from_this(), std::move(opened),
                                      std::move(reopen));
}

IOStatus FilePool::Use(Slot* slot, std::shared_ptr<File>* file) {
  {
    const MutexLock lock(&mutex_);
    if (slot->file != nullptr) {
      open_.splice(open_.end(), open_, slot->position);
      *file = slot->file;
      return IOStatus::OK();
    }
  }
  std::unique_ptr<File> opened;
  IOStatus status = slot->reopen(&opened);
  if (status.ok()) *file = Put(slot, std::move(opened));
  return status;
}

// Two threads may have opened the same file; then the second one is closed.
std::shared_ptr<FilePool::File> FilePool::Put(Slot* slot,
                                              std::shared_ptr<File> file) {
  std::vector<std::shared_ptr<File>> closed;  // after the lock
  const MutexLock lock(&mutex_);
  if (slot->file == nullptr) {
    slot->file = std::move(file);
    slot->position = open_.insert(open_.end(), slot);
  }
  while (open_.size() > most_open_ && open_.front() != slot) {
    closed.push_back(std::exchange(open_.front()->file, nullptr));
    open_.pop_front();
  }
  return slot->file;
}

void FilePool::Remove(Slot* slot) {
  std::shared_ptr<File> closed;
  const MutexLock lock(&mutex_);
  if (slot->file == nullptr) return;
  closed = std::move(slot->file);
  open_.erase(slot->position);
}

}  // namespace ckptdb::internal
