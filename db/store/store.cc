// SPDX-License-Identifier: Apache-2.0
// The public calls of Store: each enters the store's gate and calls the
// responsible part.
#include "db/store.h"

#include <type_traits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "db/base/call_guard.h"
#include "db/disk/store_path.h"
#include "db/store/evaluations.h"
#include "db/store/saves.h"
#include "db/store/step_edits.h"
#include "db/store/store_impl.h"
#include "schema/status.h"

namespace ckptdb {
namespace {

// Makes a public call: fails if the store is closed, and converts exceptions to
// a status.
template <typename Impl, typename Function>
auto EnterStore(Impl* impl, absl::string_view what, Function&& function)
    -> std::invoke_result_t<Function> {
  const internal::CallGate::Call call(&impl->gate());
  if (call.admitted()) {
    return internal::CallGuarded(what, std::forward<Function>(function));
  }
  return impl->gate().Refusal(
      what, absl::StrCat("the store \"", impl->folder().path(), "\""));
}

// The same for a result that is not a status; returns `closed` if the store is
// closed.
template <typename Impl, typename Function>
auto EnterStoreOr(Impl* impl, std::invoke_result_t<Function> closed,
                  Function&& function) -> std::invoke_result_t<Function> {
  const internal::CallGate::Call call(&impl->gate());
  if (!call.admitted()) return closed;
  return std::forward<Function>(function)();
}

}  // namespace

Store::Store(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Store::~Store() {
  if (impl_ != nullptr) impl_->gate().home().KeepInChild(&impl_);
}

absl::StatusOr<std::string> Store::ResolvePath(absl::string_view path,
                                               const StoreOptions& options) {
  return internal::CallGuarded("Store::ResolvePath", [&] {
    return internal::ResolveStorePath(path, options.environment);
  });
}

absl::StatusOr<std::unique_ptr<Store>> Store::Open(
    absl::string_view path, const StoreOptions& options) {
  return internal::CallGuarded(
      "Store::Open", [&]() -> absl::StatusOr<std::unique_ptr<Store>> {
        CKPTDB_RETURN_IF_ERROR(internal::EnterLibrary("Store::Open"));
        CKPTDB_ASSIGN_OR_RETURN(std::unique_ptr<Impl> impl,
                                Impl::Open(path, options));
        return std::unique_ptr<Store>(new Store(std::move(impl)));
      });
}

// Does not enter the gate, because it waits for all calls that did.
absl::Status Store::Close() {
  CKPTDB_RETURN_IF_ERROR(impl_->gate().home().Check("Store::Close"));
  return impl_->Close();
}

const std::string& Store::path() const { return impl_->folder().path(); }
const std::string& Store::uuid() const { return impl_->folder().uuid(); }
std::vector<std::string> Store::BadFiles() const {
  return EnterStoreOr(impl_.get(), {}, [&] { return impl_->BadFiles(); });
}

absl::StatusOr<Store::Attempt> Store::Begin(const SaveSpec& spec) {
  return EnterStore(impl_.get(), "Store::Begin", [&] {
    return internal::BeginSave(impl_->components(), spec, /*sync=*/true);
  });
}

absl::StatusOr<SaveResult> Store::Publish(const Version& version,
                                          absl::Span<const StagedRank> ranks,
                                          const SaveSpec& spec) {
  return EnterStore(impl_.get(), "Store::Publish", [&] {
    return internal::PublishSave(impl_->components(), version, ranks, spec);
  });
}

absl::Status Store::Abandon(const Version& version) {
  return EnterStore(impl_.get(), "Store::Abandon", [&] {
    return internal::AbandonSave(impl_->components(), version);
  });
}

absl::StatusOr<SaveResult> Store::Save(const SaveSpec& spec,
                                       const RankState& state) {
  return EnterStore(impl_.get(), "Store::Save", [&] {
    return internal::SaveAlone(impl_->components(), spec, state);
  });
}

std::vector<StepRecord> Store::Steps() const {
  return EnterStoreOr(impl_.get(), {}, [&] {
    return impl_->catalog().Read(
        [](const internal::Catalog& records) { return records.Steps(); });
  });
}
// The visitor runs under the lock of the records, which avoids a copy.
void Store::VisitSteps(absl::FunctionRef<void(const StepRecord&)> visit) const {
  const internal::CallGate::Call call(&impl_->gate());
  if (!call.admitted()) return;
  impl_->catalog().Read([&](const internal::Catalog& records) {
    for (const auto& [step, record] : records.steps) visit(record);
  });
}
bool Store::VisitStep(int64_t step,
                      absl::FunctionRef<void(const StepRecord&)> visit) const {
  return EnterStoreOr(impl_.get(), false, [&] {
    return impl_->catalog().Read([&](const internal::Catalog& records) {
      const auto found = records.steps.find(step);
      if (found == records.steps.end()) return false;
      visit(found->second);
      return true;
    });
  });
}
internal::ChangedSteps internal::StepsChangedSince(const Store& store,
                                                   uint64_t since) {
  return EnterStoreOr(store.impl_.get(), {}, [&] {
    return store.impl_->catalog().Read([&](const internal::Catalog& records) {
      return records.journal.Since(since);
    });
  });
}
absl::StatusOr<StepRecord> Store::FindStep(int64_t step) const {
  return EnterStore(impl_.get(), "Store::FindStep",
                    [&] { return impl_->catalog().FindStep(step); });
}

absl::StatusOr<StepRecord> Store::Latest() const {
  return EnterStore(impl_.get(), "Store::Latest",
                    [&] { return impl_->catalog().Latest(); });
}

absl::StatusOr<std::unique_ptr<StepReader>> Store::OpenStep(
    int64_t step) const {
  return EnterStore(impl_.get(), "Store::OpenStep",
                    [&] { return impl_->OpenStep(step); });
}

absl::StatusOr<std::unique_ptr<ChangeReader>> Store::OpenChanges(
    const Version& from, int64_t to) const {
  return EnterStore(impl_.get(), "Store::OpenChanges",
                    [&] { return impl_->OpenChanges(from, to); });
}

absl::StatusOr<Store::FoldResult> Store::Fold(int64_t step,
                                              const ReadOptions& options) {
  return EnterStore(impl_.get(), "Store::Fold",
                    [&] { return impl_->folds().Fold(step, options); });
}

absl::Status Store::Delete(int64_t step) {
  return EnterStore(impl_.get(), "Store::Delete", [&] {
    return internal::DeleteStep(impl_->components(), step);
  });
}
absl::Status Store::Pin(int64_t step) {
  return EnterStore(impl_.get(), "Store::Pin", [&] {
    return internal::SetStepFlag(impl_->components(), step, &StepRecord::pinned,
                                 true);
  });
}
absl::Status Store::Unpin(int64_t step) {
  // Freeing a pinned step takes two calls.
  return EnterStore(impl_.get(), "Store::Unpin", [&] {
    return internal::SetStepFlag(impl_->components(), step, &StepRecord::pinned,
                                 false, internal::Spare::kUse);
  });
}
absl::Status Store::Quarantine(int64_t step) {
  return EnterStore(impl_.get(), "Store::Quarantine", [&] {
    return internal::SetStepFlag(impl_->components(), step,
                                 &StepRecord::quarantined, true);
  });
}
absl::Status Store::Unquarantine(int64_t step, const ReadOptions& options) {
  return EnterStore(impl_.get(), "Store::Unquarantine", [&]() -> absl::Status {
    CKPTDB_ASSIGN_OR_RETURN(const auto reader, impl_->OpenStep(step));
    const StepRecord& record = reader->record();
    if (!record.quarantined) return absl::OkStatus();
    CKPTDB_RETURN_IF_ERROR(reader->Verify(options));
    return internal::EndQuarantine(impl_->components(), record.version);
  });
}
absl::Status Store::SetEphemeral(int64_t step, bool ephemeral) {
  return EnterStore(impl_.get(), "Store::SetEphemeral", [&] {
    return internal::SetStepFlag(impl_->components(), step,
                                 &StepRecord::ephemeral, ephemeral);
  });
}
absl::Status Store::AddMetrics(int64_t step, const Metrics& metrics) {
  return EnterStore(impl_.get(), "Store::AddMetrics", [&] {
    return internal::AddStepMetrics(impl_->components(), step, metrics);
  });
}

absl::Status Store::TakePosts() {
  return EnterStore(impl_.get(), "Store::TakePosts",
                    [&] { return impl_->posts().TakePosts(); });
}
std::vector<Usage::SkippedEntry> Store::skipped_posts() const {
  return EnterStoreOr(impl_.get(), {},
                      [&] { return impl_->posts().skipped(); });
}

absl::Status Store::SetUserMetadata(const UserMetadata& metadata) {
  return EnterStore(impl_.get(), "Store::SetUserMetadata", [&] {
    return internal::SetStoreMetadata(impl_->components(), metadata);
  });
}
UserMetadata Store::user_metadata() const {
  return EnterStoreOr(impl_.get(), {}, [&] {
    return impl_->catalog().Read([](const internal::Catalog& records) {
      return records.root.user_metadata;
    });
  });
}

absl::Status Store::SaveEvaluation(
    int64_t step, absl::string_view evaluation, absl::string_view group,
    absl::Span<const StepRecord::Evaluation> ranks) {
  return EnterStore(impl_.get(), "Store::SaveEvaluation", [&] {
    return internal::SaveEvaluation(impl_->components(), step, evaluation,
                                    group, ranks);
  });
}
absl::StatusOr<std::optional<StepRecord::Evaluation>> Store::FindEvaluation(
    int64_t step, absl::string_view evaluation, uint32_t rank) const {
  return EnterStore(impl_.get(), "Store::FindEvaluation", [&] {
    return internal::FindEvaluation(impl_->components(), step, evaluation,
                                    rank);
  });
}
absl::StatusOr<std::vector<std::pair<std::string, uint32_t>>>
Store::ListEvaluations(int64_t step) const {
  return EnterStore(impl_.get(), "Store::ListEvaluations", [&] {
    return internal::ListEvaluations(impl_->components(), step);
  });
}
absl::Status Store::DeleteEvaluations(absl::Span<const int64_t> steps) {
  return EnterStore(impl_.get(), "Store::DeleteEvaluations", [&] {
    return internal::DeleteEvaluations(impl_->components(), steps);
  });
}

absl::StatusOr<Store::SweepResult> Store::Sweep() {
  return EnterStore(impl_.get(), "Store::Sweep",
                    [&] { return impl_->Sweep(); });
}
absl::Status Store::sweep_status() const {
  CKPTDB_RETURN_IF_ERROR(impl_->gate().home().Check("Store::sweep_status"));
  // Does not enter the gate, so that the outcome of the last sweep can be read
  // after Close, too.
  return impl_->sweeper().status();
}
std::vector<Usage::SkippedEntry> Store::unswept() const {
  if (!internal::CallGate::Call(&impl_->gate()).admitted()) return {};
  return impl_->sweeper().unswept();
}
absl::StatusOr<Usage> Store::GetUsage() const {
  return EnterStore(impl_.get(), "Store::GetUsage",
                    [&] { return impl_->GetUsage(); });
}

}  // namespace ckptdb
