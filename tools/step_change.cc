// SPDX-License-Identifier: Apache-2.0
#include "tools/step_change.h"

#include <utility>

#include "schema/status.h"
#include "tools/json.h"
#include "tools/open_store.h"
#include "tools/step_argument.h"

namespace ckptdb::tool {
namespace {

// Resolves all steps before changing the first.
template <typename StoreOrReader>
absl::StatusOr<std::vector<int64_t>> ChangeEach(
    const Context& context, StoreOrReader* store,
    const std::vector<std::string>& texts,
    const std::function<absl::Status(StoreOrReader*, int64_t)>& change) {
  auto records = ResolveSteps(*store, texts);
  if (!records.ok()) return WithPlace(records.status(), context.store);
  std::vector<int64_t> steps;
  for (const StepRecord& record : *records) {
    const int64_t step = record.version.step;
    const absl::Status status = change(store, step);
    if (!status.ok()) return WithPlace(ReadingStatus(status), StepName(step));
    steps.push_back(step);
  }
  return steps;
}

class StepChangeCommand : public Command {
 public:
  StepChangeCommand(Help help, std::string done, StepChange change)
      : Command(std::move(help)),
        done_(std::move(done)),
        change_(std::move(change)) {}
  void AddArguments(CLI::App* app) override { AddSteps(app, &steps_); }
  absl::Status Run(const Context& context) override {
    CKPTDB_ASSIGN_OR_RETURN(const ChangedSteps changed,
                            ChangeSteps(context, steps_, change_));
    if (context.json) {
      PrintJson({{"store", context.store},
                 {"posted", changed.posted},
                 {done_ + "_steps", changed.steps}},
                context.out);
      return absl::OkStatus();
    }
    for (const int64_t step : changed.steps) {
      *context.out << (changed.posted ? "posted: " + name() : done_) << " "
                   << StepName(step) << '\n';
    }
    if (changed.posted) {
      *context.out << "another process has the store open and will do it with "
                      "its next save\n";
    }
    return absl::OkStatus();
  }

 private:
  const std::string done_;
  const StepChange change_;
  std::vector<std::string> steps_;
};

}  // namespace

absl::StatusOr<ChangedSteps> ChangeSteps(const Context& context,
                                         const std::vector<std::string>& steps,
                                         const StepChange& change) {
  ChangedSteps changed;
  const auto store = OpenOwner(context);
  // OpenOwner returns Unavailable only for a busy store.
  changed.posted = absl::IsUnavailable(store.status());
  if (changed.posted) {
    CKPTDB_ASSIGN_OR_RETURN(const auto reader, OpenReader(context));
    CKPTDB_ASSIGN_OR_RETURN(
        changed.steps, ChangeEach(context, reader.get(), steps, change.post));
    return changed;
  }
  CKPTDB_RETURN_IF_ERROR(store.status());
  CKPTDB_ASSIGN_OR_RETURN(
      changed.steps, ChangeEach(context, store->get(), steps, change.apply));
  return changed;
}

std::unique_ptr<Command> NewStepChange(Command::Help help, std::string done,
                                       StepChange change) {
  return std::make_unique<StepChangeCommand>(std::move(help), std::move(done),
                                             std::move(change));
}

}  // namespace ckptdb::tool
