// SPDX-License-Identifier: Apache-2.0
// ckptdb explain: why a step was saved, and why it is kept.
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "manager/results.h"
#include "schema/status.h"
#include "tools/command.h"
#include "tools/format.h"
#include "tools/json.h"
#include "tools/needs.h"
#include "tools/open_store.h"
#include "tools/step_argument.h"

namespace ckptdb::tool {
namespace {

struct Explanation {
  StepRecord record;
  Reader::Posted posted;
  std::string saved;  // the reason; empty if no manager recorded it
  std::vector<std::string> kept;
  std::string next;       // what removes it next
  std::string retention;  // as JSON; empty if no manager recorded it
  Needs needs;
  // When the leases of readers on its data end, ascending.
  std::vector<int64_t> lease_ends_micros;
};

std::vector<std::string> WhyKept(const Explanation& found,
                                 const Reader& reader) {
  std::vector<std::string> why;
  const auto latest = reader.Latest();
  if (latest.ok() && latest->version == found.record.version) {
    why.emplace_back("it is the latest step, which retention always keeps");
  }
  if (found.record.pinned) {
    why.emplace_back(found.posted.pinned.has_value() ? "a pin is posted"
                                                     : "it is pinned");
  }
  return why;
}

std::string WhatRemovesIt(const Explanation& found) {
  const StepRecord& record = found.record;
  if (record.pinned) {
    return "nothing: `ckptdb unpin` first, or saving the step again if it is "
           "quarantined";
  }
  if (record.ephemeral) {
    return found.kept.empty()
               ? "the trainer's next permanent save, because it is ephemeral"
               : "a permanent save after the next one, because it is ephemeral";
  }
  return "the trainer's policy `keep`, of which its statistics file lists the "
         "steps that each save retired; or `ckptdb rm`";
}

// Adds the decision of the retention that the manager recorded at its last
// save.
void ApplyRetention(const StepRecord& latest, const StepExplanation& forecast,
                    Explanation* found) {
  found->retention = latest.user_metadata.at("ckptdb.retention");
  if (found->record.pinned) return;
  found->next = forecast.removed;
  if (forecast.kept.empty() || latest.version == found->record.version) return;
  found->kept.push_back(absl::StrCat(forecast.kept, ", at the save of step ",
                                     latest.version.step));
}

absl::StatusOr<Explanation> Explain(const Context& context, Reader* reader,
                                    const std::string& text) {
  Explanation found;
  auto record = ResolveStep(*reader, text);
  if (!record.ok()) return WithPlace(record.status(), context.store);
  found.record = *std::move(record);
  found.posted = reader->FindPosted(found.record.version.step);
  found.saved = SavedReason(found.record);
  found.kept = WhyKept(found, *reader);
  found.next = WhatRemovesIt(found);
  const std::vector<StepRecord> steps = reader->Steps();
  const auto latest = reader->Latest();
  if (latest.ok()) {
    const auto forecast =
        ForecastRetention(steps, *latest, found.record.version.step);
    if (forecast.ok()) ApplyRetention(*latest, *forecast, &found);
  }
  found.needs = NeedsOf(found.record.version, steps);
  CKPTDB_ASSIGN_OR_RETURN(found.lease_ends_micros,
                          reader->LeaseEnds(found.record.version));
  return found;
}

Json ExplanationJson(const std::string& store, const Explanation& found) {
  Json json = {{"store", store}};
  json.update(SummaryJson(found.record));
  json["parent"] =
      found.record.has_parent ? ToJson(found.record.parent) : Json();
  json["saved_reason"] = ReasonJson(found.saved);
  json["kept_reasons"] = found.kept;
  json["removed_by"] = found.next;
  json["retention"] = ReasonJson(found.retention);
  json["library_version"] = found.record.library_version;
  json["leases"] = Json::array();
  for (const int64_t end : found.lease_ends_micros) {
    json["leases"].push_back(
        {{"expires_at", FormatIsoUtc(end)}, {"expires_at_micros", end}});
  }
  SetNeeds(found.needs, &json);
  SetPosted(found.posted, &json);
  return json;
}

void PrintExplanation(const Explanation& found, std::ostream* out) {
  const StepRecord& record = found.record;
  *out << "step " << record.version.step << ": "
       << (record.ephemeral ? "ephemeral" : "permanent") << ", "
       << StepKindName(record.kind);
  if (record.has_parent) {
    *out << ", saved on top of " << ToString(record.parent);
  }
  *out << ", " << FormatUtc(record.committed_at_micros) << '\n';
  *out << "saved because: "
       << (found.saved.empty() ? "unknown, because no manager saved it"
                               : Printable(found.saved))
       << '\n';
  for (const std::string& why : found.kept) *out << "kept: " << why << '\n';
  if (record.quarantined) {
    *out << "quarantined: it was found damaged, and is never the latest\n";
  }
  *out << "removed next by: " << found.next << '\n';
  if (!found.retention.empty()) {
    *out << "retention: " << Printable(found.retention) << '\n';
  }
  if (!found.needs.none()) {
    *out << "its data stays even then for " << NeedsText(found.needs) << '\n';
  }
  const std::vector<int64_t>& ends = found.lease_ends_micros;
  if (!ends.empty()) {
    *out << "its data stays even then for " << ends.size()
         << (ends.size() == 1 ? " reader, whose lease ends at "
                              : " readers, whose last lease ends at ")
         << FormatUtc(ends.back()) << " unless it is renewed\n";
  }
}

class ExplainCommand : public Command {
 public:
  ExplainCommand()
      : Command({.name = "explain",
                 .summary = "Show why a step was saved, and why it is kept",
                 .notes =
                     "What removes a step is computed from the retention that\n"
                     "the manager recorded at its last save. A step that is\n"
                     "removed keeps its data while other steps need it or a\n"
                     "reader has it open.\n",
                 .examples = "  ckptdb explain latest -s /checkpoints/ctr\n"}) {
  }
  void AddArguments(CLI::App* app) override { AddStep(app, &step_); }
  absl::Status Run(const Context& context) override {
    CKPTDB_ASSIGN_OR_RETURN(auto reader, OpenReader(context));
    CKPTDB_ASSIGN_OR_RETURN(const Explanation found,
                            Explain(context, reader.get(), step_));
    if (context.json) {
      PrintJson(ExplanationJson(context.store, found), context.out);
    } else {
      PrintExplanation(found, context.out);
    }
    return absl::OkStatus();
  }

 private:
  std::string step_;
};

}  // namespace

std::unique_ptr<Command> NewExplain() {
  return std::make_unique<ExplainCommand>();
}

}  // namespace ckptdb::tool
