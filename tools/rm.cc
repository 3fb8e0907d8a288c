// ckptdb rm: removes steps, and frees their space.
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "ckptdb/schema/status.h"
#include "ckptdb/tools/command.h"
#include "ckptdb/tools/json.h"
#include "ckptdb/tools/open_store.h"
#include "ckptdb/tools/step_argument.h"
#include "ckptdb/tools/sweep.h"

namespace ckptdb::tool {
namespace {

class Rm : public Command {
 public:
  std::string name() const override { return "rm"; }
  std::string summary() const override {
    return "Remove steps and free their space; pinned ones are refused";
  }
  std::string examples() const override {
    return "  ckptdb rm 1000 --store /checkpoints/ctr\n"
           "  ckptdb rm 1000 2000 3000 -s /checkpoints/ctr\n";
  }
  void AddArguments(CLI::App* app) override { AddSteps(app, &steps_); }
  absl::Status Run(const Context& context) override;

 private:
  std::vector<std::string> steps_;
};

// All of them are checked before the first is removed.
absl::Status CheckRemovable(const std::vector<StepRecord>& records) {
  for (const StepRecord& record : records) {
    if (!record.pinned) continue;
    return absl::FailedPreconditionError(absl::StrCat(
        StepName(record.version.step), " is pinned; nothing was removed"));
  }
  return absl::OkStatus();
}

// Appends what was removed, up to the first error.
absl::Status Remove(const std::vector<StepRecord>& records, Store* store,
                    std::vector<Version>* removed) {
  for (const StepRecord& record : records) {
    const int64_t step = record.version.step;
    const absl::Status deleted = store->Delete(step);
    if (!deleted.ok()) return WithPlace(ReadingStatus(deleted), StepName(step));
    removed->push_back(record.version);
  }
  return absl::OkStatus();
}

void Print(const Context& context, const std::vector<Version>& removed,
           const SweepResult& swept) {
  if (!context.json) {
    for (const Version& version : removed) {
      *context.out << "removed " << ToString(version) << '\n';
    }
    PrintSwept(swept, context.out);
    return;
  }
  Json document = {{"store", context.store}, {"removed", Json::array()}};
  for (const Version& version : removed) {
    document["removed"].push_back(ToJson(version));
  }
  SetSwept(swept, &document);
  PrintJson(document, context.out);
}

absl::Status Rm::Run(const Context& context) {
  CKPTDB_ASSIGN_OR_RETURN(auto store, OpenOwner(context));
  auto records = ResolveSteps(*store, steps_);
  if (!records.ok()) return WithPlace(records.status(), context.store);
  CKPTDB_RETURN_IF_ERROR(CheckRemovable(*records));
  std::vector<Version> removed;
  absl::Status status = Remove(*records, store.get(), &removed);
  if (removed.empty()) return status;
  auto swept = Sweep(context, store.get());
  Print(context, removed, swept.ok() ? *swept : SweepResult());
  return status.ok() ? swept.status() : status;
}

}  // namespace

std::unique_ptr<Command> NewRm() { return std::make_unique<Rm>(); }

}  // namespace ckptdb::tool
