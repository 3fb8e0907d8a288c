// SPDX-License-Identifier: Apache-2.0
#include "bench/soak/writer.h"

#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <future>
#include <memory>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "bench/soak/content.h"
#include "bench/soak/event.h"
#include "manager/checkpoint_manager.h"
#include "manager/model_state.h"
#include "schema/status.h"
#include "schema/types.h"

namespace ckptdb::soak {
namespace {

constexpr uint64_t kMaxDeltas = 20;
constexpr uint64_t kFoldedSteps = 60;  // one step in so many is folded

// Each line is one write: a process that is killed has written all of it or
// nothing.
void Tell(const Event& event) {
  static std::mutex mutex;
  const std::lock_guard<std::mutex> lock(mutex);
  const std::string line = EncodeEvent(event);
  if (write(STDOUT_FILENO, line.data(), line.size()) !=
      static_cast<ssize_t>(line.size())) {
    _exit(1);  // the driver is gone
  }
}

SliceRange OwnSlices(uint32_t rank, uint32_t world_size) {
  const std::vector<uint32_t> bounds = EvenSliceBounds(world_size);
  return {bounds[rank], bounds[rank + 1]};
}

int64_t FirstElement(uint32_t rank, uint32_t world_size) {
  return kDenseElements * rank / world_size;
}

// The model that one rank trains: its share of each step's content.
class RankModel {
 public:
  RankModel(const Content& content, uint32_t rank, uint32_t world_size);

  // Registers all of it, to be saved and restored. It is called once.
  absl::Status Register();
  ModelState* state() { return &state_; }

  // Goes from `step - 1` to `step`.
  void Train(int64_t step);
  // Returns DataLoss if it is not this rank's part of a step. `resized`: the
  // step was saved by a world of another size.
  absl::Status Check(int64_t step, bool resized) const;

 private:
  // The position follows from the step, so the parts of another world size are
  // not needed.
  class Position : public BlobState {
   public:
    std::string text;
    absl::StatusOr<std::string> Dump() override { return text; }
    absl::Status Load(absl::string_view bytes) override;
    absl::Status Redistribute(absl::Span<const std::string> parts) override;
  };

  bool Owns(int64_t id) const {
    return own_.Contains(SliceOf(id, SliceHash::kMix));
  }
  void SetTensors(int64_t step);

  const Content content_;
  const uint32_t rank_;
  const SliceRange own_;
  const int64_t first_;  // of kDenseTensor
  Rows rows_;
  RowTable table_{&rows_};
  std::vector<float> dense_;
  std::vector<int64_t> frozen_;
  int64_t frozen_change_ = -1;  // that frozen_ was trained to
  Position reader_;
  ModelState state_;
};

absl::Status RankModel::Position::Load(absl::string_view bytes) {
  text = std::string(bytes);
  return absl::OkStatus();
}

absl::Status RankModel::Position::Redistribute(
    absl::Span<const std::string> /*parts*/) {
  return absl::OkStatus();
}

RankModel::RankModel(const Content& content, uint32_t rank, uint32_t world_size)
    : content_(content),
      rank_(rank),
      own_(OwnSlices(rank, world_size)),
      first_(FirstElement(rank, world_size)),
      rows_(content.RowsAt(0)),
      dense_(static_cast<size_t>(FirstElement(rank + 1, world_size) - first_)),
      frozen_(kFrozenElements) {
  std::erase_if(rows_, [&](const auto& row) { return !Owns(row.first); });
  SetTensors(0);
}

absl::Status RankModel::Register() {
  TensorState dense =
      TensorState::Of(dense_.data(), {static_cast<int64_t>(dense_.size())});
  dense.global_shape = {kDenseElements};
  dense.offset = {first_};
  CKPTDB_RETURN_IF_ERROR(state_.AddTensor(kDenseTensor, std::move(dense)));
  CKPTDB_RETURN_IF_ERROR(state_.AddTensor(
      kFrozenTensor, TensorState::Of(frozen_.data(), {kFrozenElements})));
  CKPTDB_RETURN_IF_ERROR(
      state_.AddTable(kTable, &table_, TableSharding::BySlices()));
  return state_.AddIoState(kReader, &reader_);
}

void RankModel::SetTensors(int64_t step) {
  const std::vector<float> dense = content_.Dense(step);
  std::copy_n(dense.begin() + first_, dense_.size(), dense_.begin());
  if (frozen_change_ != step / kFrozenSteps) {
    frozen_change_ = step / kFrozenSteps;
    const std::vector<int64_t> frozen = content_.Frozen(step);
    std::copy(frozen.begin(), frozen.end(), frozen_.begin());
  }
  reader_.text = content_.Position(step, rank_);
}

void RankModel::Train(int64_t step) {
  const RowChange change = content_.ChangesOf(step);
  for (const int64_t id : change.erased) {
    if (rows_.erase(id) > 0) table_.MarkErased({id});
  }
  for (const auto& [id, row] : change.upserted) {
    if (!Owns(id)) continue;
    rows_[id] = row;
    table_.MarkUpserted({id});
  }
  SetTensors(step);
}

absl::Status RankModel::Check(int64_t step, bool resized) const {
  const std::string where =
      absl::StrCat("step ", step, " restored by rank ", rank_);
  Rows expected = content_.RowsAt(step);
  std::erase_if(expected, [&](const auto& row) { return !Owns(row.first); });
  CKPTDB_RETURN_IF_ERROR(CompareRows(rows_, expected, where));
  const std::vector<float> dense = content_.Dense(step);
  const bool same =
      std::equal(dense_.begin(), dense_.end(), dense.begin() + first_) &&
      frozen_ == content_.Frozen(step) &&
      (resized || reader_.text == content_.Position(step, rank_));
  if (same) return absl::OkStatus();
  return absl::DataLossError(where + ": tensors or io state are others");
}

// The part of a session that is the same on all ranks.
struct Plan {
  uint64_t seed = 0;    // of the content
  uint64_t number = 0;  // of the session, which its random choices depend on
  uint32_t world_size = 2;
  uint64_t steps = 0;
  int step_ms = 0;  // that the training of a step takes, beside its save
  ManagerOptions manager = {};

