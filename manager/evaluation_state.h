// EvaluationState stores the progress of an evaluation of a step, so that the
// evaluation can be resumed after a crash.
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
// loader, and what fails on one fails on all. The states of all ranks are in
// one write batch, durable when Save returns. They are removed with their step,
// when it is retired, deleted or written over.
//
// A manager that is read-only loads what its trainer has saved; calls that
// would write return FailedPrecondition there.
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
#include "ckptdb/db/reader.h"
#include "ckptdb/db/store.h"
#include "ckptdb/manager/coordinator.h"
#include "ckptdb/manager/model_state.h"
#include "ckptdb/schema/types.h"

namespace ckptdb {

class EvaluationState {
 public:
  struct Name {
    int64_t step = 0;        // a committed one
    std::string evaluation;  // of the task or the set of examples
    std::string group;       // of metrics: one that was added
  };

  // The store in which evaluations are kept: `store` is set on the owner's rank
  // alone, `reader` on all ranks of a manager that is read-only.
  struct Place {
    std::string path;
    Store* store = nullptr;
    Reader* reader = nullptr;
  };

  // CheckpointManager::evaluation() returns one. What the arguments point to
  // outlives it.
  EvaluationState(Place store, Coordinator* ranks, absl::Duration deadline);

  // Adds the meters of a group of metrics, which stay where they are. Returns
  // AlreadyExists for a group that was added before and InvalidArgument for a
  // name that cannot be stored.
  absl::Status AddGroup(const std::string& group, ModelState::Object* meters);

  // Saves the progress, and replaces what was saved of this evaluation before.
  // Returns NotFound for an unknown step or group, and InvalidArgument if the
  // meters and the loader of a rank have more than kMaxEvaluationBytes
  // together.
  absl::Status Save(const Name& name, IoState* loader, uint64_t processed);

  // Loads the meters, then the loader, and returns `processed` as it was saved.
  // Returns 0 and loads nothing if none was saved. Returns FailedPrecondition,
  // with what was expected and what is there, if it was saved of another group
  // or by another number of ranks, and NotFound for an unknown step or group.
  // After another error meters and loader must not be used.
  absl::StatusOr<uint64_t> Load(const Name& name, IoState* loader);

  // Remove the evaluations of one step, or of all steps but one. It is no error
  // if there are none.
  absl::Status Cleanup(int64_t step);
  absl::Status CleanupAll(std::optional<int64_t> except = std::nullopt);

  // Releases the store: from then on calls that need it return
  // FailedPrecondition. CheckpointManager::Close calls it.
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

  Place store_;
  bool closed_ = false;
  Coordinator* const ranks_;
  const absl::Duration deadline_;
  std::map<std::string, ModelState::Object*> groups_;
};

}  // namespace ckptdb

#endif  // CKPTDB_MANAGER_EVALUATION_STATE_H_
