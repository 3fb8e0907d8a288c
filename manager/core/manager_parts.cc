// SPDX-License-Identifier: Apache-2.0
#include "manager/core/manager_parts.h"

#include <algorithm>
#include <chrono>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "db/base/call_guard.h"
#include "db/base/option_checks.h"
#include "db/base/resolve_path.h"
#include "db/base/staging.h"
#include "db/base/url_stores.h"
#include "manager/config/statistics.h"
#include "manager/core/reporter.h"
#include "manager/policy/policy_checks.h"
#include "manager/policy/retention.h"
#include "manager/policy/save_schedule.h"
#include "manager/ranks/message_codec.h"
#include "manager/ranks/tell_status.h"
#include "manager/save/rank_names.h"
#include "manager/state/model_sharding.h"
#include "manager/state/poll_cancelled.h"
#include "manager/state/reader_options.h"
#include "schema/bytes/annotate.h"
#include "schema/bytes/user_metadata.h"
#include "schema/status.h"

namespace ckptdb::internal {
namespace {

constexpr char kWhere[] = "ManagerOptions";

// Returns InvalidArgument for a negative duration, and for 0 unless 0 has a
// meaning.
absl::Status CheckDuration(absl::string_view name, absl::Duration value,
                           bool may_be_zero) {
  if (value > absl::ZeroDuration()) return absl::OkStatus();
  if (may_be_zero && value == absl::ZeroDuration()) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(kWhere, ": ", name, " is ", absl::FormatDuration(value),
                   "; it must be ", may_be_zero ? "at least" : "above", " 0"));
}

// 0 steps or failures turn an option off; 0 threads, a deadline of 0 and a
// polling interval of 0 are meaningless.
absl::Status CheckNumbers(const ManagerOptions& options) {
  CKPTDB_RETURN_IF_ERROR(
      CheckAtLeast(kWhere, "base_every", options.save.base_every, 0));
  CKPTDB_RETURN_IF_ERROR(CheckThreads("ManagerOptions::save.copy_threads",
                                      options.save.copy_threads));
  CKPTDB_RETURN_IF_ERROR(CheckThreads("ManagerOptions::store.stage_threads",
                                      options.store.stage_threads));
  CKPTDB_RETURN_IF_ERROR(CheckThreads("ManagerOptions::restore.read.threads",
                                      options.restore.read.threads));
  CKPTDB_RETURN_IF_ERROR(CheckAtLeast(kWhere, "tolerated_failures",
                                      options.save.tolerated_failures, 0));
  CKPTDB_RETURN_IF_ERROR(CheckAtLeast(kWhere, "retry_after_steps",
                                      options.save.retry_after_steps, 0));
  CKPTDB_RETURN_IF_ERROR(CheckDuration("warn_waiting",
                                       options.observers.warn_waiting,
                                       /*may_be_zero=*/true));
  CKPTDB_RETURN_IF_ERROR(CheckDuration("preemption_grace",
                                       options.save.preemption_grace,
                                       /*may_be_zero=*/true));
  CKPTDB_RETURN_IF_ERROR(CheckDuration("warn_lag", options.ship.warn_lag,
                                       /*may_be_zero=*/false));
  CKPTDB_RETURN_IF_ERROR(
      CheckAtLeast(kWhere, "keep_unshipped", options.ship.keep_unshipped, 0));
  CKPTDB_RETURN_IF_ERROR(CheckDuration("close_wait", options.ship.close_wait,
                                       /*may_be_zero=*/true));
  CKPTDB_RETURN_IF_ERROR(CheckDuration("await_store",
                                       options.follow.await_store,
                                       /*may_be_zero=*/true));
  CKPTDB_RETURN_IF_ERROR(
      CheckDuration("deadline", options.ranks.deadline, /*may_be_zero=*/false));
  CKPTDB_RETURN_IF_ERROR(CheckDuration("notice_interval",
                                       options.ranks.notice_interval,
                                       /*may_be_zero=*/true));
  return CheckDuration("poll_every", options.follow.poll_every,
                       /*may_be_zero=*/false);
}

absl::Status CheckEnumerators(const ManagerOptions& options) {
  CKPTDB_RETURN_IF_ERROR(CheckEnumerator("ManagerOptions::save.busy",
                                         options.save.busy,
                                         ManagerOptions::BusyPolicy::kFail));
  CKPTDB_RETURN_IF_ERROR(CheckEnumerator("ManagerOptions::save.first_save",
                                         options.save.first_save,
                                         ManagerOptions::FirstSave::kNever));
  CKPTDB_RETURN_IF_ERROR(CheckEnumerator("ManagerOptions::restore.abandoned",
                                         options.restore.abandoned,
                                         SaveSpec::Abandoned::kRemove));
  CKPTDB_RETURN_IF_ERROR(CheckEnumerator(
      "ManagerOptions::ranks.replicated_saver", options.ranks.replicated_saver,
      ManagerOptions::ReplicatedSaver::kOwner));
  return CheckEnumerator("ManagerOptions::restore.io_state_resize",
                         *options.restore.io_state_resize,
                         ManagerOptions::IoStateResize::kWrap);
}

// Checked at each Open, because a mistake would otherwise show only once the
// store is missing.
absl::Status CheckFetchFrom(const std::string& url) {
  if (url.empty() || IsUrl(url)) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("ManagerOptions::restore.fetch_from is \"", url,
                   "\"; it must be a URL, such as \"s3://bucket/prefix\" or "
                   "\"file:///folder\""));
}

