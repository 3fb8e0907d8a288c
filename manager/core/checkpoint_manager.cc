#include "ckptdb/manager/checkpoint_manager.h"

#include <mutex>
#include <type_traits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "ckptdb/db/base/call_guard.h"
#include "ckptdb/db/base/resolve_path.h"
#include "ckptdb/db/store.h"
#include "ckptdb/manager/config/statistics.h"
#include "ckptdb/manager/core/manager_impl.h"
#include "ckptdb/manager/policy/policy_checks.h"
#include "ckptdb/manager/policy/save_schedule.h"
#include "ckptdb/manager/ranks/guarded_coordinator.h"
#include "ckptdb/manager/state/model_sharding.h"
#include "ckptdb/schema/annotate.h"
#include "ckptdb/schema/printable.h"
#include "ckptdb/schema/status.h"

namespace ckptdb {
namespace {

absl::Status CheckOptions(const ManagerOptions& options) {
  constexpr char kWhere[] = "ManagerOptions";
  if (options.path.empty()) {
    return absl::InvalidArgumentError("ManagerOptions: path is empty");
  }
  CKPTDB_RETURN_IF_ERROR(
      Store::ResolvePath(options.path, options.store).status());
  CKPTDB_RETURN_IF_ERROR(
      internal::Annotate(internal::CheckSchedule(options.schedule), kWhere));
  CKPTDB_RETURN_IF_ERROR(
      internal::Annotate(internal::CheckRetention(options.retention), kWhere));
  if (options.best.has_value()) {
    CKPTDB_RETURN_IF_ERROR(
        internal::Annotate(internal::CheckBest("best", *options.best), kWhere));
  }
  CKPTDB_RETURN_IF_ERROR(internal::CheckChainBounds(options.bounds));
  CKPTDB_RETURN_IF_ERROR(
      internal::CheckAtLeast(kWhere, "base_every", options.base_every, 0));
  CKPTDB_RETURN_IF_ERROR(
      internal::CheckAtLeast(kWhere, "copy_threads", options.copy_threads, 1));
  CKPTDB_RETURN_IF_ERROR(internal::CheckAtLeast(kWhere, "tolerated_failures",
                                                options.tolerated_failures, 0));
  CKPTDB_RETURN_IF_ERROR(internal::CheckAtLeast(kWhere, "retry_after_steps",
                                                options.retry_after_steps, 0));
  if (options.warn_waiting < absl::ZeroDuration()) {
    return absl::InvalidArgumentError(absl::StrCat(
        kWhere, ": warn_waiting is ",
        absl::FormatDuration(options.warn_waiting), "; it must be at least 0"));
  }
  if (options.deadline <= absl::ZeroDuration()) {
    return absl::InvalidArgumentError(absl::StrCat(
        kWhere, ": deadline is ", absl::FormatDuration(options.deadline),
        "; it must be above 0"));
  }
  if (options.poll_every <= absl::ZeroDuration()) {
    return absl::InvalidArgumentError(absl::StrCat(
        kWhere, ": poll_every is ", absl::FormatDuration(options.poll_every),
        "; it must be above 0"));
  }
  return absl::OkStatus();
}

// Without what is about saving, when nothing is to be saved.
ManagerOptions Effective(ManagerOptions options) {
  // A path that cannot be resolved is left for CheckOptions to reject.
  options.path =
      Store::ResolvePath(options.path, options.store).value_or(options.path);
  if (!options.statistics_path.empty()) {
    options.statistics_path = internal::ResolvePath(options.statistics_path)
                                  .value_or(options.statistics_path);
  }
  if (options.read_only) options.saving = false;
  if (!options.io_state_resize.has_value()) {
    options.io_state_resize =
        options.read_only ? IoStateResize::kReset : IoStateResize::kError;
  }
  if (!options.saving) {
    options.deltas = false;  // nobody would take what is marked
    options.store_metadata.clear();
  }
  if (!options.read_only) return options;
  options.store = {};
  options.stage = {};
  options.schedule = {};
  options.retention = {};
  options.on_saved = nullptr;
  options.on_deleted = nullptr;
  options.statistics_path.clear();
  return options;
}

}  // namespace

CheckpointManager::Impl::Impl(ManagerOptions options, ModelState* model,
                              std::unique_ptr<Coordinator> ranks)
    : options_(Effective(std::move(options))),
      model_(model),
      ranks_(std::move(ranks)),
      arena_(options_.arena_bytes),
      retirement_(options_.retention) {}

CheckpointManager::Impl::~Impl() {
  exit_task_.reset();
  Settle();
}

absl::Status CheckpointManager::Impl::Open() {
  absl::Status status = CheckOptions(options_);
  if (model_ == nullptr) {
    status.Update(absl::InvalidArgumentError("the model is null"));
  }
  if (status.ok()) {
    auto shardings =
        internal::ResolveShardings(*model_, options_.sharding, world_size());
    status = shardings.status();
    if (shardings.ok()) shardings_ = *std::move(shardings);
  }
  if (status.ok() && is_owner() && !options_.statistics_path.empty()) {
    status = internal::CheckStatisticsPath(options_.statistics_path);
  }
  if (status.ok()) {
    status = internal::CallGuarded("opening a manager",
                                   [this] { return OpenParts(); });
  }
  CKPTDB_RETURN_IF_ERROR(
      Agree(ranks_.get(), "open", status, options_.deadline));
  CKPTDB_RETURN_IF_ERROR(AgreeOnShardings());
  CKPTDB_ASSIGN_OR_RETURN(background_ranks_, ranks_->Duplicate());
  // After the store's, whose task is done after it.
  if (!read_only()) {
    exit_task_ = std::make_unique<internal::ExitTask>([this] { WaitAtExit(); });
  }
  NoteTrainingThread();
  evaluation_ = std::make_unique<EvaluationState>(
      EvaluationStore{options_.path, store_.get(), reader_.get()}, ranks_.get(),
      options_.deadline);
  WarnOfNoSchedule();
  WarnOfPosts();
  return absl::OkStatus();
}

// Else a training of days would end with nothing saved.
void CheckpointManager::Impl::WarnOfNoSchedule() const {
  const SaveSchedule& schedule = options_.schedule;
  if (!is_owner() || !saving()) return;
  if (schedule.permanent.has_value() || schedule.ephemeral.has_value()) return;
  Warn(absl::StrCat("store \"", options_.path,
                    "\": ManagerOptions::schedule is empty: Step saves "
                    "nothing, only Save, StartTraining and FinishTraining do; "
                    "set schedule.permanent, to SaveAtSteps({}) where no "
                    "step is to be saved by itself"));
}

// Else a row would be restored by two ranks, or by none.
absl::Status CheckpointManager::Impl::AgreeOnShardings() {
  if (world_size() == 1) return absl::OkStatus();
  const std::string own = internal::DescribeShardings(*model_, shardings_);
  const absl::StatusOr<std::vector<std::string>> all =
      ranks_->Gather("shardings", own, options_.deadline);
  absl::Status status = all.status();
  for (size_t rank = 0; all.ok() && is_owner() && rank < all->size(); ++rank) {
    if ((*all)[rank] == own) continue;
    status.Update(absl::InvalidArgumentError(
        absl::StrCat("ranks declare other shardings: rank 0 ", own, ", rank ",
                     rank, " ", (*all)[rank])));
  }
  return Agree(ranks_.get(), "shardings", status, options_.deadline);
}

// What this rank has to open for itself.
absl::Status CheckpointManager::Impl::OpenParts() {
  if (read_only()) {
    CKPTDB_ASSIGN_OR_RETURN(reader_, Reader::Open(options_.path, HowToRead()));
  } else if (is_owner()) {
    CKPTDB_RETURN_IF_ERROR(OpenStore());
  }
  if (!options_.deltas) return absl::OkStatus();
  feed_ = std::make_unique<internal::ChangeFeed>(*model_);
  return feed_->Join();
}

ReaderOptions CheckpointManager::Impl::HowToRead() const {
  ReaderOptions reader;
  reader.direct_reads = options_.store.direct_reads;
  reader.environment = options_.store.environment;
  return reader;
}

absl::Status CheckpointManager::Impl::OpenStore() {
  CKPTDB_ASSIGN_OR_RETURN(store_, Store::Open(options_.path, options_.store));
  for (const std::string& file : store_->BadFiles()) {
    Warn(absl::StrCat("store \"", options_.path, "\" is without its file ",
                      file, ", which is damaged or gone: steps that need it ",
                      "cannot be restored"));
  }
  const absl::StatusOr<StepRecord> latest = store_->Latest();
  if (latest.ok()) newest_at_open_ = latest->version.step;
  const UserMetadata before = store_->user_metadata();
  const UserMetadata& wanted = options_.store_metadata;
  if (wanted.empty() || wanted == before) return absl::OkStatus();
  if (before.empty()) return store_->SetUserMetadata(wanted);
  Warn(absl::StrCat("store \"", options_.path,
                    "\" has metadata other than store_metadata, and keeps it"));
  return absl::OkStatus();
}

void CheckpointManager::Impl::WarnOfSweeps() {
  if (store_ == nullptr) return;
  const absl::Status status = store_->sweep_status();
  if (!status.ok() && told_of_sweeps_.insert(status.ToString()).second) {
    Warn(absl::StrCat(
        "store \"", options_.path,
        "\" gives no space back, as its sweep fails: ", status.ToString()));
  }
  for (const UnsweptEntry& entry : store_->unswept()) {
    if (!told_of_sweeps_.insert(entry.path + "\n" + entry.reason).second) {
      continue;
    }
    Warn(absl::StrCat("store \"", options_.path, "\": ", entry.path,
                      entry.foreign ? " is not the store's, and stays: "
                                    : " cannot be removed: ",
                      entry.reason));
  }
}

void CheckpointManager::Impl::WarnOfPosts() {
  if (store_ == nullptr) return;
  for (const UnsweptEntry& post : store_->posts_passed_over()) {
    if (!told_of_posts_.insert(post.path + "\n" + post.reason).second) continue;
    Warn(absl::StrCat("store \"", options_.path, "\": ", post.path,
                      " was passed over: ", post.reason));
  }
}

int64_t CheckpointManager::Impl::NowMicros() const {
  return options_.now_micros ? options_.now_micros()
                             : absl::ToUnixMicros(absl::Now());
}

namespace {

// A call of the caller's that any thread may make: none is made once the
// manager is closed, and nothing is thrown out of it.
template <typename Impl, typename Function>
auto LookAtManager(Impl* impl, absl::string_view what, Function&& function)
    -> std::invoke_result_t<Function> {
  const internal::CallGate::Call call(&impl->gate());
  if (!call.admitted()) return impl->ClosedError(what);
  return internal::CallGuarded(what, std::forward<Function>(function));
}

// One of the training thread: nor is it made for code that the manager calls.
template <typename Impl, typename Function>
auto EnterManager(Impl* impl, absl::string_view what, Function&& function)
    -> std::invoke_result_t<Function> {
  CKPTDB_RETURN_IF_ERROR(impl->gate().home().Check(what));
  if (impl->gate().InCall()) return impl->ReentryError(what);
  const std::lock_guard<std::mutex> training(impl->training_mutex());
  impl->NoteTrainingThread();
  return LookAtManager(impl, what, std::forward<Function>(function));
}

}  // namespace

absl::StatusOr<std::unique_ptr<CheckpointManager>> CheckpointManager::Open(
    const ManagerOptions& options, ModelState* model,
    std::unique_ptr<Coordinator> ranks) {
  using Opened = absl::StatusOr<std::unique_ptr<CheckpointManager>>;
  return internal::CallGuarded("CheckpointManager::Open", [&]() -> Opened {
    CKPTDB_ASSIGN_OR_RETURN(ranks,
                            internal::GuardCoordinator(std::move(ranks)));
    auto impl = std::make_unique<Impl>(options, model, std::move(ranks));
    CKPTDB_RETURN_IF_ERROR(impl->Open());
    return std::unique_ptr<CheckpointManager>(
        new CheckpointManager(std::move(impl)));
  });
}

CheckpointManager::CheckpointManager(std::unique_ptr<Impl> impl)
    : impl_(std::move(impl)) {}
CheckpointManager::~CheckpointManager() {
  if (impl_ != nullptr) impl_->gate().home().KeepInChild(&impl_);
}

absl::Status CheckpointManager::Close() { return impl_->Close(); }
absl::Status CheckpointManager::StartTraining() {
  return EnterManager(impl_.get(), "StartTraining",
                      [&] { return impl_->StartTraining(); });
}
absl::Status CheckpointManager::FinishTraining() {
  return EnterManager(impl_.get(), "FinishTraining",
                      [&] { return impl_->FinishTraining(); });
}
int64_t CheckpointManager::global_step() const { return impl_->global_step(); }
absl::StatusOr<StepOutcome> CheckpointManager::Step(
    const Metrics& metrics, const UserMetadata& user_metadata) {
  return StepTo(impl_->global_step() + 1, metrics, user_metadata);
}
absl::StatusOr<StepOutcome> CheckpointManager::StepTo(
    int64_t step, const Metrics& metrics, const UserMetadata& user_metadata) {
  return EnterManager(impl_.get(), "Step", [&] {
    return impl_->read_only() ? impl_->CountStep(step)
                              : impl_->StepTo(step, metrics, user_metadata);
  });
}
absl::StatusOr<SaveDecision> CheckpointManager::ShouldSave(
    int64_t step, const Metrics& metrics) {
  return EnterManager(impl_.get(), "ShouldSave",
                      [&] { return impl_->ShouldSave(step, metrics); });
}
absl::StatusOr<PendingSave> CheckpointManager::Save(
    const SaveRequest& request) {
  using Saved = absl::StatusOr<PendingSave>;
  return EnterManager(impl_.get(), "Save", [&]() -> Saved {
    if (impl_->read_only()) return impl_->ReadOnlyError("Save");
    if (!impl_->saving()) return impl_->SavingOffError();
    return impl_->Save(request);
  });
}
absl::StatusOr<RestoreReport> CheckpointManager::Restore(
    const RestoreRequest& request) {
  return EnterManager(impl_.get(), "Restore",
                      [&] { return impl_->Restore(request); });
}
absl::StatusOr<RestoreReport> CheckpointManager::WaitForStep(
    absl::Duration timeout) {
  return EnterManager(impl_.get(), "WaitForStep",
                      [&] { return impl_->WaitForStep(timeout); });
}
absl::StatusOr<LoadSummary> CheckpointManager::Load(
    const std::vector<LoadRule>& rules, bool dry_run) {
  return EnterManager(impl_.get(), "Load",
                      [&] { return impl_->Load(rules, dry_run); });
}
bool CheckpointManager::IsSavingInProgress() const {
  if (impl_->gate().home().IsForked()) return false;
  return impl_->IsSavingInProgress();
}
void CheckpointManager::SetPreempted() { impl_->SetPreempted(); }
bool CheckpointManager::preempted() const { return impl_->preempted(); }
absl::Status CheckpointManager::CheckForErrors() {
  return impl_->CheckForErrors();
}
absl::Status CheckpointManager::WaitUntilFinished() {
  return impl_->WaitUntilFinished();
}
absl::StatusOr<StepStory> CheckpointManager::Explain(int64_t step) const {
  return LookAtManager(impl_.get(), "Explain",
                       [&]() -> absl::StatusOr<StepStory> {
                         if (impl_->read_only())
                           return impl_->ReadOnlyError("Explain");
                         return impl_->Explain(step);
                       });
}
absl::Status CheckpointManager::Delete(int64_t step) {
  return EnterManager(impl_.get(), "Delete", [&] {
    return impl_->read_only() ? impl_->ReadOnlyError("Delete")
                              : impl_->Delete(step);
  });
}
absl::StatusOr<StepRecord> CheckpointManager::BestStep() {
  return LookAtManager(impl_.get(), "BestStep",
                       [&] { return impl_->BestStep(); });
}
EvaluationState* CheckpointManager::evaluation() { return impl_->evaluation(); }
Store* CheckpointManager::store() { return impl_->store(); }
Reader* CheckpointManager::reader() { return impl_->reader(); }

}  // namespace ckptdb
