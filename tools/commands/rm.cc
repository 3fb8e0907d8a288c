// SPDX-License-Identifier: Apache-2.0
// ckptdb rm: removes steps, and frees their space.
#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "schema/status.h"
#include "tools/command.h"
#include "tools/json.h"
#include "tools/needs.h"
#include "tools/open_store.h"
#include "tools/step_argument.h"
#include "tools/sweep.h"

namespace ckptdb::tool {
namespace {

class Rm : public Command {
 public:
  Rm()
      : Command({.name = "rm",
                 .summary =
                     "Remove steps that are not pinned, and free their space",
                 .examples =
                     "  ckptdb rm 1000 --store /checkpoints/ctr\n"
                     "  ckptdb rm 1000 2000 3000 -s /checkpoints/ctr\n"}) {}
  void AddArguments(CLI::App* app) override { AddSteps(app, &steps_); }
  absl::Status Run(const Context& context) override;

 private:
  std::vector<std::string> steps_;
};

// Checks all steps before the first is removed.
absl::Status CheckRemovable(const std::vector<StepRecord>& records) {
  for (const StepRecord& record : records) {
    if (!record.pinned) continue;
    return absl::FailedPreconditionError(
        absl::StrCat(StepName(record.version.step),
                     " is pinned, so nothing was removed; run \"ckptdb unpin ",
                     record.version.step, "\" first"));
  }
  return absl::OkStatus();
}

// Returns the bytes that the step itself stored inline, or 0 if its records are
// damaged.
uint64_t InlineBytes(const Store& store, int64_t step) {
  const auto reader = store.OpenStep(step);
  if (!reader.ok()) return 0;
  uint64_t bytes = 0;
  for (const StepRecord::Rank& rank : (*reader)->ranks()) {
    for (const Item& item : rank.items) {
      const bool own = item.data_version == rank.version;
      if (own && item.placement == Item::Placement::kInline) {
        bytes += item.stored_bytes;
      }
    }
  }
  return bytes;
}

struct Removed {
  Version version;
  uint64_t inline_bytes = 0;
};

// Removes steps until the first error, and appends the removed ones.
absl::Status Remove(const std::vector<StepRecord>& records, Store* store,
                    std::vector<Removed>* removed) {
  for (const StepRecord& record : records) {
    const int64_t step = record.version.step;
    // Called before the deletion, because the step cannot be opened after it.
    const uint64_t inline_bytes = InlineBytes(*store, step);
    const absl::Status deleted = store->Delete(step);
    if (!deleted.ok()) return WithPlace(ReadingStatus(deleted), StepName(step));
    removed->push_back({record.version, inline_bytes});
  }
  return absl::OkStatus();
}

// Returns the inline bytes of the swept versions.
uint64_t FreedInlineBytes(const std::vector<Removed>& removed,
                          const Store::SweepResult& swept) {
  uint64_t bytes = 0;
  for (const Removed& step : removed) {
    const auto found = std::find(swept.swept_versions.begin(),
                                 swept.swept_versions.end(), step.version);
    if (found != swept.swept_versions.end()) bytes += step.inline_bytes;
  }
  return bytes;
}

void PrintRemoved(const Version& version, const Needs& needs,
                  std::ostream* out) {
  *out << "removed " << ToString(version) << '\n';
  if (!needs.in_chain_of.empty()) {
    *out << "  its runs are kept while steps need them: they are in the chain "
            "of "
         << StepsText(needs.in_chain_of) << '\n';
  }
  if (!needs.referenced_by.empty()) {
    *out << "  its tensors or blobs are kept while steps need them: they are "
            "used by "
         << StepsText(needs.referenced_by) << '\n';
  }
}

void PrintText(const Store& store, const std::vector<Removed>& removed,
               const Store::SweepResult& swept, std::ostream* out) {
  const std::vector<StepRecord> steps = store.Steps();
  for (const Removed& step : removed) {
    PrintRemoved(step.version, NeedsOf(step.version, steps), out);
  }
  PrintSwept(swept, FreedInlineBytes(removed, swept), out);
}

Json RemovedJson(const std::string& path, const Store& store,
                 const std::vector<Removed>& removed,
                 const Store::SweepResult& swept) {
  const std::vector<StepRecord> steps = store.Steps();
  Json document = {{"store", path}, {"removed_versions", Json::array()}};
  for (const Removed& step : removed) {
    Json json = ToJson(step.version);
    SetNeeds(NeedsOf(step.version, steps), &json);
    document["removed_versions"].push_back(std::move(json));
  }
  SetSwept(swept, &document);
  document["freed_inline_bytes"] = FreedInlineBytes(removed, swept);
  return document;
}

absl::Status Rm::Run(const Context& context) {
  CKPTDB_ASSIGN_OR_RETURN(auto store, OpenOwner(context));
  auto records = ResolveSteps(*store, steps_);
  if (!records.ok()) return WithPlace(records.status(), context.store);
  CKPTDB_RETURN_IF_ERROR(CheckRemovable(*records));
  std::vector<Removed> removed;
  absl::Status status = Remove(*records, store.get(), &removed);
  // After an error the steps removed so far are still reported and swept.
  if (removed.empty()) return status;
  const auto swept = Sweep(context, store.get());
  const Store::SweepResult result = swept.ok() ? *swept : Store::SweepResult();
  if (context.json) {
    PrintJson(RemovedJson(context.store, *store, removed, result), context.out);
  } else {
    PrintText(*store, removed, result, context.out);
  }
  return status.ok() ? swept.status() : status;
}

}  // namespace

std::unique_ptr<Command> NewRm() { return std::make_unique<Rm>(); }

}  // namespace ckptdb::tool