// Checks options that Effective has returned.
absl::Status CheckOptions(const ManagerOptions& options) {
  if (options.path.empty()) {
    return absl::InvalidArgumentError(
        "ManagerOptions: path is empty; set it to the folder of the store");
  }
  if (!options.read_only || !IsUrl(options.path)) {
    CKPTDB_RETURN_IF_ERROR(
        Store::ResolvePath(options.path, options.store).status());
  }
  CKPTDB_RETURN_IF_ERROR(CheckFetchFrom(options.restore.fetch_from));
  CKPTDB_RETURN_IF_ERROR(Annotate(CheckSchedule(options.schedule), kWhere));
  CKPTDB_RETURN_IF_ERROR(Annotate(CheckRetention(options.retention), kWhere));
  if (options.restore.best.has_value()) {
    CKPTDB_RETURN_IF_ERROR(
        Annotate(CheckBest("best", *options.restore.best), kWhere));
  }
  CKPTDB_RETURN_IF_ERROR(CheckChainBounds(options.save.bounds));
  CKPTDB_RETURN_IF_ERROR(CheckModes("ManagerOptions::store.",
                                    options.store.directory_mode,
                                    options.store.file_mode));
  CKPTDB_RETURN_IF_ERROR(Annotate(CheckUserMetadata(options.save.user_metadata),
                                  "ManagerOptions::save.user_metadata"));
  CKPTDB_RETURN_IF_ERROR(
      Annotate(CheckUserMetadata(options.save.store_metadata),
               "ManagerOptions::save.store_metadata"));
  CKPTDB_RETURN_IF_ERROR(CheckEnumerators(options));
  return CheckNumbers(options);
}

// Checks a manager that restores a single rank's part of a job: see "Restoring
// one failed rank" in docs/manager.md.
absl::Status CheckShard(const ManagerParts& parts) {
  if (!parts.options.follow.shard.has_value()) return absl::OkStatus();
  const ModelState::Shard& shard = *parts.options.follow.shard;
  const std::string own = absl::StrCat("ManagerOptions::follow.shard is rank ",
                                       shard.rank, " of ", shard.world_size);
  if (shard.rank >= shard.world_size) {
    return absl::InvalidArgumentError(
        absl::StrCat(own, "; the rank must be below the world size"));
  }
  if (!parts.options.read_only) {
    return absl::InvalidArgumentError(absl::StrCat(
        own, ", but read_only is false; a single rank can only restore"));
  }
  if (parts.world_size() == 1) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(own, ", but the coordinator has ", parts.world_size(),
                   " ranks; a single rank restores with SingleProcess()"));
}

