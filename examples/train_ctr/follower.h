// SPDX-License-Identifier: Apache-2.0
// Follows the store of a running trainer from another process, such as a warm
// standby or a server of predictions: a read-only manager keeps a Replica at
// the newest step, by the changes since the previous one if the store has them,
// and otherwise by a full restore.
#ifndef CKPTDB_EXAMPLES_TRAIN_CTR_FOLLOWER_H_
#define CKPTDB_EXAMPLES_TRAIN_CTR_FOLLOWER_H_

#include <ckptdb/manager/checkpoint_manager.h>

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "train_ctr/model.h"
#include "train_ctr/rows.h"

namespace train_ctr {

// A copy of a trainer's state. It has what a step of a store has, and so needs
// neither the trainer's options nor its log.
class Replica {
 public:
  // Makes room for the state of such a step. Returns DataLoss if the step is
  // not one that a trainer saves.
  static absl::StatusOr<std::unique_ptr<Replica>> Make(
      const ckptdb::StepReader& step);

  // The state, to be restored by a manager.
  ckptdb::ModelState* model() { return &model_; }
  StateView view() const;

 private:
  struct Bytes : ckptdb::BlobState {
    absl::StatusOr<std::string> Dump() override { return bytes; }
    absl::Status Load(absl::string_view loaded) override;
    std::string bytes;
  };

  absl::Status Add(const ckptdb::StepReader& step, const ckptdb::Item& item);

  std::map<std::string, EmbeddingTable> tables_;
  std::map<std::string, std::string> tensors_;
  Bytes progress_;
  ckptdb::ModelState model_;
};

struct FollowOptions {
  // Ends the follower once the replica is at this step or a later one. Default:
  // only Stop ends it.
  std::optional<int64_t> until_step;
  // The time to wait before it looks for a newer step again. A shorter one
  // follows sooner and reads the disk more often. Default: 100 ms.
  int64_t poll_ms = 100;
};

class Follower {
 public:
  Follower(std::string store, const FollowOptions& options)
      : store_(std::move(store)), options_(options) {}

  // Waits for the store, its first step, and each one after it. Writes progress
  // to stderr, and returns a report of it. It is called once.
  absl::StatusOr<nlohmann::ordered_json> Run();

  // Makes Run return soon with what it has. Any thread may call it.
  void Stop();

 private:
  bool stopped() const;
  // Opens the replica and its manager. Returns false if there is no step yet.
  absl::StatusOr<bool> Open();
  absl::Status Follow();

  const std::string store_;
  const FollowOptions options_;
  bool waiting_ = false;  // for the store, and has logged it
  std::unique_ptr<Replica> replica_;
  std::optional<int64_t> held_;  // the replica's step
  nlohmann::ordered_json restores_ = nlohmann::ordered_json::array();

  mutable std::mutex mutex_;
  bool stopped_ = false;  // guarded by mutex_, and so is manager_
  std::unique_ptr<ckptdb::CheckpointManager> manager_;
};

}  // namespace train_ctr

#endif  // CKPTDB_EXAMPLES_TRAIN_CTR_FOLLOWER_H_
