// SPDX-License-Identifier: Apache-2.0
// The environment of a store: a file system and a clock. Internal to db/ and to
// tests, which use a simulated file system.
#ifndef CKPTDB_DB_DISK_ENVIRONMENT_H_
#define CKPTDB_DB_DISK_ENVIRONMENT_H_

#include <rocksdb/env.h>
#include <rocksdb/file_system.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "db/base/mutex.h"

namespace ckptdb::internal {

class OutsideTables;

// Microseconds since 1970, UTC.
using Clock = std::function<int64_t()>;

class Environment {
 public:
  // The machine's file system and clock.
  static std::shared_ptr<Environment> Default();

  // `on_disk`: paths are the operating system's, so modes can be set and direct
  // writes requested.
  Environment(std::shared_ptr<rocksdb::FileSystem> file_system, Clock clock,
              bool on_disk);

  const std::shared_ptr<rocksdb::FileSystem>& file_system() const {
    return file_system_;
  }
  int64_t NowMicros() const { return clock_(); }
  bool on_disk() const { return on_disk_; }

  // The size in bytes at which a new MANIFEST begins. If unset, the database
  // chooses: see db/rocks/manifest_size.h. Must be set before a store is
  // opened.
  std::optional<uint64_t> max_manifest_bytes() const {
    return max_manifest_bytes_;
  }
  void set_max_manifest_bytes(uint64_t bytes) { max_manifest_bytes_ = bytes; }

  // The tables of bulk of a store that lie outside of its folder, in place of
  // those within: see db/rocks/outside_tables.h. A follower has those of when
  // it was opened. Default: none.
  std::shared_ptr<const OutsideTables> outside_tables() const {
    const MutexLock lock(&mutex_);
    return outside_tables_;
  }
  void set_outside_tables(std::shared_ptr<const OutsideTables> tables) {
    const MutexLock lock(&mutex_);
    outside_tables_ = std::move(tables);
  }

 private:
  std::shared_ptr<rocksdb::FileSystem> file_system_;
  Clock clock_;
  bool on_disk_;
  std::optional<uint64_t> max_manifest_bytes_;
  mutable Mutex mutex_;
  std::shared_ptr<const OutsideTables> outside_tables_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace ckptdb::internal

#endif  // CKPTDB_DB_DISK_ENVIRONMENT_H_
