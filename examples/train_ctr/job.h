// SPDX-License-Identifier: Apache-2.0
// One run of the trainer: resume, train, save, evaluate, report.
#ifndef CKPTDB_EXAMPLES_TRAIN_CTR_JOB_H_
#define CKPTDB_EXAMPLES_TRAIN_CTR_JOB_H_

#include <atomic>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "ranks/ranks.h"
#include "train_ctr/checkpoint.h"
#include "train_ctr/options.h"
#include "train_ctr/trainer.h"

namespace train_ctr {

struct JobReport {
  int64_t step = 0;
  std::optional<int64_t> resumed_from;
  bool preempted = false;  // ended by a signal, before the last step
  Evaluation evaluation;
  std::string digest;
  uint64_t rows = 0;  // of all ranks
  uint64_t epoch = 0;
  std::vector<SaveReport> saves;
};

// Trains, by options that were checked, up to options.steps and saves every
// options.save_every steps and the last one. A store that has steps is refused
// without options.resume or options.resume_step. Once `stopped` is true on any
// rank, the training ends after the step that it is at, which is saved. Rank 0
// writes progress to stderr. All ranks get the report, but for `saves`, which
// rank 0 has.
absl::StatusOr<JobReport> RunJob(const Options& options, examples::Ranks* own,
                                 const std::atomic<bool>* stopped);

}  // namespace train_ctr

#endif  // CKPTDB_EXAMPLES_TRAIN_CTR_JOB_H_
