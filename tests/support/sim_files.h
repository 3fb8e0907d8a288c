// SPDX-License-Identifier: Apache-2.0
// RocksDB's file objects on handles of a SimVolume. Each closes its handle when
// it is destroyed, or at Close(); calls after Close() are IOErrors.
#ifndef CKPTDB_TESTS_SUPPORT_SIM_FILES_H_
#define CKPTDB_TESTS_SUPPORT_SIM_FILES_H_

#include <cstdint>
#include <memory>
#include <utility>

#include "rocksdb/file_system.h"
#include "rocksdb/io_status.h"
#include "rocksdb/slice.h"
#include "tests/support/sim_volume.h"

namespace ckptdb::testing {

class SimHandle {
 public:
  using IOStatus = rocksdb::IOStatus;

  SimHandle(std::shared_ptr<SimVolume> volume, SimVolume::Handle handle)
      : volume_(std::move(volume)), handle_(std::move(handle)) {}
  ~SimHandle() { Close(); }
  SimHandle(const SimHandle&) = delete;
  SimHandle& operator=(const SimHandle&) = delete;

  IOStatus Close() {
    if (open_) volume_->Close(handle_);
    open_ = false;
    return IOStatus::OK();
  }
  IOStatus Read(uint64_t offset, size_t n, rocksdb::Slice* result,
                char* scratch) const {
    return open_ ? volume_->Read(handle_, offset, n, result, scratch)
                 : Closed();
  }
  IOStatus Write(uint64_t offset, const rocksdb::Slice& bytes) const {
    return open_ ? volume_->Write(handle_, offset, bytes) : Closed();
  }
  IOStatus Truncate(uint64_t size) const {
    return open_ ? volume_->Truncate(handle_, size) : Closed();
  }
  IOStatus Sync() const { return open_ ? volume_->Sync(handle_) : Closed(); }
  IOStatus SyncFolder() const {
    return open_ ? volume_->SyncFolder(handle_) : Closed();
  }

 private:
  IOStatus Closed() const {
    return IOStatus::IOError(handle_.path, "is closed");
  }

  std::shared_ptr<SimVolume> volume_;
  SimVolume::Handle handle_;
  bool open_ = true;
};

// What all kinds of files have in common.
template <typename Base>
class SimFile : public Base {
 public:
  using IOStatus = rocksdb::IOStatus;
  using IOOptions = rocksdb::IOOptions;
  using Slice = rocksdb::Slice;
  using Debug = rocksdb::IODebugContext;

  SimFile(std::shared_ptr<SimVolume> volume, SimVolume::Handle handle)
      : handle_(std::move(volume), std::move(handle)) {}

 protected:
  SimHandle handle_;  // NOLINT(*-non-private-member-variables-in-classes)
};

class SimSequentialFile : public SimFile<rocksdb::FSSequentialFile> {
 public:
  SimSequentialFile(std::shared_ptr<SimVolume> volume, SimVolume::Handle handle,
                    bool direct)
      : SimFile(std::move(volume), std::move(handle)), direct_(direct) {}

  IOStatus Read(size_t n, const IOOptions&, Slice* result, char* scratch,
                Debug*) override {
    IOStatus status = handle_.Read(position_, n, result, scratch);
    if (status.ok()) position_ += result->size();
    return status;
  }
  IOStatus Skip(uint64_t n) override {
    position_ += n;
    return IOStatus::OK();
  }
  bool use_direct_io() const override { return direct_; }
  IOStatus InvalidateCache(size_t, size_t) override { return IOStatus::OK(); }

 private:
  const bool direct_;
  uint64_t position_ = 0;
};

class SimRandomAccessFile : public SimFile<rocksdb::FSRandomAccessFile> {
 public:
  SimRandomAccessFile(std::shared_ptr<SimVolume> volume,
                      SimVolume::Handle handle, bool direct)
      : SimFile(std::move(volume), std::move(handle)), direct_(direct) {}

  IOStatus Read(uint64_t offset, size_t n, const IOOptions&, Slice* result,
                char* scratch, Debug*) const override {
    return handle_.Read(offset, n, result, scratch);
  }
  IOStatus Prefetch(uint64_t, size_t, const IOOptions&, Debug*) override {
    return IOStatus::OK();
  }
  bool use_direct_io() const override { return direct_; }
  IOStatus InvalidateCache(size_t, size_t) override { return IOStatus::OK(); }

 private:
  const bool direct_;
};

// The first append is at `position`.
class SimWritableFile : public SimFile<rocksdb::FSWritableFile> {
 public:
  SimWritableFile(std::shared_ptr<SimVolume> volume, SimVolume::Handle handle,
                  bool direct, uint64_t position)
      : SimFile(std::move(volume), std::move(handle)),
        direct_(direct),
        position_(position) {}

  IOStatus Append(const Slice& bytes, const IOOptions& options,
                  Debug* debug) override {
    return PositionedAppend(bytes, position_, options, debug);
  }
  IOStatus Append(const Slice& bytes, const IOOptions& options,
                  const rocksdb::DataVerificationInfo&, Debug* debug) override {
    return PositionedAppend(bytes, position_, options, debug);
  }
  IOStatus PositionedAppend(const Slice& bytes, uint64_t offset,
                            const IOOptions&, Debug*) override {
    IOStatus status = handle_.Write(offset, bytes);
    if (status.ok()) position_ = offset + bytes.size();
    return status;
  }
  IOStatus PositionedAppend(const Slice& bytes, uint64_t offset,
                            const IOOptions& options,
                            const rocksdb::DataVerificationInfo&,
                            Debug* debug) override {
    return PositionedAppend(bytes, offset, options, debug);
  }
  IOStatus Truncate(uint64_t size, const IOOptions&, Debug*) override {
    IOStatus status = handle_.Truncate(size);
    if (status.ok()) position_ = size;
    return status;
  }
  IOStatus Close(const IOOptions&, Debug*) override { return handle_.Close(); }
  IOStatus Flush(const IOOptions&, Debug*) override { return IOStatus::OK(); }
  IOStatus Sync(const IOOptions&, Debug*) override { return handle_.Sync(); }
  IOStatus RangeSync(uint64_t, uint64_t, const IOOptions&, Debug*) override {
    return IOStatus::OK();
  }
  bool IsSyncThreadSafe() const override { return true; }
  bool use_direct_io() const override { return direct_; }
  uint64_t GetFileSize(const IOOptions&, Debug*) override { return position_; }
  IOStatus InvalidateCache(size_t, size_t) override { return IOStatus::OK(); }

 private:
  const bool direct_;
  uint64_t position_;
};

class SimDirectory : public SimFile<rocksdb::FSDirectory> {
 public:
  using SimFile::SimFile;

  IOStatus Fsync(const IOOptions&, Debug*) override {
    return handle_.SyncFolder();
  }
  IOStatus Close(const IOOptions&, Debug*) override { return handle_.Close(); }
};

}  // namespace ckptdb::testing

#endif  // CKPTDB_TESTS_SUPPORT_SIM_FILES_H_
