// SPDX-License-Identifier: Apache-2.0
#include "bench/soak/session.h"

#include <poll.h>

#include <future>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "bench/soak/draw.h"
#include "bench/soak/rank_model.h"
#include "manager/checkpoint_manager.h"
#include "schema/status.h"

namespace ckptdb::soak {
namespace {

constexpr int64_t kPermanentSteps = 5;  // each is permanent, others ephemeral
constexpr int64_t kKeptLatest = 4;
constexpr int64_t kKeptBest = 2;
constexpr int64_t kKeptEphemeral = 2;
constexpr uint64_t kMaxDeltas = 20;
constexpr uint64_t kEvaluatedSteps = 16;  // one step in so many is evaluated
constexpr uint64_t kEvaluatedBatches = 2;
constexpr uint64_t kFoldedSteps = 60;

// The part of a session that is the same on all ranks.
struct Plan {
  uint32_t world_size = 2;
  uint64_t steps = 0;
  bool async = true;
  bool background_fold = false;
  uint64_t reserve_bytes = 0;
  int step_ms = 0;  // that the training of a step takes, beside its save
};

Plan MakePlan(const SessionOptions& options) {
  const auto draw = [&](DrawKind kind) {
    return Draw(options.seed, kind, options.number);
  };
  constexpr uint64_t kLeastSteps = 10;
  constexpr uint64_t kDoublings = 7;
  Plan plan;
  plan.world_size = static_cast<uint32_t>(2 + draw(DrawKind::kWorld) % 3);
  plan.steps = DrawSpan(draw(DrawKind::kSteps), kLeastSteps, kDoublings);
  if (options.steady) plan.steps = UINT64_MAX;
  plan.async = draw(DrawKind::kAsync) % 4 != 0;
  plan.background_fold = draw(DrawKind::kBackgroundFold) % 2 == 0;
  constexpr int kSlowStepMs = 20;
  if (draw(DrawKind::kPace) % 4 == 0) plan.step_ms = kSlowStepMs;
  plan.reserve_bytes = (draw(DrawKind::kReserve) % 3) << 20;
  return plan;
}

absl::StatusOr<ManagerOptions> MakeManagerOptions(const SessionOptions& session,
                                                  const Plan& plan) {
  ManagerOptions options;
  options.path = session.store;
  options.store.background_fold = plan.background_fold;
  options.store.reserve_bytes = plan.reserve_bytes;
  options.store.fold_bounds.max_deltas = kMaxDeltas / 2;
  options.save.stage.threads = 2;
  options.schedule.permanent = SaveEveryNSteps(kPermanentSteps);
  options.schedule.ephemeral = SaveEveryNSteps(1);
  options.retention.keep = LatestN(kKeptLatest) | BestN(kMetric, kKeptBest);
  options.retention.keep_ephemeral = kKeptEphemeral;
  options.save.bounds.max_deltas = kMaxDeltas;
  options.save.async = plan.async;
  // Reports each failure to the driver, which knows whether it is expected.
  options.save.tolerated_failures = INT64_MAX;
  options.observers.on_warning = [](const std::string&) {};
  options.restore.io_state_resize =
      ManagerOptions::IoStateResize::kRedistribute;
  options.ranks.deadline = absl::Minutes(5);
  return options;
}

bool IsOutOfRoom(const absl::Status& status) {
  return absl::IsResourceExhausted(status);
}

// One rank of a session.
class RankSession {
 public:
  RankSession(const SessionOptions& options, const Plan& plan, uint32_t rank)
      : options_(options),
        plan_(plan),
        rank_(rank),
        content_(options.seed),
        model_(content_, rank, plan.world_size) {}

  absl::Status Run(std::unique_ptr<Coordinator> ranks);

 private:
  absl::Status Open(std::unique_ptr<Coordinator> ranks);
  absl::Status Restore();
  absl::Status TrainAndSave();
  absl::Status SaveStep();
  absl::Status Evaluate();
  void StartFold();
  void FinishFold();
  // Goes on after what failed for room; returns any other error.
  absl::Status TellFailure(const absl::Status& status, int64_t began_micros);
  void Tell(const Event& event) const;
  bool IsDue(DrawKind kind, uint64_t one_in) const {
    return Draw(options_.seed, kind, options_.number,
                static_cast<uint64_t>(step_)) %
               one_in ==
           0;
  }

