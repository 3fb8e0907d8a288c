// SPDX-License-Identifier: Apache-2.0
#include "train_ctr/checkpoint.h"

#include <ckptdb/remote/urls.h>
#include <ckptdb/schema/status.h>

#include <cstdio>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <set>

#include "absl/strings/str_cat.h"
#include "ranks/ranks.h"
#include "train_ctr/bytes.h"
#include "train_ctr/trainer.h"

namespace train_ctr {
namespace {

constexpr double kMicrosPerMilli = 1000;
constexpr char kMetricsGroup[] = "clicks";

// Returns the JSON, discarded if it is not valid. *duplicate is a key that an
// object has twice, if there is one: the parser keeps only its last value.
nlohmann::json ParseJson(const std::string& text, std::string* duplicate) {
  using Event = nlohmann::json::parse_event_t;
  std::vector<std::set<std::string>> keys;
  const auto note = [&](int, Event event, const nlohmann::json& parsed) {
    if (event == Event::object_start) keys.emplace_back();
    if (event == Event::object_end) keys.pop_back();
    if (event != Event::key) return true;
    const auto key = parsed.get<std::string>();
    if (!keys.back().insert(key).second) *duplicate = key;
    return true;
  };
  return nlohmann::json::parse(text, note, /*allow_exceptions=*/false);
}

}  // namespace

absl::StatusOr<std::string> Checkpoints::Place::Dump() {
  ByteWriter bytes;
  bytes.Put(position->offset);
  bytes.Put(position->line);
  return bytes.Take();
}

absl::Status Checkpoints::Place::Load(absl::string_view bytes) {
  ByteReader reader(bytes);
  position->offset = reader.Get<uint64_t>();
  position->line = reader.Get<uint64_t>();
  if (reader.complete()) return absl::OkStatus();
  return absl::DataLossError(
      absl::StrCat("a place in the log has ", bytes.size(), " bytes"));
}

absl::StatusOr<std::unique_ptr<Checkpoints>> Checkpoints::Open(
    const CheckpointOptions& options, Trainer* trainer) {
  std::unique_ptr<Checkpoints> made(new Checkpoints(options, trainer));
  CKPTDB_RETURN_IF_ERROR(
      made->model_.AddObject(std::string(kProgress), &made->progress_));
  CKPTDB_RETURN_IF_ERROR(trainer->model()->Register(&made->model_));
  CKPTDB_ASSIGN_OR_RETURN(const ckptdb::ManagerOptions manager_options,
                          made->NewManagerOptions());
  CKPTDB_ASSIGN_OR_RETURN(std::unique_ptr<ckptdb::Coordinator> ranks,
                          trainer->ranks()->NewCoordinator());
  CKPTDB_ASSIGN_OR_RETURN(
      made->manager_, ckptdb::CheckpointManager::Open(
                          manager_options, &made->model_, std::move(ranks)));
  CKPTDB_RETURN_IF_ERROR(made->manager_->evaluation()->AddGroup(
      kMetricsGroup, &made->evaluation_.metrics));
  return made;
}

absl::Status Checkpoints::ReadConfig(ckptdb::ManagerOptions* manager) {
  if (options_.config.empty()) return absl::OkStatus();
  const auto invalid = [this](absl::string_view why) {
    return absl::InvalidArgumentError(
        absl::StrCat("--config \"", options_.config, "\"", why));
  };
  std::ifstream file(options_.config);
  std::string text{std::istreambuf_iterator<char>(file), {}};
  if (!file) return invalid(" cannot be read");
  std::string duplicate;
  nlohmann::json json = ParseJson(text, &duplicate);
  if (!json.is_object()) return invalid(" is no JSON object");
  if (!duplicate.empty()) {
    return invalid(absl::StrCat(": duplicate key \"", duplicate,
                                "\"; give each key once"));
  }
  if (json.contains("load")) {
    CKPTDB_ASSIGN_OR_RETURN(load_, ckptdb::ParseLoadSpec(json["load"].dump()));
    json.erase("load");
    text = json.dump();
  }
  ckptdb::EnableUrls();  // for `ship` and `fetch_from`
  return ckptdb::ReadManagerConfig(text, manager);
}

absl::StatusOr<ckptdb::ManagerOptions> Checkpoints::NewManagerOptions() {
  ckptdb::ManagerOptions manager;
  manager.path = options_.store;
  manager.store.on_point = [drill =
                                options_.crash_drill](absl::string_view point) {
    drill->Passed(point);
  };
  if (options_.save_every > 0) {
    manager.schedule.permanent = ckptdb::SaveEveryNSteps(options_.save_every) |
                                 ckptdb::SaveAtSteps({options_.last_step});
  }
  manager.retention.keep = ckptdb::LatestN(options_.keep_steps);
  manager.save.deltas = options_.delta;
  manager.save.base_every = options_.base_every;
  manager.restore.abandoned = options_.abandoned;
  manager.save.user_metadata = {{"trainer", "train_ctr"},
                                {"options", trainer_->identity()}};
  if (trainer_->ranks()->is_owner()) {
    manager.observers.on_saved = [this](const ckptdb::SaveReport& saved) {
      OnSaved(saved);
    };
  }
  manager.save.first_save = ckptdb::ManagerOptions::FirstSave::kNever;
  manager.save.async = !options_.sync;
  manager.ranks.deadline = trainer_->ranks()->deadline();
  CKPTDB_RETURN_IF_ERROR(ReadConfig(&manager));
  if (manager.path != options_.store) {
    return absl::InvalidArgumentError(
        absl::StrCat("the configuration's path is \"", manager.path,
                     "\", but --store is \"", options_.store, "\""));
  }
  if (manager.read_only) {
    return absl::InvalidArgumentError("a trainer cannot be read_only");
  }
  if (options_.crash_drill->at_point()) {
    manager.save.async = false;
    manager.store.background_sweep = false;
  }
  return manager;
}

absl::Status Checkpoints::CheckEmpty() const {
  const absl::StatusOr<int64_t> latest = examples::AskOwner(
      trainer_->ranks(), "the step saved last",
      [this]() -> absl::StatusOr<int64_t> {
        CKPTDB_ASSIGN_OR_RETURN(const auto record, manager_->store()->Latest());
        return record.version.step;
      });
  if (absl::IsNotFound(latest.status())) return absl::OkStatus();
  CKPTDB_RETURN_IF_ERROR(latest.status());
  return absl::AlreadyExistsError(
      absl::StrCat("store ", options_.store, " has step ", *latest,
                   "; go on from it with --resume, or name another store"));
}

absl::StatusOr<std::optional<int64_t>> Checkpoints::RestoreOrStart(
    std::optional<int64_t> step) {
  CKPTDB_ASSIGN_OR_RETURN(const auto start,
                          manager_->RestoreOrStart({.step = step}));
  if (start.fresh) return std::nullopt;
  restored_ = true;
  CKPTDB_RETURN_IF_ERROR(trainer_->model()->rows()->OnRestored());
  return start.version.step;
}

absl::Status Checkpoints::StartTraining() {
  if (!restored_ && !load_.empty()) {
    CKPTDB_ASSIGN_OR_RETURN(const ckptdb::LoadSummary loaded,
                            manager_->Load(load_));
    CKPTDB_RETURN_IF_ERROR(trainer_->model()->rows()->OnRestored());
    std::fprintf(stderr, "%s", loaded.ToString().c_str());
  }
  return manager_->StartTraining();
}

// The owner's metrics become the step's.
ckptdb::SaveRequest Checkpoints::RequestOf(double train_loss) const {
  ckptdb::SaveRequest request;
  if (trainer_->ranks()->is_owner()) request.metrics["train_loss"] = train_loss;
  return request;
}

// The sweep after a save that is drilled belongs to it.
absl::StatusOr<ckptdb::StepOutcome> Checkpoints::AfterStep(double train_loss) {
  CrashDrill& drill = *options_.crash_drill;
  drill.Arm(trainer_->step());
  CKPTDB_ASSIGN_OR_RETURN(
      ckptdb::StepOutcome outcome,
      manager_->StepTo(trainer_->step(), RequestOf(train_loss).metrics));
  if (outcome.save && trainer_->ranks()->is_owner() && drill.at_point()) {
    CKPTDB_RETURN_IF_ERROR(manager_->store()->Sweep().status());
  }
  CKPTDB_RETURN_IF_ERROR(drill.Disarm());
  return outcome;
}

absl::Status Checkpoints::Save(double train_loss) {
  if (trainer_->step() != manager_->global_step()) {
    CKPTDB_RETURN_IF_ERROR(manager_->StepTo(trainer_->step()).status());
  }
  return manager_->Save(RequestOf(train_loss)).status();
}

absl::StatusOr<Evaluation> Checkpoints::Evaluate() {
  CKPTDB_RETURN_IF_ERROR(manager_->WaitUntilFinished());
  const ckptdb::EvaluationState::Name name = {trainer_->step(), "held_out",
                                              kMetricsGroup};
  ckptdb::EvaluationState& state = *manager_->evaluation();
  evaluation_ = trainer_->BeginEvaluation();
  absl::StatusOr<uint64_t> done = state.Load(name, &place_);
  const bool saved = !absl::IsNotFound(done.status());
  if (!saved) done = 0;
  // It was begun by another number of ranks.
  if (absl::IsFailedPrecondition(done.status())) {
    CKPTDB_RETURN_IF_ERROR(state.Cleanup(name.step));
    done = 0;
  }
  CKPTDB_RETURN_IF_ERROR(done.status());
  for (int64_t batches = 1;; ++batches) {
    CKPTDB_ASSIGN_OR_RETURN(const bool more,
                            trainer_->EvaluateBatch(&evaluation_));
    if (!more) break;
    if (saved && options_.eval_save_every > 0 &&
        batches % options_.eval_save_every == 0) {
      CKPTDB_RETURN_IF_ERROR(KeepEvaluation(name));
    }
  }
  if (saved) CKPTDB_RETURN_IF_ERROR(state.Cleanup(name.step));
  Evaluation evaluation = evaluation_.metrics.Result();
  evaluation.resumed_after = *done;
  return evaluation;
}

// A long tail is resumed after a crash from the last progress that fitted.
absl::Status Checkpoints::KeepEvaluation(
    const ckptdb::EvaluationState::Name& name) {
  CKPTDB_ASSIGN_OR_RETURN(const std::string place, place_.Dump());
  CKPTDB_ASSIGN_OR_RETURN(const std::string meters, evaluation_.metrics.Dump());
  if (place.size() + meters.size() > ckptdb::kMaxEvaluationBytes) {
    return absl::OkStatus();
  }
  CKPTDB_RETURN_IF_ERROR(manager_->evaluation()->Save(
      name, &place_, evaluation_.metrics.examples()));
  options_.crash_drill->Evaluating(name.step);
  return absl::OkStatus();
}

absl::StatusOr<bool> Checkpoints::EvaluationUnderWay() const {
  const auto count = [this]() -> absl::StatusOr<int64_t> {
    CKPTDB_ASSIGN_OR_RETURN(
        const auto found, manager_->store()->ListEvaluations(trainer_->step()));
    return static_cast<int64_t>(found.size());
  };
  CKPTDB_ASSIGN_OR_RETURN(
      const int64_t kept,
      examples::AskOwner(trainer_->ranks(), "evaluations under way", count));
  return kept > 0;
}

std::vector<SaveReport> Checkpoints::TakeReports() {
  const std::lock_guard<std::mutex> lock(mutex_);
  return std::exchange(reports_, {});
}

void Checkpoints::OnSaved(const ckptdb::SaveReport& saved) {
  if (!saved.status.ok()) return;  // the training loop receives the error
  const auto millis = [](int64_t micros) {
    return static_cast<double>(micros) / kMicrosPerMilli;
  };
  SaveReport report;
  report.step = saved.step;
  report.kind = std::string(ckptdb::StepKindName(saved.result.kind));
  report.bytes = saved.result.exclusive_bytes;
  report.blocking_ms = millis(saved.blocking_micros);
  report.save_ms = millis(saved.total_micros);
  report.commit_ms = millis(saved.result.commit_micros);
  if (const absl::Status counted = CountRows(&report); !counted.ok()) {
    std::fprintf(stderr, "step %lld: %s\n", static_cast<long long>(report.step),
                 counted.ToString().c_str());
  }
  const std::lock_guard<std::mutex> lock(mutex_);
  reports_.push_back(std::move(report));
}

absl::Status Checkpoints::CountRows(SaveReport* report) const {
  CKPTDB_ASSIGN_OR_RETURN(const std::unique_ptr<ckptdb::StepReader> step,
                          manager_->store()->OpenStep(report->step));
  for (const ckptdb::StepRecord::Rank& rank : step->ranks()) {
    for (const ckptdb::Item& item : rank.items) {
      if (item.kind != ckptdb::Item::Kind::kRows) continue;
      report->rows_upserted += item.rows;
      report->rows_erased += item.erased_rows;
      if (report->base_reason.empty()) report->base_reason = item.base_reason;
    }
  }
  return absl::OkStatus();
}

}  // namespace train_ctr
