// One run of the trainer: resume, train, save, evaluate, report.
#ifndef CKPTDB_EXAMPLES_TRAIN_CTR_JOB_H_
#define CKPTDB_EXAMPLES_TRAIN_CTR_JOB_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
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
  size_t rows = 0;
  uint64_t epoch = 0;
  std::vector<SaveReport> saves;
};

// Trains up to options.steps and saves every options.save_every steps and the
// last one. A store that has steps is refused without options.resume or
// options.resume_step. SIGINT and SIGTERM end the training after the step that
// it is at, which is saved. Writes progress to stderr.
absl::StatusOr<JobReport> RunJob(const Options& options);

}  // namespace train_ctr

#endif  // CKPTDB_EXAMPLES_TRAIN_CTR_JOB_H_
