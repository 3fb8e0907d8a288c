// SPDX-License-Identifier: Apache-2.0
// ckptdb promote and demote: make steps permanent or ephemeral; and ckptdb
// quarantine.
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "CLI/App.hpp"
#include "absl/strings/str_cat.h"
#include "db/store.h"
#include "schema/status.h"
#include "tools/command.h"
#include "tools/interrupt.h"
#include "tools/json.h"
#include "tools/open_store.h"
#include "tools/progress_line.h"
#include "tools/step_argument.h"
#include "tools/step_change.h"

namespace ckptdb::tool {
namespace {

constexpr char kLifetimeNotes[] =
    "A trainer's retention keeps permanent steps as its policy says, and\n"
    "removes ephemeral ones once a permanent one is saved. While another\n"
    "process has the store open, the request is posted, and that process\n"
    "carries it out with its next save, before its retention decides.\n";

std::unique_ptr<Command> NewLifetime(Command::Help help, std::string done,
                                     bool ephemeral) {
  help.notes = kLifetimeNotes;
  return NewStepChange(std::move(help), std::move(done),
                       {.apply =
                            [ephemeral](Store* store, int64_t step) {
                              return store->SetEphemeral(step, ephemeral);
                            },
                        .post =
                            [ephemeral](Reader* reader, int64_t step) {
                              return reader->RequestEphemeral(step, ephemeral);
                            }});
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
                 "saving the step again removes. `--undo` removes it after\n"
                 "verifying the step, and fails if that finds damage.\n",
             .examples =
                 "  ckptdb quarantine 1000 --store /checkpoints/ctr\n"
                 "  ckptdb quarantine --undo 1000 -s /checkpoints/ctr\n"}) {}
  void AddArguments(CLI::App* app) override {
    AddSteps(app, &steps_);
    app->add_flag("--undo", undo_, "verify the steps, and remove the mark");
  }
  absl::Status Run(const Context& context) override;

 private:
  absl::Status Change(const Context& context, Store* store, int64_t step) const;
  std::string done() const { return undo_ ? "unquarantined" : "quarantined"; }

  std::vector<std::string> steps_;
  bool undo_ = false;
};

absl::Status QuarantineCommand::Change(const Context& context, Store* store,
                                       int64_t step) const {
  if (!undo_) return store->Quarantine(step);
  ProgressLine progress(context.terminal, absl::StrCat("verify: step ", step));
  ReadOptions options;
  options.threads = 4;
  options.cancelled = [] { return Interrupt::asked(); };
  options.progress = [&](uint64_t done_bytes, uint64_t all_bytes) {
    progress.Update(done_bytes, all_bytes);
  };
  return store->Unquarantine(step, options);
}

absl::Status QuarantineCommand::Run(const Context& context) {
  CKPTDB_ASSIGN_OR_RETURN(auto store, OpenOwner(context));
  auto records = ResolveSteps(*store, steps_);
  if (!records.ok()) return WithPlace(records.status(), context.store);
  std::vector<int64_t> steps;
  for (const StepRecord& record : *records) {
    const int64_t step = record.version.step;
    const absl::Status changed = Change(context, store.get(), step);
    if (!changed.ok()) return WithPlace(ReadingStatus(changed), StepName(step));
    steps.push_back(step);
  }
  const auto latest = store->Latest();
  if (context.json) {
    PrintJson(
        {{"store", context.store},
         {done() + "_steps", steps},
         {"latest_step", latest.ok() ? Json(latest->version.step) : Json()}},
        context.out);
    return absl::OkStatus();
  }
  for (const int64_t step : steps) {
    *context.out << done() << " step " << step << '\n';
  }
  *context.out << (latest.ok()
                       ? absl::StrCat("latest is step ", latest->version.step)
                       : "no step is left that is not quarantined")
               << '\n';
  return absl::OkStatus();
}

}  // namespace

std::unique_ptr<Command> NewQuarantine() {
  return std::make_unique<QuarantineCommand>();
}

std::unique_ptr<Command> NewPromote() {
  return NewLifetime(
      {.name = "promote",
       .summary = "Make ephemeral steps permanent",
       .examples = "  ckptdb promote 1050 --store /checkpoints/ctr\n"},
      "promoted", /*ephemeral=*/false);
}

std::unique_ptr<Command> NewDemote() {
  return NewLifetime(
      {.name = "demote",
       .summary = "Make permanent steps ephemeral",
       .examples = "  ckptdb demote 1000 --store /checkpoints/ctr\n"},
      "demoted", /*ephemeral=*/true);
}

}  // namespace ckptdb::tool
