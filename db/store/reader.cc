// SPDX-License-Identifier: Apache-2.0
#include "db/store/reader_impl.h"

#include <algorithm>
#include <chrono>
#include <functional>
#include <map>
#include <type_traits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "db/base/call_guard.h"
#include "db/base/home_process.h"
#include "db/base/mutex.h"
#include "db/base/option_checks.h"
#include "db/base/uuid.h"
#include "db/disk/environment.h"
#include "db/disk/files.h"
#include "db/disk/rocks_status.h"
#include "db/disk/store_path.h"
#include "db/meta/catalog.h"
#include "db/meta/lineage.h"
#include "db/meta/posts.h"
#include "db/read/change_reader_impl.h"
#include "db/read/step_reader_impl.h"
#include "db/rocks/guarded_file_system.h"
#include "db/store/backup_note.h"
#include "db/store/evaluation_records.h"
#include "db/store/measure_usage.h"
#include "db/store/post_overlay.h"
#include "schema/bytes/annotate.h"
#include "schema/records/records.h"
#include "schema/status.h"

namespace ckptdb {
namespace {

using internal::Annotate;

// Attempts to open a step that the owner keeps overwriting.
constexpr int kLeaseTries = 5;

}  // namespace

absl::StatusOr<std::unique_ptr<Reader::Impl>> Reader::Impl::Open(
    absl::string_view path, const StoreOptions& options) {
  CKPTDB_RETURN_IF_ERROR(internal::CheckEnumerator(
      "StoreOptions::leases", options.leases, StoreOptions::LeaseMode::kNone));
  if (options.lease_ms <= 0) {
    return absl::InvalidArgumentError(absl::StrCat("StoreOptions::lease_ms is ",
                                                   options.lease_ms,
                                                   "; it must be above 0"));
  }
  if (options.lease_ms > kMaxLeaseMs) {
    return absl::InvalidArgumentError(
        absl::StrCat("StoreOptions::lease_ms is ", options.lease_ms,
                     "; the limit is ", kMaxLeaseMs));
  }
  std::unique_ptr<Impl> impl;
  if (options.environment == nullptr && internal::IsUrl(path)) {
    CKPTDB_ASSIGN_OR_RETURN(impl, MakeForUrl(path, options));
  } else {
    CKPTDB_ASSIGN_OR_RETURN(
        const std::string resolved,
        internal::ResolveStorePath(path, options.environment));
    impl.reset(new Impl(resolved, options, nullptr));
  }
  CKPTDB_RETURN_IF_ERROR(impl->OpenFirst());
  impl->leases_.StopAtExit();
  return impl;
}

// The store of a URL is in memory, where a lease would keep nothing.
absl::StatusOr<std::unique_ptr<Reader::Impl>> Reader::Impl::MakeForUrl(
    absl::string_view path, const StoreOptions& options) {
  if (options.leases == StoreOptions::LeaseMode::kRequired) {
    return absl::FailedPreconditionError(
        absl::StrCat("StoreOptions::leases is kRequired, but \"", path,
                     "\" is a URL, where steps cannot be leased; use "
                     "kWherePossible"));
  }
  CKPTDB_ASSIGN_OR_RETURN(auto url, internal::OpenUrlStore(path));
  StoreOptions opening = options;
  opening.environment = url->environment();
  opening.leases = StoreOptions::LeaseMode::kNone;
  const std::string resolved = url->path();
  return std::unique_ptr<Impl>(new Impl(resolved, opening, std::move(url)));
}

absl::Status Reader::Impl::CheckFolder(absl::string_view doing,
                                       absl::string_view remedy) const {
  if (url_ == nullptr) return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrCat(
      path_, ": ", doing, " is not possible through a URL; ", remedy));
}

absl::Status Reader::Impl::CatchUp() {
  if (url_ != nullptr) CKPTDB_RETURN_IF_ERROR(url_->Refresh());
  return Refresh();
}

// Returns whether a store is being created: LOCK is its first file. A RocksDB
// folder has a LOCK, too, but also a CURRENT.
absl::StatusOr<bool> Reader::Impl::IsBeingCreated() const {
  rocksdb::FileSystem* const files = environment_->file_system().get();
  CKPTDB_ASSIGN_OR_RETURN(const bool lock,
                          internal::Exists(files, path_ + "/LOCK"));
  if (!lock) return false;
  CKPTDB_ASSIGN_OR_RETURN(const bool current,
                          internal::Exists(files, path_ + "/CURRENT"));
  return !current;
}

