#include "ckptdb/db/environment.h"

#include <chrono>
#include <string>
#include <utility>

#include "ckptdb/db/file_lock.h"

namespace ckptdb {
namespace {

// RocksDB's, with locks of our own.
class MachineFileSystem : public rocksdb::FileSystemWrapper {
 public:
  MachineFileSystem() : FileSystemWrapper(rocksdb::FileSystem::Default()) {}

  const char* Name() const override { return "ckptdb.MachineFileSystem"; }
  rocksdb::IOStatus LockFile(const std::string& path, const rocksdb::IOOptions&,
                             rocksdb::FileLock** lock,
                             rocksdb::IODebugContext*) override {
    return internal::LockMachineFile(path, lock);
  }
  rocksdb::IOStatus UnlockFile(rocksdb::FileLock* lock,
                               const rocksdb::IOOptions&,
                               rocksdb::IODebugContext*) override {
    return internal::UnlockMachineFile(lock);
  }
};

int64_t WallMicros() {
  return std::chrono::duration_cast<std::chrono::microseconds>(
             std::chrono::system_clock::now().time_since_epoch())
      .count();
}

}  // namespace

std::shared_ptr<Environment> Environment::Default() {
  static const auto* const kShared =
      new std::shared_ptr<Environment>(std::make_shared<Environment>(
          std::make_shared<MachineFileSystem>(), WallMicros, /*on_disk=*/true));
  return *kShared;
}

Environment::Environment(std::shared_ptr<rocksdb::FileSystem> file_system,
                         Clock clock, bool on_disk)
    : file_system_(std::move(file_system)),
      clock_(std::move(clock)),
      on_disk_(on_disk) {}

}  // namespace ckptdb
