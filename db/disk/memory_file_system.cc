// SPDX-License-Identifier: Apache-2.0
#include "db/disk/memory_file_system.h"

#include <rocksdb/env.h>

#include <cstdint>
#include <set>
#include <string>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "db/base/mutex.h"

namespace ckptdb::internal {
namespace {

using rocksdb::IODebugContext;
using rocksdb::IOOptions;
using rocksdb::IOStatus;

// RocksDB's own, with what it lacks: the free space, and which paths are
// folders.
class MemoryFileSystem : public rocksdb::FileSystemWrapper {
 public:
  explicit MemoryFileSystem(std::unique_ptr<rocksdb::Env> env)
      : FileSystemWrapper(env->GetFileSystem()), env_(std::move(env)) {}

  const char* Name() const override { return "ckptdb.MemoryFileSystem"; }
  IOStatus CreateDir(const std::string& path, const IOOptions& options,
                     IODebugContext* debug) override {
    return Added(path, target()->CreateDir(path, options, debug));
  }
  IOStatus CreateDirIfMissing(const std::string& path, const IOOptions& options,
                              IODebugContext* debug) override {
    return Added(path, target()->CreateDirIfMissing(path, options, debug));
  }
  IOStatus IsDirectory(const std::string& path, const IOOptions& options,
                       bool* is_folder, IODebugContext* debug) override {
    {
      const MutexLock lock(&mutex_);
      *is_folder = folders_.contains(path);
    }
    return *is_folder ? IOStatus::OK()
                      : target()->FileExists(path, options, debug);
  }
  IOStatus GetFreeSpace(const std::string& /*path*/,
                        const IOOptions& /*options*/, uint64_t* bytes,
                        IODebugContext* /*debug*/) override {
    *bytes = uint64_t{1} << 40;
    return IOStatus::OK();
  }

 private:
  IOStatus Added(const std::string& path, IOStatus status) {
    const MutexLock lock(&mutex_);
    if (status.ok()) folders_.insert(path);
    return status;
  }

  const std::unique_ptr<rocksdb::Env> env_;
  Mutex mutex_;
  std::set<std::string> folders_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace

std::shared_ptr<rocksdb::FileSystem> NewMemoryFileSystem() {
  return std::make_shared<MemoryFileSystem>(std::unique_ptr<rocksdb::Env>(
      rocksdb::NewMemEnv(rocksdb::Env::Default())));
}

}  // namespace ckptdb::internal
