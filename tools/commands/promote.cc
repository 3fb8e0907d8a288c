// SPDX-License-Identifier: Apache-2.0
// ckptdb promote and demote: make steps permanent or ephemeral; and ckptdb
// quarantine.
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "schema/status.h"
#include "tools/command.h"
#include "tools/json.h"
#include "tools/open_store.h"
#include "tools/step_argument.h"

namespace ckptdb::tool {
namespace {

absl::Status ChangeLifetime(Store* store, int64_t step, bool ephemeral) {
  return store->SetEphemeral(step, ephemeral);
}
absl::Status ChangeLifetime(Reader* reader, int64_t step, bool ephemeral) {
  return reader->RequestEphemeral(step, ephemeral);
}

// Resolves all steps before it changes the first, and returns them.
template <typename StoreOrReader>
absl::StatusOr<std::vector<int64_t>> ChangeLifetimes(
    const Context& context, StoreOrReader* store,
    const std::vector<std::string>& texts, bool ephemeral) {
  auto records = ResolveSteps(*store, texts);
  if (!records.ok()) return WithPlace(records.status(), context.store);
  std::vector<int64_t> steps;
  for (const StepRecord& record : *records) {
    const int64_t step = record.version.step;
    const absl::Status status = ChangeLifetime(store, step, ephemeral);
    if (!status.ok()) return WithPlace(ReadingStatus(status), StepName(step));
    steps.push_back(step);
  }
  return steps;
}

absl::StatusOr<std::vector<int64_t>> PostLifetimes(
    const Context& context, const std::vector<std::string>& texts,
    bool ephemeral) {
  CKPTDB_ASSIGN_OR_RETURN(auto reader, OpenReader(context));
  return ChangeLifetimes(context, reader.get(), texts, ephemeral);
}

class LifetimeCommand : public Command {
 public:
  LifetimeCommand(Help help, bool ephemeral)
      : Command(std::move(help)), ephemeral_(ephemeral) {}
  void AddArguments(CLI::App* app) override { AddSteps(app, &steps_); }
  absl::Status Run(const Context& context) override;

 private:
  const bool ephemeral_;
  std::vector<std::string> steps_;
};

absl::Status LifetimeCommand::Run(const Context& context) {
  absl::StatusOr<std::unique_ptr<Store>> store = OpenOwner(context);
  // OpenOwner returns Unavailable only for a busy store.
  const bool posted = absl::IsUnavailable(store.status());
  if (!posted) CKPTDB_RETURN_IF_ERROR(store.status());
  CKPTDB_ASSIGN_OR_RETURN(
      const std::vector<int64_t> steps,
      posted ? PostLifetimes(context, steps_, ephemeral_)
             : ChangeLifetimes(context, store->get(), steps_, ephemeral_));
  const std::string verb = ephemeral_ ? "demote" : "promote";
  const std::string done = verb + "d";
  if (context.json) {
    PrintJson({{"store", context.store},
               {"posted", posted},
               {done + "_steps", steps}},
              context.out);
    return absl::OkStatus();
  }
  for (const int64_t step : steps) {
    *context.out << (posted ? "posted: " + verb : done) << " step " << step
                 << '\n';
  }
  if (posted) {
    *context.out << "another process has the store open and will do it with "
                    "its next save\n";
  }
  return absl::OkStatus();
}

class QuarantineCommand : public Command {
 public:
  QuarantineCommand()
      : Command(
            {.name = "quarantine",
             .summary = "Mark steps as damaged, so that no restore of the "
                        "latest step uses them",
             .notes =
                 "Needs exclusive access, because a running trainer's next\n"
                 "save may build on the step. `show` shows the mark, which\n"
                 "cannot be removed; saving the step again replaces it.\n",
             .examples =
                 "  ckptdb quarantine 1000 --store /checkpoints/ctr\n"}) {}
  void AddArguments(CLI::App* app) override { AddSteps(app, &steps_); }
  absl::Status Run(const Context& context) override;

 private:
  std::vector<std::string> steps_;
};

absl::Status QuarantineCommand::Run(const Context& context) {
  CKPTDB_ASSIGN_OR_RETURN(auto store, OpenOwner(context));
  auto records = ResolveSteps(*store, steps_);
  if (!records.ok()) return WithPlace(records.status(), context.store);
  std::vector<int64_t> steps;
  for (const StepRecord& record : *records) {
    const int64_t step = record.version.step;
    const absl::Status marked = store->Quarantine(step);
    if (!marked.ok()) return WithPlace(ReadingStatus(marked), StepName(step));
    steps.push_back(step);
  }
  const auto latest = store->Latest();
  if (context.json) {
    PrintJson(
        {{"store", context.store},
         {"quarantined_steps", steps},
         {"latest_step", latest.ok() ? Json(latest->version.step) : Json()}},
        context.out);
    return absl::OkStatus();
  }
  for (const int64_t step : steps) {
    *context.out << "quarantined step " << step << '\n';
  }
  *context.out << (latest.ok()
                       ? absl::StrCat("latest is step ", latest->version.step)
                       : "no step is left that is not quarantined")
               << '\n';
  return absl::OkStatus();
}

constexpr char kLifetimeNotes[] =
    "A trainer's retention keeps permanent steps as its policy says, and\n"
    "removes ephemeral ones once a permanent one is saved. While another\n"
    "process has the store open, the request is posted, and that process\n"
    "carries it out with its next save, before its retention decides.\n";

}  // namespace

std::unique_ptr<Command> NewQuarantine() {
  return std::make_unique<QuarantineCommand>();
}

std::unique_ptr<Command> NewPromote() {
  return std::make_unique<LifetimeCommand>(
      Command::Help{
          .name = "promote",
          .summary = "Make ephemeral steps permanent",
          .notes = kLifetimeNotes,
          .examples = "  ckptdb promote 1050 --store /checkpoints/ctr\n"},
      /*ephemeral=*/false);
}

std::unique_ptr<Command> NewDemote() {
  return std::make_unique<LifetimeCommand>(
      Command::Help{
          .name = "demote",
          .summary = "Make permanent steps ephemeral",
          .notes = kLifetimeNotes,
          .examples = "  ckptdb demote 1000 --store /checkpoints/ctr\n"},
      /*ephemeral=*/true);
}

}  // namespace ckptdb::tool