  uint64_t Pick(absl::string_view what, uint64_t step = 0) const {
    return Draw(seed, what, number, step);
  }
};

Plan MakePlan(const WriterOptions& writer, uint64_t number) {
  constexpr uint64_t kLeastSteps = 10;
  constexpr uint64_t kDoublings = 7;
  constexpr int kSlowStepMs = 20;
  Plan plan = {.seed = writer.seed, .number = number};
  plan.world_size = static_cast<uint32_t>(2 + plan.Pick("world") % 3);
  plan.steps = writer.steady
                   ? UINT64_MAX
                   : DrawSpan(plan.Pick("steps"), kLeastSteps, kDoublings);
  plan.step_ms = plan.Pick("pace") % 4 == 0 ? kSlowStepMs : 0;
  ManagerOptions& options = plan.manager;
  options.path = writer.store;
  options.store.background_fold = plan.Pick("background fold") % 2 == 0;
  options.store.reserve_bytes = (plan.Pick("reserve") % 3) << 20;
  options.store.fold_bounds.max_deltas = kMaxDeltas / 2;
  options.store.stage_threads = 2;
  options.schedule.permanent = SaveEveryNSteps(5);
  options.schedule.ephemeral = SaveEveryNSteps(1);
  options.retention.keep = LatestN(4) | BestN(kMetric, 2);
  options.retention.keep_ephemeral = 2;
  options.save.bounds.max_deltas = kMaxDeltas;
  options.save.async = plan.Pick("async") % 4 != 0;
  // Reports each failure to the driver, which knows whether it is expected.
  options.save.tolerated_failures = INT64_MAX;
  options.observers.on_warning = [](const std::string&) {};
  options.restore.io_state_resize =
      ManagerOptions::IoStateResize::kRedistribute;
  options.ranks.deadline = absl::Minutes(5);
  return plan;
}

// One rank of one opening of the store.
class RankSession {
 public:
  RankSession(const Plan& plan, uint32_t rank)
      : plan_(plan),
        rank_(rank),
        content_(plan.seed),
        model_(content_, rank, plan.world_size) {}

  absl::Status Run(std::unique_ptr<Coordinator> ranks) {
    CKPTDB_RETURN_IF_ERROR(Open(std::move(ranks)));
    absl::Status status = Restore();
    if (status.ok()) status = TrainAndSave();
    if (fold_.valid()) fold_.wait();
    status.Update(manager_->Close());
    return status;
  }

 private:
  absl::Status Open(std::unique_ptr<Coordinator> ranks);
  absl::Status Restore();
  absl::Status TrainAndSave();
  absl::Status SaveStep();
  void TellSave(const SaveResult& saved, int64_t began_micros);
  void StartFold();
  // Goes on after what failed for room; returns any other error.
  absl::Status TellFailure(const absl::Status& status,
                           int64_t began_micros) const;

