// SPDX-License-Identifier: Apache-2.0
#include "tests/support/sim_files.h"

#include <algorithm>

namespace ckptdb::testing {
namespace {

using rocksdb::DataVerificationInfo;
using rocksdb::IODebugContext;
using rocksdb::IOOptions;
using rocksdb::IOStatus;
using rocksdb::Slice;
using Handle = SimVolume::Handle;

IOStatus ReadAt(const SimHandle& handle, uint64_t offset, size_t n,
                Slice* result, char* scratch) {
  return handle.Do([&](SimVolume& volume, const Handle& file) {
    return volume.Read(file, offset, n, result, scratch);
  });
}

IOStatus WriteAt(const SimHandle& handle, uint64_t offset, const Slice& bytes) {
  return handle.Do([&](SimVolume& volume, const Handle& file) {
    return volume.Write(file, offset, bytes);
  });
}

IOStatus SyncNow(const SimHandle& handle) {
  return handle.Do(
      [](SimVolume& volume, const Handle& file) { return volume.Sync(file); });
}

class SequentialFile : public rocksdb::FSSequentialFile {
 public:
  SequentialFile(std::shared_ptr<SimVolume> volume, Handle handle, bool direct)
      : handle_(std::move(volume), std::move(handle)), direct_(direct) {}

  IOStatus Read(size_t n, const IOOptions&, Slice* result, char* scratch,
                IODebugContext*) override {
    IOStatus status = ReadAt(handle_, position_, n, result, scratch);
    if (status.ok()) position_ += result->size();
    return status;
  }
  IOStatus PositionedRead(uint64_t offset, size_t n, const IOOptions&,
                          Slice* result, char* scratch,
                          IODebugContext*) override {
    return ReadAt(handle_, offset, n, result, scratch);
  }
  IOStatus Skip(uint64_t n) override {
    position_ += n;
    return IOStatus::OK();
  }
  bool use_direct_io() const override { return direct_; }
  IOStatus InvalidateCache(size_t, size_t) override { return IOStatus::OK(); }

 private:
  const SimHandle handle_;
  const bool direct_;
  uint64_t position_ = 0;
};

class RandomAccessFile : public rocksdb::FSRandomAccessFile {
 public:
  RandomAccessFile(std::shared_ptr<SimVolume> volume, Handle handle,
                   bool direct)
      : handle_(std::move(volume), std::move(handle)), direct_(direct) {}

  IOStatus Read(uint64_t offset, size_t n, const IOOptions&, Slice* result,
                char* scratch, IODebugContext*) const override {
    return ReadAt(handle_, offset, n, result, scratch);
  }
  IOStatus Prefetch(uint64_t, size_t, const IOOptions&,
                    IODebugContext*) override {
    return IOStatus::OK();
  }
  bool use_direct_io() const override { return direct_; }
  IOStatus InvalidateCache(size_t, size_t) override { return IOStatus::OK(); }

 private:
  const SimHandle handle_;
  const bool direct_;
};

class WritableFile : public rocksdb::FSWritableFile {
 public:
  WritableFile(std::shared_ptr<SimVolume> volume, Handle handle,
               const rocksdb::FileOptions& options, uint64_t position)
      : handle_(std::move(volume), std::move(handle)),
        direct_(options.use_direct_writes),
        position_(position) {}

