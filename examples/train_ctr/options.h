// SPDX-License-Identifier: Apache-2.0
// The command line of train_ctr.
#ifndef CKPTDB_EXAMPLES_TRAIN_CTR_OPTIONS_H_
#define CKPTDB_EXAMPLES_TRAIN_CTR_OPTIONS_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "train_ctr/checkpoint.h"
#include "train_ctr/follower.h"
#include "train_ctr/log.h"
#include "train_ctr/trainer.h"

namespace CLI {
class App;
}

namespace train_ctr {

struct Options {
  int64_t steps = 0;
  bool resume = false;
  std::optional<int64_t> resume_step;  // none: the newest
  std::string crash_at;                // as ParseCrashAt takes it; empty: never
  uint32_t crash_rank = 0;
  double deadline_seconds = 300;  // that ranks wait for one another
  int64_t eval_every = 0;
  std::string json;  // empty: none
  std::string data;  // empty: the generated log
  std::string format;
  size_t shuffle_examples = 1024;
  CheckpointOptions checkpoint;
  TrainerOptions trainer;
  GeneratedLogOptions generated;

  // Follows a trainer instead of being one.
  bool follow = false;
  FollowOptions follow_options;
};

// Adds every flag to `app`; they are stored in `options` when it parses.
void AddOptions(CLI::App* app, Options* options);

// Checks what flags on their own do not check.
absl::Status CheckOptions(const Options& options);

// The log the options ask for.
absl::StatusOr<std::unique_ptr<Log>> OpenLog(const Options& options);

}  // namespace train_ctr

#endif  // CKPTDB_EXAMPLES_TRAIN_CTR_OPTIONS_H_