// Returns the options without those that cannot apply, so that the rest of the
// manager checks one option rather than several.
ManagerOptions Effective(ManagerOptions options) {
  // CheckOptions rejects a path that cannot be resolved.
  options.path =
      Store::ResolvePath(options.path, options.store).value_or(options.path);
  if (!options.observers.statistics_path.empty()) {
    options.observers.statistics_path =
        ResolvePath(options.observers.statistics_path)
            .value_or(options.observers.statistics_path);
  }
  if (options.read_only) options.save.enabled = false;
  if (!options.restore.io_state_resize.has_value()) {
    // A reader does not resume the input of a training, and restores with any
    // number of ranks.
    options.restore.io_state_resize =
        options.read_only ? ManagerOptions::IoStateResize::kReset
                          : ManagerOptions::IoStateResize::kError;
  }
  if (!options.save.enabled) {
    options.save.deltas = false;  // no save would take the marked rows
    options.save.store_metadata.clear();
  }
  if (!options.read_only) return options;
  options.store = {};
  options.schedule = {};
  options.retention = {};
  options.ship = {};
  options.observers.on_saved = nullptr;
  options.observers.on_deleted = nullptr;
  options.observers.statistics_path.clear();
  return options;
}

// Compares attempts and commit times, because clocks of machines differ and
// diverged copies use the same attempt numbers.
bool IsBehind(const Reader& reader, const UrlStep& newest) {
  for (const StepRecord& record : reader.Steps()) {
    if (record.version == newest.version &&
        record.committed_at_micros == newest.committed_at_micros) {
      return false;
    }
  }
  const absl::StatusOr<StepRecord> latest = reader.Latest();
  return !latest.ok() || latest->version.attempt < newest.version.attempt ||
         latest->committed_at_micros < newest.committed_at_micros;
}

// The store may be older than the remote if another machine has continued the
// training.
void WarnIfRemoteIsNewer(const Reader& reader, ManagerParts* parts) {
  const ManagerOptions& options = parts->options;
  const absl::StatusOr<UrlStep> newest =
      NewestUrlStep(options.restore.fetch_from, options.observers.cancelled);
  if (absl::IsNotFound(newest.status())) return;
  if (!newest.ok()) {
    parts->warnings.WarnOfUnknownRemote(newest.status());
    return;
  }
  if (!IsBehind(reader, *newest)) return;
  parts->warnings.WarnOfNewerRemote(newest->version.step);
}

// Makes a missing store with the newest step of a remote. A store with steps
// continues with these.
absl::Status FetchMissingStore(ManagerParts* parts) {
  const ManagerOptions& options = parts->options;
  const std::string& url = options.restore.fetch_from;
  if (url.empty()) return absl::OkStatus();
  const auto reader = Reader::Open(options.path, ReaderOptionsOf(options));
  if (reader.ok() && !(*reader)->Steps().empty()) {
    WarnIfRemoteIsNewer(**reader, parts);
    return absl::OkStatus();
  }
  if (!reader.ok() && !absl::IsNotFound(reader.status())) {
    return reader.status();
  }
  const absl::Status fetched =
      FetchUrlStore(url, options.path, options.observers.cancelled);
  if (absl::IsNotFound(fetched)) {
    parts->warnings.Warn(
        absl::StrCat("ManagerOptions::restore.fetch_from: ", fetched.message(),
                     "; the training begins with an empty store"));
    return absl::OkStatus();
  }
  return Annotate(fetched, "ManagerOptions::restore.fetch_from");
}

