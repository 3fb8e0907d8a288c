// SPDX-License-Identifier: Apache-2.0
// EvaluationState, from CheckpointManager::evaluation(), stores the progress of
// evaluating a step, so that it can resume after a crash.
//
//   EvaluationState& evaluation = *manager->evaluation();
//   CKPTDB_RETURN_IF_ERROR(evaluation.AddGroup("eval/ctr", &meters));
//   const EvaluationState::Name name = {
//       .step = manager->global_step(), .evaluation = "day_7",
//       .group = "eval/ctr"};
//   CKPTDB_ASSIGN_OR_RETURN(uint64_t done, evaluation.Load(name, &loader));
//   for (; done < batches; ++done) {
//     if (done % 1000 == 0) {
//       CKPTDB_RETURN_IF_ERROR(evaluation.Save(name, &loader, done));
//     }
//     evaluate();
//   }
//   CKPTDB_RETURN_IF_ERROR(evaluation.Cleanup(name.step));
//
// All ranks make the same calls in the same order, each with its own meters and
// loader; a call that fails on one rank fails on all. The state of all ranks is
// one write batch, durable when Save returns, and is removed with its step. On
// a read-only manager calls that write return FailedPrecondition. Not
// thread-safe.
#ifndef CKPTDB_MANAGER_EVALUATION_STATE_H_
#define CKPTDB_MANAGER_EVALUATION_STATE_H_

#include <cstdint>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "manager/model_state.h"

namespace ckptdb {

class EvaluationState {
 public:
  struct Name {
    int64_t step = 0;        // a committed step
    std::string evaluation;  // the task or data set
    std::string group;       // a metrics group added with AddGroup
  };

  virtual ~EvaluationState() = default;

  // Adds the meters of a group of metrics, which stay in place. Returns
  // AlreadyExists for a known group, and InvalidArgument for a name that cannot
  // be stored.
  virtual absl::Status AddGroup(const std::string& group,
                                BlobState* meters) = 0;

  // Replaces the progress of an earlier call. Returns NotFound for an unknown
  // step or group, and InvalidArgument if a rank's meters and loader exceed
  // kMaxEvaluationBytes.
  virtual absl::Status Save(const Name& name, BlobState* loader,
                            uint64_t processed) = 0;

  // Loads the meters, then the loader, and returns the saved `processed`, or 0
  // if nothing was saved. Returns FailedPrecondition if another group or number
  // of ranks saved it, and NotFound for an unknown step or group. After other
  // errors meters and loader are unusable.
  virtual absl::StatusOr<uint64_t> Load(const Name& name,
                                        BlobState* loader) = 0;

  // Remove the evaluations, if any, of one step, or of all steps but one.
  virtual absl::Status Cleanup(int64_t step) = 0;
  virtual absl::Status CleanupAll(std::optional<int64_t> except) = 0;
  absl::Status CleanupAll() { return CleanupAll(std::nullopt); }
};

}  // namespace ckptdb

#endif  // CKPTDB_MANAGER_EVALUATION_STATE_H_
