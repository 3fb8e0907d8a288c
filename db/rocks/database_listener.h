// What RocksDB tells of its background work; internal to db/.
#ifndef CKPTDB_DB_ROCKS_DATABASE_LISTENER_H_
#define CKPTDB_DB_ROCKS_DATABASE_LISTENER_H_

#include <rocksdb/listener.h>

#include <atomic>
#include <mutex>
#include <set>
#include <thread>

#include "absl/status/status.h"
#include "ckptdb/db/disk/rocks_status.h"
#include "ckptdb/db/rocks/rocks_options.h"

namespace ckptdb::internal {

// Keeps the first error after which the database must not be used. Damage that
// a compaction of data meets is none, nor is a disk that is too full for it:
// the compaction is given up, and all is as it was.
class DatabaseListener : public rocksdb::EventListener {
 public:
  // Comes before OnBackgroundError, on the same thread.
  void OnCompactionCompleted(rocksdb::DB*,
                             const rocksdb::CompactionJobInfo& job) override {
    const std::lock_guard<std::mutex> lock(mutex_);
    const bool damage = HoldsData(job.cf_name) && IsDamage(job.status);
    if (damage || job.status.IsNoSpace()) {
      if (damage) met_damage_ = true;
      given_up_.insert(std::this_thread::get_id());
    } else {
      given_up_.erase(std::this_thread::get_id());
    }
  }
  void OnBackgroundError(rocksdb::BackgroundErrorReason reason,
                         rocksdb::Status* status) override {
    if (reason == rocksdb::BackgroundErrorReason::kCompaction && GaveUp()) {
      *status = rocksdb::Status::OK();
      return;
    }
    Fail(FromRocks(*status, "background work"));
  }
  // A database that has failed is not written to again, by RocksDB neither.
  void OnErrorRecoveryBegin(rocksdb::BackgroundErrorReason, rocksdb::Status,
                            bool* auto_recovery) override {
    *auto_recovery = false;
  }
  void Fail(const absl::Status& status) {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (status_.ok()) status_ = status;
  }
  absl::Status status() const {
    const std::lock_guard<std::mutex> lock(mutex_);
    return status_;
  }
  // Whether a compaction was given up since the last call.
  bool TakeGivenUp() { return gave_up_.exchange(false); }
  bool met_damage() const { return met_damage_; }

 private:
  bool GaveUp() {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (given_up_.erase(std::this_thread::get_id()) == 0) return false;
    gave_up_ = true;
    return true;
  }

  mutable std::mutex mutex_;
  absl::Status status_;
  std::set<std::thread::id> given_up_;
  std::atomic<bool> gave_up_ = false;
  std::atomic<bool> met_damage_ = false;
};

}  // namespace ckptdb::internal

#endif  // CKPTDB_DB_ROCKS_DATABASE_LISTENER_H_