// The first manager with metadata for the store writes it. Later ones keep what
// they find, as other jobs may rely on it.
absl::Status OpenStore(ManagerParts* parts) {
  const ManagerOptions& options = parts->options;
  CKPTDB_RETURN_IF_ERROR(FetchMissingStore(parts));
  CKPTDB_ASSIGN_OR_RETURN(parts->store,
                          Store::Open(options.path, options.store));
  parts->warnings.WarnOfBadFiles(*parts->store);
  const absl::StatusOr<StepRecord> latest = parts->store->Latest();
  if (latest.ok()) parts->newest_at_open = latest->version.step;
  const UserMetadata before = parts->store->user_metadata();
  const UserMetadata& wanted = options.save.store_metadata;
  if (wanted.empty() || wanted == before) return absl::OkStatus();
  if (before.empty()) return parts->store->SetUserMetadata(wanted);
  parts->warnings.WarnOfMetadata();
  return absl::OkStatus();
}

absl::Status BeginShipping(ManagerParts* parts) {
  if (!parts->options.ship.to) return absl::OkStatus();
  absl::StatusOr<std::shared_ptr<StepShipping>> shipping =
      parts->options.ship.to(
          parts->options.path, [parts](const ShipReport& report) {
            // Even while the manager is being closed, the callback must not
            // call it: Close waits for this thread.
            const CallGate::Call call(&parts->calls);
            ReportShipped(parts->options, report, &parts->errors);
          });
  CKPTDB_RETURN_IF_ERROR(
      Annotate(shipping.status(), "ManagerOptions::ship.to"));
  parts->shipping = *std::move(shipping);
  return absl::OkStatus();
}

// Opens a store that another job writes, and waits until that job has created
// it.
absl::StatusOr<std::unique_ptr<Reader>> AwaitReader(
    const ManagerOptions& options) {
  const absl::Time end = absl::Now() + options.follow.await_store;
  while (true) {
    absl::StatusOr<std::unique_ptr<Reader>> reader =
        Reader::Open(options.path, ReaderOptionsOf(options));
    if (!absl::IsNotFound(reader.status())) return reader;
    const absl::Time now = absl::Now();
    if (now < end) {
      const absl::Time next = std::min(end, now + options.follow.poll_every);
      CKPTDB_RETURN_IF_ERROR(
          WaitPolling(options.observers.cancelled, "the store to be created",
                      [&](std::chrono::milliseconds time) {
                        absl::SleepFor(std::min(absl::FromChrono(time),
                                                next - absl::Now()));
                        return absl::Now() >= next;
                      }));
      continue;
    }
    return absl::NotFoundError(absl::StrCat(
        reader.status().message(),
        "; a read-only manager does not create a store; it waited ",
        absl::FormatDuration(options.follow.await_store),
        " for it (ManagerOptions::follow.await_store)"));
  }
}

// Returns how long the ranks wait for each other in Open.
absl::Duration OpenDeadline(const ManagerOptions& options) {
  const absl::Duration longest = absl::Hours(24) * 365;  // clocks overflow
  return options.ranks.deadline + std::min(options.read_only
                                               ? options.follow.await_store
                                               : absl::Duration(),
                                           longest);
}

// Opens this rank's own parts.
absl::Status OpenOwnParts(ManagerParts* parts) {
  const ManagerOptions& options = parts->options;
  if (options.read_only) {
    CKPTDB_ASSIGN_OR_RETURN(parts->reader, AwaitReader(options));
  } else if (parts->is_owner()) {
    CKPTDB_RETURN_IF_ERROR(OpenStore(parts));
    CKPTDB_RETURN_IF_ERROR(BeginShipping(parts));
  }
  if (!options.save.deltas) return absl::OkStatus();
  parts->feed = std::make_unique<ChangeFeed>(*parts->model, options.path);
  return parts->feed->Join();
}

