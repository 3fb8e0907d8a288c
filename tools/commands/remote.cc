// SPDX-License-Identifier: Apache-2.0
// ckptdb remote: a store's steps in an object store.
#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <limits>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "CLI/App.hpp"
#include "CLI/Validators.hpp"
#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/time/time.h"
#include "db/options.h"
#include "manager/manager_options.h"
#include "manager/policies.h"
#include "remote/object_store.h"
#include "remote/remote_store.h"
#include "remote/step_shipper.h"
#include "schema/status.h"
#include "schema/types.h"
#include "tools/command.h"
#include "tools/commands/remote_fetch.h"
#include "tools/format.h"
#include "tools/interrupt.h"
#include "tools/json.h"
#include "tools/open_store.h"
#include "tools/progress_line.h"
#include "tools/text_table.h"
#include "tools/value_checks.h"

namespace ckptdb::tool {
namespace {

constexpr char kRemoteNotes[] =
    "push    ships the steps of the store that URL does not have, even while "
    "a\n"
    "        trainer saves\n"
    "ls      lists the steps that can be fetched\n"
    "fetch   makes a store with a step, by default the newest, or with all; "
    "with\n"
    "        --update, adds the steps that a store lacks; with --tables or\n"
    "        --items, makes one with only these parts, for reading\n"
    "verify  checks that all objects are there, and with --data their bytes\n"
    "gc      deletes objects that nothing needs; with --keep or "
    "--keep-policy,\n"
    "        drops steps first\n"
    "\n"
    "URL is s3://bucket/prefix or file:///folder. Each store has its own.\n";

// Prints why requests are repeated, so that a command does not seem to hang.
class RetryPrinter {
 public:
  explicit RetryPrinter(const Context& context) : context_(context) {}

  // Any thread.
  void Print(const absl::Status& error) {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (error.message() == last_) return;
    last_ = std::string(error.message());
    context_.PrintError(absl::Status(
        error.code(),
        absl::StrCat(last_, "; trying again for up to ",
                     absl::FormatDuration(RemoteOptions().deadline))));
  }

 private:
  const Context& context_;
  std::mutex mutex_;
  std::string last_;
};

class RemoteCommand : public Command {
 public:
  RemoteCommand()
      : Command(
            {.name = "remote",
             .summary = "Ship steps to an object store, and fetch them",
             .notes = kRemoteNotes,
             .examples =
                 "  ckptdb remote push s3://models/ctr -s /checkpoints/ctr\n"
                 "  ckptdb remote push s3://models/ctr -s /checkpoints/ctr "
                 "--follow\n"
                 "  ckptdb remote ls s3://models/ctr\n"
                 "  ckptdb remote fetch s3://models/ctr /checkpoints/new\n"
                 "  ckptdb remote fetch s3://models/ctr /models/ctr --follow "
                 "--keep 3\n"
                 "  ckptdb remote fetch s3://models/ctr /models/user --tables "
                 "user --slots embedding\n"
                 "  ckptdb remote verify s3://models/ctr --data\n"
                 "  ckptdb remote gc s3://models/ctr --keep 20\n"}) {}
  void AddArguments(CLI::App* app) override;
  absl::Status Run(const Context& context) override;

 private:
  using Action = absl::Status (RemoteCommand::*)(const Context&, ObjectStore*);

  void AddRetentionArguments(CLI::App* app);
  absl::Status CheckOptions(const Context& context) const;
  absl::Status Follow(const Context& context, const RemoteOptions& options);
  void PrintPushed(const Context& context, const PushResult& pushed) const;
  absl::Status Push(const Context& context, ObjectStore* remote);
  absl::Status List(const Context& context, ObjectStore* remote);
  absl::Status Fetch(const Context& context, ObjectStore* remote);
  absl::Status Verify(const Context& context, ObjectStore* remote);
  absl::Status Collect(const Context& context, ObjectStore* remote);
  // The document of an action, with the fields that all have.
  Json Document() const { return {{"url", url_}, {"action", action_}}; }

