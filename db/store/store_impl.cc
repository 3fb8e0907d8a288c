// SPDX-License-Identifier: Apache-2.0
#include "db/store/store_impl.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "db/base/option_checks.h"
#include "db/base/staging.h"
#include "db/disk/store_path.h"
#include "db/read/change_reader_impl.h"
#include "db/read/step_reader_impl.h"
#include "db/store/measure_usage.h"
#include "schema/records/store_parts.h"
#include "schema/status.h"

namespace ckptdb {

using internal::HeldBy;

Store::Impl::Impl(internal::StoreFolder::Opened opened)
    : folder_(std::move(opened.folder)),
      holds_(&requests_),
      catalog_(folder_->path(), std::move(opened.records), &holds_),
      committer_(folder_.get(), &catalog_, &summaries_, &requests_),
      posts_(folder_.get(), &catalog_, &committer_),
      folds_(folder_.get(), &catalog_, &committer_, &requests_),
      sweeper_(folder_.get(), &catalog_, &holds_, &summaries_, &requests_),
      background_(&requests_, &sweeper_, &folds_,
                  folder_->options().background_fold) {}

absl::StatusOr<std::unique_ptr<Store::Impl>> Store::Impl::Open(
    absl::string_view path, const StoreOptions& options) {
  CKPTDB_ASSIGN_OR_RETURN(
      const std::string resolved,
      internal::ResolveStorePath(path, options.environment));
  CKPTDB_RETURN_IF_ERROR(internal::CheckChainBounds(options.fold_bounds));
  CKPTDB_RETURN_IF_ERROR(internal::CheckModes(
      "StoreOptions::", options.directory_mode, options.file_mode));
  absl::StatusOr<internal::StoreFolder::Opened> folder =
      internal::StoreFolder::Open(resolved, options);
  if (!folder.ok() && options.environment == nullptr) {
    return internal::NameFileOfAnotherUser(folder.status(), resolved);
  }
  CKPTDB_ASSIGN_OR_RETURN(internal::StoreFolder::Opened opened,
                          std::move(folder));
  if (opened.records.root.parts.has_value()) {
    return absl::FailedPreconditionError(absl::StrCat(
        "\"", resolved, "\" was fetched with only ",
        internal::Describe(*opened.records.root.parts),
        ", so it can only be read; fetch the whole step to write to it"));
  }
  std::unique_ptr<Impl> impl(new Impl(std::move(opened)));
  // Failed posts are listed in skipped_posts and tried again.
  impl->posts_.TakePosts().IgnoreError();
  if (options.background_sweep) {
    CKPTDB_RETURN_IF_ERROR(impl->background_.Start());
  }
  impl->exit_task_ = std::make_unique<internal::ExitTask>(
      [raw = impl.get()] { raw->CloseAtExit(); });
  return impl;
}

Store::Impl::~Impl() {
  exit_task_.reset();
  if (gate_.Close()) ShutDown().IgnoreError();
}

absl::Status Store::Impl::Close() {
  // Close from within a call would wait for that call forever.
  if (gate_.InCall()) {
    return absl::FailedPreconditionError(
        absl::StrCat("Store::Close: the store \"", folder_->path(),
                     "\" cannot be closed from within one of its own calls"));
  }
  if (!gate_.Close()) return absl::OkStatus();
  // The gate is closed first, so that no reader is opened after this check. It
  // is opened again if the close is refused.
  if (const size_t readers = holds_.readers(); readers > 0) {
    gate_.Open();
    return absl::FailedPreconditionError(absl::StrCat(
        "Store::Close: the store \"", folder_->path(), "\" has ", readers,
        " open StepReader or ChangeReader objects; destroy them first"));
  }
  return ShutDown();
}

// At exit this neither waits for a call that is itself running exit, nor closes
// a database that readers use.
void Store::Impl::CloseAtExit() {
  if (gate_.InCall()) return;
  if (gate_.Close() && holds_.readers() == 0) {
    ShutDown().IgnoreError();
  } else {
    background_.Stop();
  }
}

absl::Status Store::Impl::ShutDown() {
  // A background fold ends at its next check of `stopped`, and can be resumed.
  background_.Stop();
  // Saves in progress release their holds; the next open sweeps their staged
  // files.
  catalog_.EndAllSaves();
  return folder_->Close();
}

std::vector<std::string> Store::Impl::BadFiles() const {
  const internal::CorruptTables& corrupt = folder_->database().corrupt_tables();
  return {corrupt.begin(), corrupt.end()};
}

absl::StatusOr<std::unique_ptr<StepReader>> Store::Impl::OpenStep(
    int64_t step) {
  CKPTDB_ASSIGN_OR_RETURN(internal::HeldChain held,
                          catalog_.HoldChain(step, HeldBy::kReader));
  return StepReader::Impl::Load(&folder_->database(), std::move(held.chain),
                                std::move(held.hold));
}

absl::StatusOr<std::unique_ptr<ChangeReader>> Store::Impl::OpenChanges(
    const Version& from, int64_t to) {
  // The plan is made under the catalog's lock, under which its versions are
  // also held.
  ChangePlan plan;
  CKPTDB_ASSIGN_OR_RETURN(
      std::shared_ptr<void> hold,
      catalog_.Hold(HeldBy::kReader,
                    [&](const internal::Catalog& records)
                        -> absl::StatusOr<std::vector<Version>> {
                      CKPTDB_ASSIGN_OR_RETURN(plan,
                                              PlanChanges(records, from, to));
                      return plan.versions();
                    }));
  return ChangeReader::Impl::Load(&folder_->database(), std::move(plan),
                                  std::move(hold));
}

absl::StatusOr<Store::SweepResult> Store::Impl::Sweep() {
  absl::StatusOr<Store::SweepResult> result =
      sweeper_.Sweep(internal::Sweeper::Depth::kThorough);
  sweeper_.SetStatus(result.status());
  return result;
}

// Holds all versions that the steps need while it reads their records.
absl::StatusOr<Usage> Store::Impl::GetUsage() {
  const internal::HeldCatalog held = catalog_.HoldAll();
  return internal::MeasureUsage(folder_->database(), folder_->path(),
                                held.records, folder_->NowMicros(),
                                &held.in_progress);
}

}  // namespace ckptdb