// Refuses everything it can before it opens the store, which takes the store's
// lock and may change it.
absl::Status CheckAndOpen(ManagerParts* parts) {
  const ManagerOptions& options = parts->options;
  CKPTDB_RETURN_IF_ERROR(CheckOptions(options));
  CKPTDB_RETURN_IF_ERROR(CheckShard(*parts));
  if (parts->model == nullptr) {
    return absl::InvalidArgumentError(
        "CheckpointManager::Open: the model is null; give it a ModelState");
  }
  CKPTDB_ASSIGN_OR_RETURN(
      parts->shardings, ResolveShardings(*parts->model, options.ranks.sharding,
                                         parts->shard().world_size));
  if (parts->is_owner() && !options.observers.statistics_path.empty()) {
    CKPTDB_RETURN_IF_ERROR(
        CheckStatisticsPath(options.observers.statistics_path));
  }
  return CallGuarded("opening a manager", [&] { return OpenOwnParts(parts); });
}

// The declarations that must match on all ranks.
struct Declarations {
  std::string shardings;
  RankNames names;
};

// Returns InvalidArgument if a rank's declarations differ from rank 0's: with
// different shardings, two ranks or none would restore a row; with different
// names, two ranks or none would save a tensor or an object.
absl::Status CompareDeclarations(const Declarations& own, size_t rank,
                                 absl::string_view bytes) {
  Declarations other;
  MessageReader reader(bytes);
  if (!reader.Get(&other.shardings, &other.names)) {
    return CannotDecode(bytes.size());
  }
  if (other.shardings != own.shardings) {
    return absl::InvalidArgumentError(
        absl::StrCat("the ranks declare different shardings: rank 0 has ",
                     own.shardings, ", rank ", rank, " has ", other.shardings,
                     "; they must match on all ranks"));
  }
  return CompareNames(own.names, rank, other.names);
}

// Returns InvalidArgument on all ranks if any rank's declarations differ from
// rank 0's.
absl::Status AgreeOnDeclarations(const ManagerParts& parts) {
  if (parts.world_size() == 1) return absl::OkStatus();
  // Only the owner receives all declarations. It compares them and sends the
  // others the result.
  Coordinator* const ranks = parts.ranks.get();
  const Declarations own = {DescribeShardings(*parts.model, parts.shardings),
                            NamesOf(*parts.model, parts.options.ranks)};
  std::string bytes;
  MessageWriter(&bytes).Put(own.shardings, own.names);
  const absl::StatusOr<std::vector<std::string>> all = ranks->Gather(
      "declarations", std::move(bytes), parts.options.ranks.deadline);
  absl::Status status = all.status();
  for (size_t rank = 1; all.ok() && rank < all->size(); ++rank) {
    status.Update(CompareDeclarations(own, rank, (*all)[rank]));
  }
  return TellStatus(ranks, "declarations", status,
                    parts.options.ranks.deadline);
}

}  // namespace

ManagerParts::ManagerParts(ManagerOptions given_options,
                           const ModelState* given_model,
                           std::unique_ptr<Coordinator> given_ranks)
    : options(Effective(std::move(given_options))),
      model(given_model),
      ranks(std::move(given_ranks)),
      warnings(options, &errors) {}

// Even if Open failed, the other ranks may not know that yet.
ManagerParts::~ManagerParts() {
  if (shipping != nullptr) shipping->Stop();
  feed.reset();
  reader.reset();
  store.reset();
  ranks->Leave();
}

absl::StatusOr<std::unique_ptr<ManagerParts>> OpenManagerParts(
    const ManagerOptions& options, const ModelState* model,
    std::unique_ptr<Coordinator> ranks) {
  auto parts = std::make_unique<ManagerParts>(options, model, std::move(ranks));
  // Any error so far is the same on all ranks, so either all of them make the
  // duplicates below or none does, as Coordinator::Duplicate requires.
  CKPTDB_RETURN_IF_ERROR(Agree(parts->ranks.get(), "open",
                               CheckAndOpen(parts.get()),
                               OpenDeadline(parts->options)));
  CKPTDB_RETURN_IF_ERROR(AgreeOnDeclarations(*parts));
  CKPTDB_ASSIGN_OR_RETURN(parts->background_ranks, parts->ranks->Duplicate());
  CKPTDB_ASSIGN_OR_RETURN(parts->notice_ranks, parts->ranks->Duplicate());
  return parts;
}

}  // namespace ckptdb::internal