  const Plan& plan_;
  const uint32_t rank_;
  const Content content_;
  RankModel model_;
  int64_t step_ = 0;
  std::mutex mutex_;
  SaveReport report_;  // of the last save; under mutex_
  std::unique_ptr<CheckpointManager> manager_;
  std::future<void> fold_;
};

absl::Status RankSession::TellFailure(const absl::Status& status,
                                      int64_t began_micros) const {
  if (rank_ == kOwnerRank) {
    Tell({Event::Kind::kFailed, step_, began_micros, {}, status.ToString()});
  }
  return absl::IsResourceExhausted(status) ? absl::OkStatus() : status;
}

absl::Status RankSession::Open(std::unique_ptr<Coordinator> ranks) {
  CKPTDB_RETURN_IF_ERROR(model_.Register());
  ManagerOptions options = plan_.manager;
  options.observers.on_saved = [this](const SaveReport& report) {
    const std::lock_guard<std::mutex> lock(mutex_);
    report_ = report;
  };
  CKPTDB_ASSIGN_OR_RETURN(
      manager_,
      CheckpointManager::Open(options, model_.state(), std::move(ranks)));
  return absl::OkStatus();
}

absl::Status RankSession::Restore() {
  CKPTDB_ASSIGN_OR_RETURN(const auto start, manager_->RestoreOrStart());
  Event event = {.kind = Event::Kind::kOpened};
  if (!start.fresh) {
    event.step = step_ = start.version.step;
    const bool resized = start.record.world_size != plan_.world_size;
    CKPTDB_RETURN_IF_ERROR(model_.Check(step_, resized));
  }
  if (rank_ != kOwnerRank) return absl::OkStatus();
  for (const StepRecord& record : manager_->store()->Steps()) {
    event.steps.push_back(record.version.step);
  }
  Tell(event);
  return absl::OkStatus();
}

absl::Status RankSession::TrainAndSave() {
  model_.Train(step_ + 1);
  for (uint64_t i = 0; i < plan_.steps; ++i) {
    ++step_;
    CKPTDB_RETURN_IF_ERROR(SaveStep());
  }
  return absl::OkStatus();
}

absl::Status RankSession::SaveStep() {
  const int64_t began = SteadyMicros();
  if (rank_ == kOwnerRank) Tell({Event::Kind::kBegan, step_, began});
  const auto outcome =
      manager_->StepTo(step_, {{kMetric, content_.Metric(step_)}});
  // The copied state may change while it is saved.
  model_.Train(step_ + 1);
  poll(nullptr, 0, plan_.step_ms);
  if (!outcome.ok()) return TellFailure(outcome.status(), began);
  if (!outcome->save.has_value()) {
    return absl::InternalError(absl::StrCat(
        "step ", step_, " is not saved: ", outcome->decision.reason));
  }
  const auto saved = outcome->save->WaitCommitted();
  CKPTDB_RETURN_IF_ERROR(manager_->WaitUntilFinished());
  if (!saved.ok()) return TellFailure(saved.status(), began);
  if (rank_ == kOwnerRank) TellSave(*saved, began);
  return absl::OkStatus();
}

void RankSession::TellSave(const SaveResult& saved, int64_t began_micros) {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    Tell({Event::Kind::kSaved, step_, began_micros, report_.retired_steps,
          std::string(StepKindName(saved.kind))});
  }
  const auto step = static_cast<uint64_t>(step_);
  if (plan_.Pick("fold", step) % kFoldedSteps == 0) StartFold();
}

// Folds the step beside the saves that follow it.
void RankSession::StartFold() {
  if (fold_.valid()) fold_.wait();
  fold_ = std::async(std::launch::async, [this, step = step_] {
    const int64_t began = SteadyMicros();
    const absl::Status folded = manager_->store()->Fold(step).status();
    // Retention may take the step meanwhile.
    if (absl::IsNotFound(folded) || absl::IsAborted(folded)) return;
    Tell({folded.ok() ? Event::Kind::kFolded : Event::Kind::kFailed,
          step,
          began,
          {},
          folded.ok() ? "" : "fold: " + folded.ToString()});
  });
}

absl::Status RunSession(const Plan& plan) {
  ThreadGroup group(plan.world_size);
  std::vector<absl::Status> statuses(plan.world_size);
  std::vector<std::thread> threads;
  for (uint32_t rank = 0; rank < plan.world_size; ++rank) {
    threads.emplace_back([&, rank] {
      RankSession session(plan, rank);
      statuses[rank] = session.Run(group.Join(rank));
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const absl::Status& status : statuses) CKPTDB_RETURN_IF_ERROR(status);
  return absl::OkStatus();
}

}  // namespace

absl::Status RunWriter(const WriterOptions& options) {
  constexpr uint64_t kSessionsOfALife = 1'000'000;
  constexpr int kPauseMs = 10;
  for (uint64_t number = options.life * kSessionsOfALife;; ++number) {
    const int64_t began = SteadyMicros();
    absl::Status status = RunSession(MakePlan(options, number));
    if (status.ok()) continue;
    // FailedPrecondition means a store that is out of use after an I/O error,
    // until it is opened again.
    if (!absl::IsResourceExhausted(status) &&
        !absl::IsFailedPrecondition(status)) {
      return status;
    }
    Tell({Event::Kind::kFailed, -1, began, {}, status.ToString()});
    poll(nullptr, 0, kPauseMs);
  }
}

}  // namespace ckptdb::soak
