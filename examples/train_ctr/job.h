// SPDX-License-Identifier: Apache-2.0
// One run of the trainer: resume, train, save, evaluate, report.
#ifndef CKPTDB_EXAMPLES_TRAIN_CTR_JOB_H_
#define CKPTDB_EXAMPLES_TRAIN_CTR_JOB_H_

#include <atomic>
#include <nlohmann/json.hpp>

#include "absl/status/statusor.h"
#include "ranks/ranks.h"
#include "train_ctr/options.h"

namespace train_ctr {

// Trains, by options that were checked, up to options.steps and saves every
// save_every steps and the last one. A store that has steps is refused without
// options.resume or options.resume_step. Once `stopped` is true on any rank,
// the training ends after the step that it is at, which is saved. Rank 0 writes
// progress to stderr. All ranks get the report, but for `saves`, which rank 0
// has.
absl::StatusOr<nlohmann::ordered_json> RunJob(const Options& options,
                                              examples::Ranks* own,
                                              const std::atomic<bool>* stopped);

}  // namespace train_ctr

#endif  // CKPTDB_EXAMPLES_TRAIN_CTR_JOB_H_