// Creating a store takes some tens of milliseconds. Until it is complete,
// opening returns NotFound.
absl::Status Reader::Impl::OpenFirst() {
  constexpr int kTries = 200;
  constexpr auto kPause = std::chrono::milliseconds(10);
  internal::Mutex mutex;
  internal::ConditionVariable never;
  absl::Status status;
  for (int i = 0; i < kTries; ++i) {
    status = Refresh();
    if (!absl::IsNotFound(status)) return status;
    CKPTDB_ASSIGN_OR_RETURN(const bool begun, IsBeingCreated());
    if (!begun) return status;
    const internal::MutexLock lock(&mutex);
    never.WaitUntil(&mutex, std::chrono::steady_clock::now() + kPause);
  }
  return absl::NotFoundError(
      absl::StrCat("the store at \"", path_,
                   "\" is incomplete, and was not completed within ",
                   absl::FormatDuration(absl::FromChrono(kTries * kPause)),
                   "; Store::Open completes it: ", status.message()));
}

absl::Status Reader::Impl::Refresh() {
  const internal::MutexLock refresh(&refresh_mutex_);
  // Posts are read first: a post that the owner takes meanwhile is then seen
  // twice instead of never.
  const bool posted = waiting_.Refresh(leases_.files(), path_);
  // Opening takes a while, so it holds only the mutex of refreshes; calls
  // proceed with the old database.
  const std::shared_ptr<const internal::Database> before = database();
  // An error here is no reason to fail: if something is wrong, opening the
  // database below reports it.
  const bool current = before != nullptr && before->IsCurrent().value_or(false);
  if (current && !posted) return absl::OkStatus();
  std::shared_ptr<const internal::Database> newer = before;
  internal::Catalog catalog;
  if (!current) {
    CKPTDB_ASSIGN_OR_RETURN(newer, OpenNewer(before, &catalog));
  }
  const internal::MutexLock lock(&mutex_);
  database_ = std::move(newer);
  if (!current) catalog_ = std::move(catalog);
  overlaid_ = internal::OverlayPosts(waiting_.posts(), uuid_, catalog_);
  return absl::OkStatus();
}

// Opens the owner's current database and reads its records.
absl::StatusOr<std::shared_ptr<const internal::Database>>
Reader::Impl::OpenNewer(const std::shared_ptr<const internal::Database>& before,
                        internal::Catalog* catalog) {
  absl::StatusOr<std::shared_ptr<const internal::Database>> opened =
      internal::Database::OpenFollower(path_, *environment_,
                                       options_.direct_reads);
  // The first open returns NotFound. Later, NotFound means that the store was
  // removed.
  const bool gone = before != nullptr && absl::IsNotFound(opened.status());
  if (!gone) CKPTDB_RETURN_IF_ERROR(opened.status());
  if (!gone) {
    CKPTDB_ASSIGN_OR_RETURN(*catalog,
                            Annotate(internal::LoadCatalog(**opened), path_));
    if (before == nullptr) uuid_ = catalog->root.uuid;
  }
  if (gone || catalog->root.uuid != uuid_) {
    return absl::FailedPreconditionError(absl::StrCat(
        "\"", path_,
        "\" was removed or replaced since it was opened; open a new Reader"));
  }
  return opened;
}

absl::StatusOr<Usage> Reader::Impl::GetUsage(bool by_name) const {
  CKPTDB_RETURN_IF_ERROR(CheckFolder("measuring disk usage",
                                     "\"ckptdb remote ls URL\" lists sizes"));
  std::shared_ptr<const internal::Database> database;
  internal::Catalog catalog;
  {
    const internal::MutexLock lock(&mutex_);
    database = database_;
    // The copies are from one moment. Measuring, which reads files, does not
    // block other calls.
    catalog = catalog_;
  }
  return internal::MeasureUsage(*database, path_, catalog,
                                environment_->NowMicros(), nullptr, by_name);
}

// The plan of a read, at one moment.
template <typename Plan>
struct Reader::Impl::Planned {
  Version version;  // the step's, to check that it is still the same
  std::vector<Version> versions;
  Plan plan;
  std::shared_ptr<const internal::Database> database;
};

