// SPDX-License-Identifier: Apache-2.0
#include "db/disk/environment.h"

#include <chrono>
#include <utility>

#include "db/disk/disk_file_system.h"

namespace ckptdb::internal {
namespace {

int64_t WallMicros() {
  return std::chrono::duration_cast<std::chrono::microseconds>(
             std::chrono::system_clock::now().time_since_epoch())
      .count();
}

}  // namespace

std::shared_ptr<Environment> Environment::Default() {
  // Never destroyed, because stores may be closed at exit().
  static const auto* const kShared =
      new std::shared_ptr<Environment>(std::make_shared<Environment>(
          std::make_shared<DiskFileSystem>(rocksdb::FileSystem::Default()),
          WallMicros, /*on_disk=*/true));
  return *kShared;
}

Environment::Environment(std::shared_ptr<rocksdb::FileSystem> file_system,
                         Clock clock, bool on_disk)
    : file_system_(std::move(file_system)),
      clock_(std::move(clock)),
      on_disk_(on_disk) {}

}  // namespace ckptdb::internal