  IOStatus Append(const Slice& bytes, const IOOptions& options,
                  IODebugContext* dbg) override {
    return PositionedAppend(bytes, position_, options, dbg);
  }
  IOStatus Append(const Slice& bytes, const IOOptions& options,
                  const DataVerificationInfo&, IODebugContext* dbg) override {
    return Append(bytes, options, dbg);
  }
  IOStatus PositionedAppend(const Slice& bytes, uint64_t offset,
                            const IOOptions&, IODebugContext*) override {
    IOStatus status = WriteAt(handle_, offset, bytes);
    if (status.ok()) position_ = offset + bytes.size();
    return status;
  }
  IOStatus PositionedAppend(const Slice& bytes, uint64_t offset,
                            const IOOptions& options,
                            const DataVerificationInfo&,
                            IODebugContext* dbg) override {
    return PositionedAppend(bytes, offset, options, dbg);
  }
  IOStatus Truncate(uint64_t size, const IOOptions&, IODebugContext*) override {
    IOStatus status = handle_.Do([&](SimVolume& volume, const Handle& file) {
      return volume.Truncate(file, size);
    });
    if (status.ok()) position_ = size;
    return status;
  }
  IOStatus Close(const IOOptions&, IODebugContext*) override {
    handle_.Close();
    return IOStatus::OK();
  }
  IOStatus Flush(const IOOptions&, IODebugContext*) override {
    return IOStatus::OK();
  }
  IOStatus Sync(const IOOptions&, IODebugContext*) override {
    return SyncNow(handle_);
  }
  IOStatus RangeSync(uint64_t, uint64_t, const IOOptions&,
                     IODebugContext*) override {
    return IOStatus::OK();
  }
  bool IsSyncThreadSafe() const override { return true; }
  bool use_direct_io() const override { return direct_; }
  uint64_t GetFileSize(const IOOptions&, IODebugContext*) override {
    return position_;
  }
  IOStatus InvalidateCache(size_t, size_t) override { return IOStatus::OK(); }

 private:
  SimHandle handle_;
  const bool direct_;
  uint64_t position_;
};

class RandomRWFile : public rocksdb::FSRandomRWFile {
 public:
  RandomRWFile(std::shared_ptr<SimVolume> volume, Handle handle)
      : handle_(std::move(volume), std::move(handle)) {}

  IOStatus Write(uint64_t offset, const Slice& bytes, const IOOptions&,
                 IODebugContext*) override {
    return WriteAt(handle_, offset, bytes);
  }
  IOStatus Read(uint64_t offset, size_t n, const IOOptions&, Slice* result,
                char* scratch, IODebugContext*) const override {
    return ReadAt(handle_, offset, n, result, scratch);
  }
  IOStatus Flush(const IOOptions&, IODebugContext*) override {
    return IOStatus::OK();
  }
  IOStatus Sync(const IOOptions&, IODebugContext*) override {
    return SyncNow(handle_);
  }
  IOStatus Close(const IOOptions&, IODebugContext*) override {
    handle_.Close();
    return IOStatus::OK();
  }

 private:
  SimHandle handle_;
};

class Directory : public rocksdb::FSDirectory {
 public:
  Directory(std::shared_ptr<SimVolume> volume, Handle handle)
      : handle_(std::move(volume), std::move(handle)) {}

  IOStatus Fsync(const IOOptions&, IODebugContext*) override {
    return handle_.Do([](SimVolume& volume, const Handle& folder) {
      return volume.SyncFolder(folder);
    });
  }
  IOStatus Close(const IOOptions&, IODebugContext*) override {
    handle_.Close();
    return IOStatus::OK();
  }

 private:
  SimHandle handle_;
};

}  // namespace

std::unique_ptr<rocksdb::FSSequentialFile> NewSimSequentialFile(
    std::shared_ptr<SimVolume> volume, Handle handle, bool direct) {
  return std::make_unique<SequentialFile>(std::move(volume), std::move(handle),
                                          direct);
}

std::unique_ptr<rocksdb::FSRandomAccessFile> NewSimRandomAccessFile(
    std::shared_ptr<SimVolume> volume, Handle handle, bool direct) {
  return std::make_unique<RandomAccessFile>(std::move(volume),
                                            std::move(handle), direct);
}

std::unique_ptr<rocksdb::FSWritableFile> NewSimWritableFile(
    std::shared_ptr<SimVolume> volume, Handle handle,
    const rocksdb::FileOptions& options, uint64_t position) {
  return std::make_unique<WritableFile>(std::move(volume), std::move(handle),
                                        options, position);
}

std::unique_ptr<rocksdb::FSRandomRWFile> NewSimRandomRWFile(
    std::shared_ptr<SimVolume> volume, Handle handle) {
  return std::make_unique<RandomRWFile>(std::move(volume), std::move(handle));
}

std::unique_ptr<rocksdb::FSDirectory> NewSimDirectory(
    std::shared_ptr<SimVolume> volume, Handle handle) {
  return std::make_unique<Directory>(std::move(volume), std::move(handle));
}

}  // namespace ckptdb::testing