// The plan of a read, and the lease that protects its data from the sweep.
template <typename Plan>
struct Reader::Impl::Leased {
  Plan plan;
  const internal::Database* database;
  ReadHold hold;
};

template <typename Plan>
auto Reader::Impl::PlanNow(const MakePlan<Plan>& make_plan) const
    -> absl::StatusOr<Planned<Plan>> {
  const internal::MutexLock lock(&mutex_);
  // The catalog and the database are from the same refresh.
  absl::StatusOr<Planned<Plan>> made = Annotate(make_plan(catalog_), path_);
  if (made.ok()) made->database = database_;
  return made;
}

// Takes the lease, then checks that the step still exists: the owner reads the
// leases after the commit that retires a step. So either the owner sees the
// lease, or this sees that the step was removed.
template <typename Plan>
auto Reader::Impl::PlanWithLease(int64_t step, const MakePlan<Plan>& make_plan)
    -> absl::StatusOr<Leased<Plan>> {
  // A step that is not in the catalog may have been committed since the last
  // refresh.
  if (!FindStep(step).ok()) CKPTDB_RETURN_IF_ERROR(CatchUp());
  absl::StatusOr<Planned<Plan>> planned = PlanNow(make_plan);
  if (!planned.ok()) {
    // The error is as of the last refresh; after another one it may be gone.
    CKPTDB_RETURN_IF_ERROR(CatchUp());
    planned = PlanNow(make_plan);
  }
  for (int i = 0; i < kLeaseTries; ++i) {
    CKPTDB_RETURN_IF_ERROR(planned.status());
    CKPTDB_ASSIGN_OR_RETURN(internal::ReaderLeases::Taken taken,
                            leases_.Take(step, planned->versions));
    CKPTDB_RETURN_IF_ERROR(Refresh());
    const Version before = planned->version;
    const std::vector<Version> leased = planned->versions;
    planned = PlanNow(make_plan);
    if (!planned.ok() || planned->version != before ||
        planned->versions != leased) {
      continue;
    }
    ReadHold::ExplainFunction explain;
    if (taken.lease == nullptr) {
      explain = [this, step, make_plan, leased,
                 why = taken.no_lease](const absl::Status& status) {
        return ExplainRemoval<Plan>(step, make_plan, leased, why, status);
      };
    }
    const internal::Database* const database = planned->database.get();
    // The lease is released before the database.
    auto hold =
        std::make_shared<std::pair<std::shared_ptr<const internal::Database>,
                                   std::shared_ptr<void>>>(
            std::move(planned->database), std::move(taken.lease));
    return Leased<Plan>{std::move(planned->plan), database,
                        ReadHold(std::move(hold), std::move(explain))};
  }
  return absl::UnavailableError(
      absl::StrCat(path_, ": step ", step, " was overwritten ", kLeaseTries,
                   " times while it was being opened; try again"));
}

// Explains an error of a read without a lease: if the owner has removed the
// step meanwhile, that is the cause.
template <typename Plan>
absl::Status Reader::Impl::ExplainRemoval(int64_t step,
                                          const MakePlan<Plan>& make_plan,
                                          const std::vector<Version>& versions,
                                          const absl::Status& no_lease,
                                          const absl::Status& status) {
  // A removed file shows as a missing entry or file, or as a failed read.
  if (!absl::IsDataLoss(status) && !absl::IsUnavailable(status)) return status;
  if (!CatchUp().ok()) return status;  // the cause remains unknown
  const absl::StatusOr<Planned<Plan>> now = PlanNow(make_plan);
  // The step needs the same versions as before, so nothing was removed and the
  // error is genuine.
  if (now.ok() && now->versions == versions) return status;
  return absl::AbortedError(absl::StrCat(
      path_, ": step ", step, " was removed while it was read without a lease",
      no_lease.ok() ? "" : absl::StrCat(" (", no_lease.message(), ")"), ": ",
      status.message()));
}

