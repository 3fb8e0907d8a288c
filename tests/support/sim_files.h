// SPDX-License-Identifier: Apache-2.0
// RocksDB's file objects on handles of a SimVolume. Each closes its handle when
// it is destroyed, or at Close(); calls after Close() are IOErrors.
#ifndef CKPTDB_TESTS_SUPPORT_SIM_FILES_H_
#define CKPTDB_TESTS_SUPPORT_SIM_FILES_H_

#include <memory>
#include <utility>

#include "rocksdb/file_system.h"
#include "tests/support/sim_volume.h"

namespace ckptdb::testing {

class SimHandle {
 public:
  SimHandle(std::shared_ptr<SimVolume> volume, SimVolume::Handle handle)
      : volume_(std::move(volume)), handle_(std::move(handle)) {}
  ~SimHandle() { Close(); }
  SimHandle(const SimHandle&) = delete;
  SimHandle& operator=(const SimHandle&) = delete;

  void Close() {
    if (open_) volume_->Close(handle_);
    open_ = false;
  }
  uint64_t size_at_open() const { return handle_.size_bytes; }

  // Returns call(volume, handle), or an error after Close().
  template <typename F>
  rocksdb::IOStatus Do(F&& call) const {
    if (!open_) return rocksdb::IOStatus::IOError(handle_.path, "is closed");
    return call(*volume_, handle_);
  }

 private:
  std::shared_ptr<SimVolume> volume_;
  SimVolume::Handle handle_;
  bool open_ = true;
};

std::unique_ptr<rocksdb::FSSequentialFile> NewSimSequentialFile(
    std::shared_ptr<SimVolume> volume, SimVolume::Handle handle, bool direct);
std::unique_ptr<rocksdb::FSRandomAccessFile> NewSimRandomAccessFile(
    std::shared_ptr<SimVolume> volume, SimVolume::Handle handle, bool direct);
// The first append is at `position`.
std::unique_ptr<rocksdb::FSWritableFile> NewSimWritableFile(
    std::shared_ptr<SimVolume> volume, SimVolume::Handle handle,
    const rocksdb::FileOptions& options, uint64_t position);
std::unique_ptr<rocksdb::FSRandomRWFile> NewSimRandomRWFile(
    std::shared_ptr<SimVolume> volume, SimVolume::Handle handle);
std::unique_ptr<rocksdb::FSDirectory> NewSimDirectory(
    std::shared_ptr<SimVolume> volume, SimVolume::Handle handle);

}  // namespace ckptdb::testing

#endif  // CKPTDB_TESTS_SUPPORT_SIM_FILES_H_
