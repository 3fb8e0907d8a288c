#include "ckptdb/db/environment.h"

#include <sys/statvfs.h>

#include <cerrno>
#include <chrono>
#include <cstring>
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
  // What anybody may use. RocksDB counts for root what is reserved for it,
  // which on ext4 includes blocks that nobody gets.
  rocksdb::IOStatus GetFreeSpace(const std::string& path,
                                 const rocksdb::IOOptions&, uint64_t* bytes,
                                 rocksdb::IODebugContext*) override {
    struct statvfs state {};
    if (::statvfs(path.c_str(), &state) != 0) {
      return rocksdb::IOStatus::IOError("statvfs " + path,
                                        std::strerror(errno));
    }
    *bytes = uint64_t{state.f_bavail} * state.f_frsize;
    return rocksdb::IOStatus::OK();
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