absl::StatusOr<std::unique_ptr<StepReader>> Reader::Impl::OpenStep(
    int64_t step) {
  using Chain = std::vector<StepRecord>;
  absl::StatusOr<Leased<Chain>> leased = PlanWithLease<Chain>(
      step,
      [step](
          const internal::Catalog& catalog) -> absl::StatusOr<Planned<Chain>> {
        CKPTDB_ASSIGN_OR_RETURN(const StepRecord record,
                                catalog.FindStep(step));
        CKPTDB_ASSIGN_OR_RETURN(Chain chain,
                                internal::ChainOf(catalog, record));
        return Planned<Chain>{record.version, internal::VersionsOf(record),
                              std::move(chain), nullptr};
      });
  CKPTDB_RETURN_IF_ERROR(leased.status());
  return StepReader::Impl::Load(leased->database, std::move(leased->plan),
                                std::move(leased->hold));
}

absl::StatusOr<std::unique_ptr<ChangeReader>> Reader::Impl::OpenChanges(
    const Version& from, int64_t to) {
  absl::StatusOr<Leased<ChangePlan>> leased = PlanWithLease<ChangePlan>(
      to,
      [from, to](const internal::Catalog& catalog)
          -> absl::StatusOr<Planned<ChangePlan>> {
        CKPTDB_ASSIGN_OR_RETURN(ChangePlan plan,
                                PlanChanges(catalog, from, to));
        std::vector<Version> versions = plan.versions();
        std::sort(versions.begin(), versions.end());
        versions.erase(std::unique(versions.begin(), versions.end()),
                       versions.end());
        return Planned<ChangePlan>{plan.to_chain.back().version,
                                   std::move(versions), std::move(plan),
                                   nullptr};
      });
  CKPTDB_RETURN_IF_ERROR(leased.status());
  return ChangeReader::Impl::Load(leased->database, std::move(leased->plan),
                                  std::move(leased->hold));
}

absl::Status Reader::Impl::PostMetrics(int64_t step, const Metrics& metrics) {
  if (metrics.empty()) return absl::OkStatus();
  Post post;
  post.metrics = metrics;
  return WritePost(step, std::move(post));
}

absl::Status Reader::Impl::RequestPin(int64_t step, bool pin) {
  Post post;
  (pin ? post.pin : post.unpin) = true;
  return WritePost(step, std::move(post));
}

absl::Status Reader::Impl::RequestEphemeral(int64_t step, bool ephemeral) {
  Post post;
  post.lifetime =
      ephemeral ? Post::Lifetime::kEphemeral : Post::Lifetime::kPermanent;
  return WritePost(step, std::move(post));
}

// The later of two posts has the later time, whatever the clock reads.
int64_t Reader::Impl::NextPostMicros() {
  const internal::MutexLock lock(&mutex_);
  last_post_micros_ =
      std::max(environment_->NowMicros(), last_post_micros_ + 1);
  return last_post_micros_;
}

absl::Status Reader::Impl::WritePost(int64_t step, Post post) {
  CKPTDB_RETURN_IF_ERROR(CheckFolder(
      "changing a step", "change it in the store that was shipped there"));
  if (!parts().empty()) {
    return absl::FailedPreconditionError(absl::StrCat(
        path_,
        ": its steps cannot be changed, because it was fetched with only ",
        parts()));
  }
  CKPTDB_RETURN_IF_ERROR(internal::CheckIsNoBackup(leases_.files(), path_));
  if (!FindStep(step).ok()) CKPTDB_RETURN_IF_ERROR(Refresh());
  CKPTDB_ASSIGN_OR_RETURN(const StepRecord record, FindStep(step));
  post.posted_at_micros = NextPostMicros();
  post.uuid = internal::NewTimeUuid(post.posted_at_micros);
  post.store_uuid = uuid_;
  // The state's version, so that the post remains valid when the owner folds
  // the step.
  post.version = StateOf(record);
  return internal::WritePost(leases_.files(), path_, post);
}

namespace {

// Calls `function` and converts exceptions to a status. Fails in a forked
// child.
template <typename Impl, typename Function>
auto CallReader(const Impl& impl, absl::string_view what, Function&& function)
    -> std::invoke_result_t<Function> {
  CKPTDB_RETURN_IF_ERROR(impl.home().CheckAlive(what));
  return internal::CallGuarded(what, std::forward<Function>(function));
}

}  // namespace

