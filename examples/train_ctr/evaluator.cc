// SPDX-License-Identifier: Apache-2.0
#include "train_ctr/evaluator.h"

#include <ckptdb/schema/status.h>
#include <ckptdb/schema/types.h>

#include <utility>

#include "absl/strings/str_cat.h"
#include "train_ctr/bytes.h"

namespace train_ctr {
namespace {

constexpr char kGroup[] = "clicks";
constexpr char kEvaluation[] = "held_out";

}  // namespace

absl::StatusOr<std::string> Evaluator::Loader::Dump() {
  ByteWriter bytes;
  bytes.Put(progress_->position.offset);
  bytes.Put(progress_->position.line);
  return bytes.Take();
}

absl::Status Evaluator::Loader::Load(absl::string_view bytes) {
  ByteReader reader(bytes);
  progress_->position.offset = reader.Get<uint64_t>();
  progress_->position.line = reader.Get<uint64_t>();
  if (reader.complete()) return absl::OkStatus();
  return absl::DataLossError(
      absl::StrCat("a place in the log has ", bytes.size(), " bytes"));
}

absl::StatusOr<std::string> Evaluator::Meters::Save() {
  return progress_->metrics.Save();
}

absl::Status Evaluator::Meters::Load(absl::string_view bytes) {
  if (progress_->metrics.Load(bytes)) return absl::OkStatus();
  return absl::DataLossError(
      absl::StrCat("metrics of ", bytes.size(), " bytes are cut off"));
}

absl::StatusOr<std::unique_ptr<Evaluator>> Evaluator::Create(
    Trainer* trainer, ckptdb::EvaluationState* state, int64_t save_every,
    std::shared_ptr<CrashDrill> crash_drill) {
  std::unique_ptr<Evaluator> evaluator(
      new Evaluator(trainer, state, save_every, std::move(crash_drill)));
  CKPTDB_RETURN_IF_ERROR(state->AddGroup(kGroup, &evaluator->meters_));
  return evaluator;
}

absl::StatusOr<Evaluation> Evaluator::Run() {
  const ckptdb::EvaluationState::Name name = {trainer_->step(), kEvaluation,
                                              kGroup};
  progress_ = trainer_->BeginEvaluation();
  absl::StatusOr<uint64_t> done = state_->Load(name, &loader_);
  // It was begun by another number of ranks.
  if (absl::IsFailedPrecondition(done.status())) {
    CKPTDB_RETURN_IF_ERROR(state_->Cleanup(name.step));
    done = 0;
  }
  CKPTDB_RETURN_IF_ERROR(done.status());
  for (int64_t batches = 1;; ++batches) {
    CKPTDB_ASSIGN_OR_RETURN(const bool more,
                            trainer_->EvaluateBatch(&progress_));
    if (!more) break;
    if (save_every_ > 0 && batches % save_every_ == 0) {
      CKPTDB_RETURN_IF_ERROR(Keep(name));
    }
  }
  CKPTDB_RETURN_IF_ERROR(state_->Cleanup(name.step));
  Evaluation evaluation = progress_.metrics.Result();
  evaluation.resumed_after = *done;
  return evaluation;
}

absl::Status Evaluator::Keep(const ckptdb::EvaluationState::Name& name) {
  // A long tail is resumed after a crash from the last progress that fitted.
  CKPTDB_ASSIGN_OR_RETURN(const std::string place, loader_.Dump());
  CKPTDB_ASSIGN_OR_RETURN(const std::string meters, meters_.Save());
  if (place.size() + meters.size() > ckptdb::kMaxEvaluationBytes) {
    return absl::OkStatus();
  }
  CKPTDB_RETURN_IF_ERROR(
      state_->Save(name, &loader_, progress_.metrics.examples()));
  crash_drill_->Evaluating(name.step);
  return absl::OkStatus();
}

}  // namespace train_ctr
