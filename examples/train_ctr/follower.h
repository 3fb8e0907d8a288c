// SPDX-License-Identifier: Apache-2.0
// Follows the store of a running trainer from another process: keeps a Replica
// at the newest step, by the changes since the previous one if the store has
// them, and otherwise by a full restore.
//
//   Follower follower("checkpoints", {.until_step = 1000});
//   CKPTDB_ASSIGN_OR_RETURN(const FollowReport report, follower.Run());
#ifndef CKPTDB_EXAMPLES_TRAIN_CTR_FOLLOWER_H_
#define CKPTDB_EXAMPLES_TRAIN_CTR_FOLLOWER_H_

#include <ckptdb/db/reader.h>

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "train_ctr/replica.h"

namespace train_ctr {

struct FollowOptions {
  // Ends the follower once the replica is at this step or a later one. Default:
  // only Stop ends it.
  std::optional<int64_t> until_step;
  // The time to wait before it looks for a newer step again. A shorter one
  // follows sooner and reads the disk more often. Default: 100 ms.
  int64_t poll_ms = 100;
};

// The replica was brought from one step to another.
struct FollowedStep {
  std::optional<int64_t> from;  // unset: from an empty replica
  int64_t to = 0;
  bool incremental = false;
  std::string whole_reason;  // why not by changes
  ReplicaChange change;
  double ms = 0;
};

struct FollowReport {
  std::optional<int64_t> step;
  std::string digest;
  size_t rows = 0;
  std::vector<FollowedStep> restores;
};

class Follower {
 public:
  Follower(std::string store, const FollowOptions& options)
      : store_(std::move(store)), options_(options) {}

  // Waits for the store, its first step, and each one after it. Writes progress
  // to stderr. It is called once.
  absl::StatusOr<FollowReport> Run();

  // Makes Run return soon with what it has. Any thread may call it.
  void Stop();

 private:
  bool Done() const;
  void WaitForPoll();
  absl::StatusOr<bool> Refresh();
  absl::Status CatchUp();
  absl::StatusOr<FollowedStep> Reach(const ckptdb::StepRecord& latest);
  absl::StatusOr<FollowedStep> ReachByChanges(const ckptdb::StepRecord& latest);
  absl::StatusOr<FollowedStep> ReachWhole(const ckptdb::StepRecord& latest,
                                          std::string reason);

  const std::string store_;
  const FollowOptions options_;
  bool waiting_ = false;  // for the store, and has logged it
  std::unique_ptr<ckptdb::Reader> reader_;
  Replica replica_;
  std::optional<ckptdb::Version> held_;  // the replica's
  std::vector<FollowedStep> restores_;

  mutable std::mutex mutex_;
  std::condition_variable wakes_;
  bool stopped_ = false;  // guarded by mutex_
};

}  // namespace train_ctr

#endif  // CKPTDB_EXAMPLES_TRAIN_CTR_FOLLOWER_H_