Reader::Reader(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Reader::~Reader() {
  if (impl_ != nullptr) impl_->home().KeepInChild(&impl_);
}

absl::StatusOr<std::unique_ptr<Reader>> Reader::Open(
    absl::string_view path, const StoreOptions& options) {
  return internal::CallGuarded(
      "Reader::Open", [&]() -> absl::StatusOr<std::unique_ptr<Reader>> {
        CKPTDB_RETURN_IF_ERROR(internal::EnterLibrary("Reader::Open"));
        CKPTDB_ASSIGN_OR_RETURN(std::unique_ptr<Impl> impl,
                                Impl::Open(path, options));
        return std::unique_ptr<Reader>(new Reader(std::move(impl)));
      });
}

const std::string& Reader::path() const { return impl_->path(); }
const std::string& Reader::uuid() const { return impl_->uuid(); }
std::vector<std::string> Reader::BadFiles() const {
  if (impl_->home().IsForked()) return {};
  return impl_->BadFiles();
}
absl::Status Reader::Refresh() {
  return CallReader(*impl_, "Reader::Refresh",
                    [&] { return impl_->CatchUp(); });
}
Reader::Posted Reader::FindPosted(int64_t step) const {
  if (impl_->home().IsForked()) return {};
  return impl_->FindPosted(step);
}
std::vector<StepRecord> Reader::Steps() const {
  if (impl_->home().IsForked()) return {};
  return impl_->Steps();
}
absl::StatusOr<StepRecord> Reader::FindStep(int64_t step) const {
  return CallReader(*impl_, "Reader::FindStep",
                    [&] { return impl_->FindStep(step); });
}
absl::StatusOr<StepRecord> Reader::Latest() const {
  return CallReader(*impl_, "Reader::Latest", [&] { return impl_->Latest(); });
}
UserMetadata Reader::user_metadata() const {
  if (impl_->home().IsForked()) return {};
  return impl_->user_metadata();
}
std::string Reader::parts() const {
  if (impl_->home().IsForked()) return "";
  return impl_->parts();
}
absl::StatusOr<std::vector<StepRecord::Rank>> Reader::FindRanks(
    int64_t step) const {
  return CallReader(*impl_, "Reader::FindRanks",
                    [&] { return impl_->FindRanks(step); });
}
absl::StatusOr<Usage> Reader::GetUsage(bool by_name) const {
  return CallReader(*impl_, "Reader::GetUsage",
                    [&] { return impl_->GetUsage(by_name); });
}
absl::StatusOr<std::vector<int64_t>> Reader::LeaseEnds(
    const Version& version) const {
  return CallReader(*impl_, "Reader::LeaseEnds",
                    [&] { return impl_->LeaseEnds(version); });
}
absl::StatusOr<std::optional<StepRecord::Evaluation>> Reader::FindEvaluation(
    int64_t step, absl::string_view evaluation, uint32_t rank) const {
  return CallReader(*impl_, "Reader::FindEvaluation", [&] {
    return impl_->FindEvaluation(step, evaluation, rank);
  });
}
absl::StatusOr<std::vector<std::pair<std::string, uint32_t>>>
Reader::ListEvaluations(int64_t step) const {
  return CallReader(*impl_, "Reader::ListEvaluations",
                    [&] { return impl_->ListEvaluations(step); });
}
absl::StatusOr<std::unique_ptr<StepReader>> Reader::OpenStep(int64_t step) {
  return CallReader(*impl_, "Reader::OpenStep",
                    [&] { return impl_->OpenStep(step); });
}
absl::Status Reader::PostMetrics(int64_t step, const Metrics& metrics) {
  return CallReader(*impl_, "Reader::PostMetrics",
                    [&] { return impl_->PostMetrics(step, metrics); });
}
absl::Status Reader::RequestPin(int64_t step) {
  return CallReader(*impl_, "Reader::RequestPin",
                    [&] { return impl_->RequestPin(step, /*pin=*/true); });
}
absl::Status Reader::RequestUnpin(int64_t step) {
  return CallReader(*impl_, "Reader::RequestUnpin",
                    [&] { return impl_->RequestPin(step, /*pin=*/false); });
}

absl::Status Reader::RequestEphemeral(int64_t step, bool ephemeral) {
  return CallReader(*impl_, "Reader::RequestEphemeral",
                    [&] { return impl_->RequestEphemeral(step, ephemeral); });
}
absl::StatusOr<std::unique_ptr<ChangeReader>> Reader::OpenChanges(
    const Version& from, int64_t to) {
  return CallReader(*impl_, "Reader::OpenChanges",
                    [&] { return impl_->OpenChanges(from, to); });
}

}  // namespace ckptdb