  // An option that only some actions have.
  struct OwnOption {
    const CLI::Option* option;
    std::vector<std::string> actions;
    bool of_follow = false;  // "push" has it only with --follow
  };
  RemoteFetch::Shared FetchShared() const { return {url_, follow_, keep_}; }
  absl::StatusOr<std::optional<RetentionOptions>> Retention() const;
  std::vector<OwnOption> own_options_;
  std::string action_;
  std::string url_;
  RemoteFetch fetch_;
  bool take_over_ = false;
  bool follow_ = false;
  bool data_ = false;
  std::optional<uint64_t> keep_;
  std::string keep_policy_;
  const CLI::Option* keep_policy_option_ = nullptr;
  double grace_hours_ = 24;
  uint64_t limit_mib_ = 0;
};

void RemoteCommand::AddArguments(CLI::App* app) {
  app->add_option("action", action_, "push, ls, fetch, verify or gc")
      ->required()
      ->type_name("ACTION")
      ->check(CLI::IsMember({"push", "ls", "fetch", "verify", "gc"}));
  app->add_option("url", url_, "s3://bucket/prefix or file:///folder")
      ->required()
      ->type_name("URL");
  for (const CLI::Option* const option : fetch_.AddArguments(app)) {
    own_options_.push_back({option, {"fetch"}});
  }
  const std::vector<OwnOption> others = {
      {app->add_flag("--take-over", take_over_,
                     "push: replace steps that the store does not have"),
       {"push"}},
      {app->add_flag("--follow", follow_,
                     "push, fetch: ship steps as they are committed, or fetch "
                     "them as they are shipped, until Ctrl-C"),
       {"push", "fetch"}},
      {app->add_flag("--data", data_, "verify: read all data objects"),
       {"verify"}}};
  own_options_.insert(own_options_.end(), others.begin(), others.end());
  AddRetentionArguments(app);
  app->add_option("--limit-mib", limit_mib_,
                  "transfer at most this many MiB per second")
      ->type_name("N")
      ->check(AtLeast(1));
}

void RemoteCommand::AddRetentionArguments(CLI::App* app) {
  const CLI::Option* const keep =
      app->add_option("--keep", keep_,
                      "gc: drop all but the newest N usable and pinned steps; "
                      "fetch --update, --follow: remove them from STORE")
          ->type_name("N")
          ->check(AtLeast(1));
  keep_policy_option_ =
      app->add_option("--keep-policy", keep_policy_,
                      "gc, push --follow: keep the steps of this policy, in "
                      "JSON")
          ->type_name("POLICY");
  const std::vector<OwnOption> options = {
      {keep, {"gc", "fetch"}},
      {keep_policy_option_, {"gc", "push"}, /*of_follow=*/true},
      {app->add_option("--grace-hours", grace_hours_,
                       "gc, push --follow: keep dropped objects this long; "
                       "default: 24")
           ->type_name("H")
           ->check(AtLeast(0)),
       {"gc", "push"},
       /*of_follow=*/true}};
  own_options_.insert(own_options_.end(), options.begin(), options.end());
}

absl::Status RemoteCommand::CheckOptions(const Context& context) const {
  for (const OwnOption& own : own_options_) {
    const bool fits = std::find(own.actions.begin(), own.actions.end(),
                                action_) != own.actions.end();
    const bool needs_follow = own.of_follow && action_ == "push" && !follow_;
    if (own.option->count() > 0 && needs_follow) {
      return absl::InvalidArgumentError(absl::StrCat(
          own.option->get_name(), " of \"remote push\" needs --follow"));
    }
    if (own.option->count() == 0 || fits) continue;
    return absl::InvalidArgumentError(
        absl::StrCat(own.option->get_name(), " is an option of \"remote ",
                     absl::StrJoin(own.actions, "\" and \"remote "),
                     "\", not of \"remote ", action_, "\""));
  }
  if (keep_.has_value() && keep_policy_option_->count() > 0) {
    return absl::InvalidArgumentError(
        "--keep and --keep-policy are both given");
  }
  return action_ == "fetch" ? fetch_.Check(context, FetchShared())
                            : absl::OkStatus();
}

// A policy of docs/manager.md, as in a manager's configuration.
absl::StatusOr<std::optional<RetentionOptions>> RemoteCommand::Retention()
    const {
  if (keep_policy_option_->count() == 0) return std::nullopt;
  if (absl::StripAsciiWhitespace(keep_policy_).empty()) {
    return absl::InvalidArgumentError(
        "--keep-policy is empty; expected a policy in JSON, such as "
        "'{\"latest_n\": 3}'");
  }
  ManagerOptions options;
  CKPTDB_RETURN_IF_ERROR(ReadManagerConfig(
      absl::StrCat("{\"keep\": ", keep_policy_, "}"), &options));
  return options.retention;
}

absl::Status RemoteCommand::Run(const Context& context) {
  CKPTDB_RETURN_IF_ERROR(CheckOptions(context));
  const Interrupt interrupt;
  RemoteOptions options;
  constexpr uint64_t kMostMib = std::numeric_limits<uint64_t>::max() >> 20;
  options.bytes_per_second = std::min(limit_mib_, kMostMib) << 20;
  options.cancelled = [] { return Interrupt::asked(); };
  if (follow_ && action_ == "push") return Follow(context, options);
  RetryPrinter retries(context);
  options.on_retry = [&](const absl::Status& error) { retries.Print(error); };
  CKPTDB_ASSIGN_OR_RETURN(const auto remote, OpenObjectStore(url_, options));
  const Action action = action_ == "push"     ? &RemoteCommand::Push
                        : action_ == "ls"     ? &RemoteCommand::List
                        : action_ == "fetch"  ? &RemoteCommand::Fetch
                        : action_ == "verify" ? &RemoteCommand::Verify
                                              : &RemoteCommand::Collect;
  const absl::Status status =
      WithoutReserveOption((this->*action)(context, remote.get()));
  // Unavailable is a service that does not answer, unless it names the process
  // that owns the store.
  const bool busy = status.GetPayload(kHolderPayload).has_value();
  return Interrupt::Describe(
      busy ? status : ReadingStatus(status),
      "what was done so far is kept, and the same command continues with it");
}

Json SkippedJson(const PushResult& pushed) {
  Json skipped = Json::array();
  for (const auto& [step, reason] : pushed.skipped) {
    skipped.push_back({{"step", step}, {"reason", reason}});
  }
  return skipped;
}

void RemoteCommand::PrintPushed(const Context& context,
                                const PushResult& pushed) const {
  if (context.json) {
    Json document = Document();
    document.update({{"store", context.store},
                     {"store_uuid", pushed.store_uuid},
                     {"catalog", pushed.catalog},
                     {"epoch", pushed.epoch},
                     {"shipped", pushed.shipped},
                     {"skipped", SkippedJson(pushed)},
                     {"data_files", pushed.data_files},
                     {"data_bytes", pushed.data_bytes}});
    PrintJson(document, context.out);
  } else {
    *context.out << "shipped " << pushed.shipped.size() << " steps to "
                 << Printable(url_) << ": " << pushed.data_files
                 << " data files, " << FormatBytes(pushed.data_bytes) << '\n';
  }
}

// Errors are printed when they change; the shipper retries after each.
absl::Status RemoteCommand::Follow(const Context& context,
                                   const RemoteOptions& options) {
  ShipperOptions shipping;
  shipping.remote = options;
  shipping.take_over = take_over_;
  CKPTDB_ASSIGN_OR_RETURN(shipping.retention, Retention());
  shipping.grace = absl::Hours(1) * grace_hours_;
  shipping.on_shipped = [&](const PushResult& pushed) {
    PrintPushed(context, pushed);
    context.out->flush();
  };
  CKPTDB_ASSIGN_OR_RETURN(const auto shipper,
                          StepShipper::Start(context.store, url_, shipping));
  std::mutex mutex;
  std::condition_variable never;
  std::string last_error;
  while (!Interrupt::asked()) {
    std::unique_lock<std::mutex> lock(mutex);
    never.wait_for(lock, std::chrono::milliseconds(100));
    const absl::Status error = shipper->statistics().last_error;
    if (error.message() == last_error || absl::IsCancelled(error)) continue;
    last_error = std::string(error.message());
    if (!error.ok()) context.PrintError(error);
  }
  return absl::OkStatus();
}

absl::Status RemoteCommand::Push(const Context& context, ObjectStore* remote) {
  ProgressLine progress(context.terminal, "remote push");
  PushOptions options;
  options.take_over = take_over_;
  options.cancelled = [] { return Interrupt::asked(); };
  options.progress = [&](uint64_t done, uint64_t all) {
    progress.Update(done, all);
  };
  CKPTDB_ASSIGN_OR_RETURN(const PushResult pushed,
                          PushStore(context.store, remote, options));
  PrintPushed(context, pushed);
  if (pushed.skipped.empty()) return absl::OkStatus();
  const auto& [step, reason] = pushed.skipped.front();
  return absl::DataLossError(absl::StrCat(pushed.skipped.size(),
                                          " steps were not shipped; step ",
                                          step, ": ", reason));
}

std::string FlagsText(const RemoteStep& step) {
  std::vector<std::string> flags;
  if (step.pinned) flags.emplace_back("pinned");
  if (step.ephemeral) flags.emplace_back("ephemeral");
  if (step.quarantined) flags.emplace_back("quarantined");
  if (step.abandoned) flags.emplace_back("abandoned");
  return absl::StrJoin(flags, ",");
}

Json RemoteStepJson(const RemoteStep& step) {
  return {{"step", step.version.step},
          {"attempt", step.version.attempt},
          {"kind", Str(StepKindName(step.kind))},
          {"committed_at", FormatIsoUtc(step.committed_at_micros)},
          {"committed_at_micros", step.committed_at_micros},
          {"pinned", step.pinned},
          {"ephemeral", step.ephemeral},
          {"quarantined", step.quarantined},
          {"abandoned", step.abandoned},
          {"versions", step.versions},
          {"own_bytes", step.own_bytes},
          {"fetch_bytes", step.fetch_bytes}};
}

Json ContentJson(const RemoteContent& content) {
  Json steps = Json::array();
  for (const RemoteStep& step : content.steps) {
    steps.push_back(RemoteStepJson(step));
  }
  return {{"store_uuid", content.store_uuid},
          {"catalog", content.catalog},
          {"epoch", content.epoch},
          {"written_at", FormatIsoUtc(content.written_at_micros)},
          {"written_at_micros", content.written_at_micros},
          {"latest_step",
           content.latest_step < 0 ? Json() : Json(content.latest_step)},
          {"steps", steps},
          {"bytes", content.bytes},
          {"dropped_bytes", content.dropped_bytes}};
}

absl::Status RemoteCommand::List(const Context& context, ObjectStore* remote) {
  CKPTDB_ASSIGN_OR_RETURN(const RemoteContent content,
                          ListRemote(remote, {.abandoned = true}));
  if (context.json) {
    Json document = Document();
    document.update(ContentJson(content));
    PrintJson(document, context.out);
    return absl::OkStatus();
  }
  TextTable table({">STEP", "KIND", "COMMITTED (UTC)", ">AGE", ">BYTES",
                   ">VERSIONS", ">FETCH", "FLAGS"});
  for (const RemoteStep& step : content.steps) {
    table.AddRow({absl::StrCat(step.version.step), Str(StepKindName(step.kind)),
                  FormatUtc(step.committed_at_micros),
                  FormatAge(step.committed_at_micros, context.now_micros),
                  FormatBytes(step.own_bytes), absl::StrCat(step.versions),
                  FormatBytes(step.fetch_bytes), FlagsText(step)});
  }
  *context.out << table.ToString() << content.steps.size() << " steps, "
               << FormatBytes(content.bytes) << ", of store "
               << content.store_uuid << "; shipped "
               << FormatAge(content.written_at_micros, context.now_micros)
               << " ago\n";
  return absl::OkStatus();
}

absl::Status RemoteCommand::Fetch(const Context& context, ObjectStore* remote) {
  return fetch_.Run(context, FetchShared(), remote);
}

absl::Status RemoteCommand::Verify(const Context& context,
                                   ObjectStore* remote) {
  ProgressLine progress(context.terminal, "remote verify");
  VerifyRemoteOptions options;
  options.data = data_;
  options.cancelled = [] { return Interrupt::asked(); };
  options.progress = [&](uint64_t done, uint64_t all) {
    progress.Update(done, all);
  };
  CKPTDB_ASSIGN_OR_RETURN(const VerifyRemoteResult verified,
                          VerifyRemote(remote, options));
  if (context.json) {
    Json damage = Json::array();
    for (const VerifyRemoteResult::Damage& each : verified.damage) {
      damage.push_back({{"key", each.key},
                        {"problem", each.problem},
                        {"steps", each.steps}});
    }
    Json document = Document();
    document.update({{"checked_steps", verified.steps},
                     {"objects", verified.objects},
                     {"read_bytes", verified.read_bytes},
                     {"damage", damage}});
    PrintJson(document, context.out);
  } else {
    *context.out << "checked " << verified.objects << " objects of "
                 << verified.steps << " steps, read "
                 << FormatBytes(verified.read_bytes) << '\n';
  }
  for (const VerifyRemoteResult::Damage& each : verified.damage) {
    context.PrintError(absl::DataLossError(
        absl::StrCat(each.key, ": ", each.problem, "; needed by steps ",
                     absl::StrJoin(each.steps, ", "))));
  }
  if (verified.damage.empty()) return absl::OkStatus();
  return absl::DataLossError(
      absl::StrCat(verified.damage.size(),
                   " objects are missing or damaged; restore them from a copy "
                   "of the service, or push the store to another URL"));
}

absl::Status RemoteCommand::Collect(const Context& context,
                                    ObjectStore* remote) {
  CollectOptions options;
  options.keep = keep_;
  CKPTDB_ASSIGN_OR_RETURN(options.retention, Retention());
  options.grace = absl::Hours(1) * grace_hours_;
  options.cancelled = [] { return Interrupt::asked(); };
  CKPTDB_ASSIGN_OR_RETURN(const CollectResult collected,
                          CollectRemote(remote, options));
  if (context.json) {
    Json document = Document();
    document.update({{"dropped", collected.dropped},
                     {"deleted_objects", collected.deleted_objects},
                     {"deleted_bytes", collected.deleted_bytes},
                     {"waiting_bytes", collected.waiting_bytes}});
    if (!collected.uploads.ok()) {
      document["uploads_error"] = std::string(collected.uploads.message());
    }
    PrintJson(document, context.out);
    return absl::OkStatus();
  }
  *context.out << "dropped " << collected.dropped.size() << " steps, deleted "
               << collected.deleted_objects << " objects, "
               << FormatBytes(collected.deleted_bytes) << "; "
               << FormatBytes(collected.waiting_bytes)
               << " of dropped steps are deleted later\n";
  if (!collected.uploads.ok()) {
    *context.out << "interrupted uploads were left: "
                 << collected.uploads.message()
                 << "; let a rule of the bucket abort them\n";
  }
  return absl::OkStatus();
}

}  // namespace

std::unique_ptr<Command> NewRemote() {
  return std::make_unique<RemoteCommand>();
}

}  // namespace ckptdb::tool
