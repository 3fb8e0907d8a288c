// SPDX-License-Identifier: Apache-2.0
// Listens to RocksDB's background work; internal to db/.
#ifndef CKPTDB_DB_ROCKS_DATABASE_LISTENER_H_
#define CKPTDB_DB_ROCKS_DATABASE_LISTENER_H_

#include <rocksdb/listener.h>

#include <atomic>

#include "absl/status/status.h"
#include "db/base/mutex.h"
#include "db/disk/rocks_status.h"
#include "db/quirks/given_up_compactions.h"
#include "db/rocks/rocks_options.h"

namespace ckptdb::internal {

// Keeps the first error that makes the database unusable. Damage that a
// compaction of data finds, or a disk that is too full for a compaction, does
// not: the compaction is given up, and the database is unchanged.
class DatabaseListener : public rocksdb::EventListener {
 public:
  void OnCompactionCompleted(rocksdb::DB*,
                             const rocksdb::CompactionJobInfo& job) override {
    const bool damage = HoldsData(job.cf_name) && IsDamage(job.status);
    if (damage) met_damage_ = true;
    given_up_.Completed(damage || job.status.IsNoSpace());
  }
  void OnBackgroundError(rocksdb::BackgroundErrorReason reason,
                         rocksdb::Status* status) override {
    if (reason == rocksdb::BackgroundErrorReason::kCompaction &&
        given_up_.TakeError()) {
      gave_up_ = true;
      *status = rocksdb::Status::OK();
      return;
    }
    Fail(FromRocks(*status, "background work"));
  }
  // RocksDB must not recover from an error either: a database that has failed
  // is not written to again.
  void OnErrorRecoveryBegin(rocksdb::BackgroundErrorReason, rocksdb::Status,
                            bool* auto_recovery) override {
    *auto_recovery = false;
  }
  void Fail(const absl::Status& status) {
    const MutexLock lock(&mutex_);
    if (status_.ok()) status_ = status;
  }
  absl::Status status() const {
    const MutexLock lock(&mutex_);
    return status_;
  }
  // Returns whether a compaction was given up since the last call.
  bool TakeGivenUp() { return gave_up_.exchange(false); }
  bool met_damage() const { return met_damage_; }

 private:
  mutable Mutex mutex_;
  absl::Status status_ ABSL_GUARDED_BY(mutex_);
  GivenUpCompactions given_up_;
  std::atomic<bool> gave_up_ = false;
  std::atomic<bool> met_damage_ = false;
};

}  // namespace ckptdb::internal

#endif  // CKPTDB_DB_ROCKS_DATABASE_LISTENER_H_
