// SPDX-License-Identifier: Apache-2.0
// EvaluationState stores the progress of evaluating a step, so that the
// evaluation can resume after a crash.
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
// one write batch, durable when Save returns, and is removed when its step is
// retired, deleted or overwritten. On a read-only manager calls that write
// return FailedPrecondition.
//
// Not thread-safe.
#ifndef CKPTDB_MANAGER_EVALUATION_STATE_H_
#define CKPTDB_MANAGER_EVALUATION_STATE_H_

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "db/reader.h"
#include "db/store.h"
#include "manager/coordinator.h"
#include "manager/model_state.h"
#include "schema/types.h"

namespace ckptdb {

class EvaluationState {
 public:
  struct Name {
    int64_t step = 0;        // a committed step
    std::string evaluation;  // the task or data set
    std::string group;       // a metrics group added with AddGroup
  };

  // For the library; CheckpointManager::evaluation() returns one. `store` is
  // set on the owner, `reader` on all ranks of a read-only manager. All
  // arguments outlive it.
  EvaluationState(std::string path, Store* store, Reader* reader,
                  Coordinator* ranks, absl::Duration deadline);

  // Adds the meters of a group of metrics, which stay in place. Returns
  // AlreadyExists for a known group, and InvalidArgument for a name that cannot
  // be stored.
  absl::Status AddGroup(const std::string& group, ModelState::Object* meters);

  // Saves the progress, replacing that of an earlier call. Returns NotFound for
  // an unknown step or group, and InvalidArgument if a rank's meters and loader
  // together exceed kMaxEvaluationBytes.
  absl::Status Save(const Name& name, IoState* loader, uint64_t processed);

  // Loads the meters, then the loader, and returns the saved `processed`, or 0,
  // loading nothing, if nothing was saved. Returns FailedPrecondition with both
  // values if another group or number of ranks saved it, and NotFound for an
  // unknown step or group. After other errors meters and loader are unusable.
  absl::StatusOr<uint64_t> Load(const Name& name, IoState* loader);

  // Remove the evaluations, if any, of one step, or of all steps but one.
  absl::Status Cleanup(int64_t step);
  absl::Status CleanupAll(std::optional<int64_t> except = std::nullopt);

  // Releases the store; calls that need it then return FailedPrecondition.
  // CheckpointManager::Close calls it.
  void Close();

 private:
  absl::StatusOr<ModelState::Object*> FindGroup(const std::string& group) const;
  absl::StatusOr<StepRecord::Evaluation::Part> Dump(const Name& name,
                                                    IoState* loader,
                                                    uint64_t processed);
  absl::Status SaveParts(const Name& name,
                         const absl::StatusOr<std::vector<std::string>>& parts);
  absl::StatusOr<std::optional<StepRecord::Evaluation>> Find(
      const Name& name, uint32_t rank) const;
  absl::StatusOr<std::vector<StepRecord::Evaluation::Part>> FindParts(
      const Name& name) const;
  absl::Status CheckFound(const Name& name,
                          const StepRecord::Evaluation& found) const;
  absl::Status Remove(absl::string_view tag, const std::vector<int64_t>& steps);
  absl::Status CheckOpen() const;
  absl::Status CheckWritable() const;

  const std::string path_;
  Store* store_;
  Reader* reader_;
  bool closed_ = false;
  Coordinator* const ranks_;
  const absl::Duration deadline_;
  std::map<std::string, ModelState::Object*> groups_;
};

}  // namespace ckptdb

#endif  // CKPTDB_MANAGER_EVALUATION_STATE_H_