  const SessionOptions& options_;
  const Plan& plan_;
  const uint32_t rank_;
  const Content content_;
  RankModel model_;
  Text loader_;
  Text meters_;
  int64_t step_ = 0;
  std::mutex mutex_;
  SaveReport report_;  // of the last save; under mutex_
  std::unique_ptr<CheckpointManager> manager_;
  std::future<void> fold_;
};

void RankSession::Tell(const Event& event) const {
  if (rank_ == kOwnerRank) options_.tell(event);
}

absl::Status RankSession::TellFailure(const absl::Status& status,
                                      int64_t began_micros) {
  if (status.ok()) return status;
  Tell({.kind = Event::Kind::kFailed,
        .step = step_,
        .began_micros = began_micros,
        .text = status.ToString()});
  return IsOutOfRoom(status) ? absl::OkStatus() : status;
}

absl::Status RankSession::Open(std::unique_ptr<Coordinator> ranks) {
  CKPTDB_RETURN_IF_ERROR(model_.Register());
  CKPTDB_ASSIGN_OR_RETURN(ManagerOptions options,
                          MakeManagerOptions(options_, plan_));
  options.observers.on_saved = [this](const SaveReport& report) {
    const std::lock_guard<std::mutex> lock(mutex_);
    report_ = report;
  };
  CKPTDB_ASSIGN_OR_RETURN(
      manager_,
      CheckpointManager::Open(options, model_.state(), std::move(ranks)));
  return manager_->evaluation()->AddGroup(kMeters, &meters_);
}

absl::Status RankSession::Restore() {
  CKPTDB_ASSIGN_OR_RETURN(const auto start, manager_->RestoreOrStart());
  if (start.fresh()) {
    Tell({.kind = Event::Kind::kOpened});
    return absl::OkStatus();
  }
  const RestoreReport& restored = *start.restored;
  step_ = restored.version.step;
  const bool resized = restored.record.world_size != plan_.world_size;
  CKPTDB_RETURN_IF_ERROR(model_.Check(step_, resized));
  if (rank_ != kOwnerRank) return absl::OkStatus();
  Event event = {.kind = Event::Kind::kOpened, .step = step_};
  for (const StepRecord& record : manager_->store()->Steps()) {
    event.steps.push_back(record.version.step);
  }
  Tell(event);
  return absl::OkStatus();
}

absl::Status RankSession::SaveStep() {
  const int64_t began = SteadyMicros();
  Tell({.kind = Event::Kind::kBegan, .step = step_, .began_micros = began});
  const auto outcome =
      manager_->StepTo(step_, {{kMetric, content_.Metric(step_)}});
  // The copied state may change while it is saved.
  model_.Train(step_ + 1);
  poll(nullptr, 0, plan_.step_ms);
  CKPTDB_RETURN_IF_ERROR(TellFailure(outcome.status(), began));
  if (!outcome.ok()) return absl::OkStatus();
  if (!outcome->save.has_value()) {
    return absl::InternalError(absl::StrCat(
        "step ", step_, " is not saved: ", outcome->decision.reason));
  }
  const auto saved = outcome->save->WaitCommitted();
  CKPTDB_RETURN_IF_ERROR(manager_->WaitUntilFinished());
  CKPTDB_RETURN_IF_ERROR(TellFailure(saved.status(), began));
  if (!saved.ok()) return absl::OkStatus();
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    Tell({.kind = Event::Kind::kSaved,
          .step = step_,
          .began_micros = began,
          .steps = report_.retired_steps,
          .text = absl::StrCat(StepKindName(saved->kind), " ",
                               SaveKindName(report_.save_kind))});
  }
  if (IsDue(DrawKind::kFold, kFoldedSteps)) StartFold();
  return IsDue(DrawKind::kEvaluate, kEvaluatedSteps) ? Evaluate()
                                                     : absl::OkStatus();
}

absl::Status RankSession::Evaluate() {
  for (uint64_t batch = 1; batch <= kEvaluatedBatches; ++batch) {
    const int64_t began = SteadyMicros();
    meters_.text = loader_.text = content_.Meters(step_, batch, rank_);
    const absl::Status saved = manager_->evaluation()->Save(
        {step_, kEvaluation, kMeters}, &loader_, batch);
    CKPTDB_RETURN_IF_ERROR(TellFailure(saved, began));
    if (!saved.ok()) return absl::OkStatus();
    Tell({.kind = Event::Kind::kEvaluated, .step = step_, .count = batch});
  }
  return absl::OkStatus();
}

// Folds the step beside the saves that follow it.
void RankSession::StartFold() {
  if (rank_ != kOwnerRank) return;
  FinishFold();
  fold_ = std::async(std::launch::async, [this, step = step_] {
    const int64_t began = SteadyMicros();
    const auto folded = manager_->store()->Fold(step);
    // Retention may take the step meanwhile.
    const bool gone =
        absl::IsNotFound(folded.status()) || absl::IsAborted(folded.status());
    if (gone) return;
    Event event = {.step = step, .began_micros = began};
    if (folded.ok()) {
      event.kind = Event::Kind::kFolded;
      event.count = folded->written_rows;
    } else {
      event.kind = Event::Kind::kFailed;
      event.text = absl::StrCat("fold: ", folded.status().ToString());
    }
    Tell(event);
  });
}

void RankSession::FinishFold() {
  if (fold_.valid()) fold_.wait();
}

absl::Status RankSession::TrainAndSave() {
  model_.Train(step_ + 1);
  for (uint64_t i = 0; i < plan_.steps; ++i) {
    ++step_;
    CKPTDB_RETURN_IF_ERROR(SaveStep());
  }
  return absl::OkStatus();
}

absl::Status RankSession::Run(std::unique_ptr<Coordinator> ranks) {
  CKPTDB_RETURN_IF_ERROR(Open(std::move(ranks)));
  absl::Status status = Restore();
  if (status.ok()) status = TrainAndSave();
  FinishFold();
  status.Update(manager_->Close());
  return status;
}

}  // namespace

absl::Status RunSession(const SessionOptions& options) {
  const Plan plan = MakePlan(options);
  ThreadGroup group(plan.world_size);
  std::vector<absl::Status> statuses(plan.world_size);
  std::vector<std::thread> threads;
  for (uint32_t rank = 0; rank < plan.world_size; ++rank) {
    threads.emplace_back([&, rank] {
      RankSession session(options, plan, rank);
      statuses[rank] = session.Run(group.Join(rank));
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const absl::Status& status : statuses) {
    CKPTDB_RETURN_IF_ERROR(status);
  }
  return absl::OkStatus();
}

}  // namespace ckptdb::soak
