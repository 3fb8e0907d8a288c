// SPDX-License-Identifier: Apache-2.0
// ckptdb plan: what a restore of a step would read.
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "CLI/App.hpp"
#include "CLI/Validators.hpp"
#include "absl/strings/str_cat.h"
#include "schema/status.h"
#include "schema/types.h"
#include "tools/command.h"
#include "tools/format.h"
#include "tools/json.h"
#include "tools/open_store.h"
#include "tools/restore_plan.h"
#include "tools/step_argument.h"
#include "tools/text_table.h"

namespace ckptdb::tool {
namespace {

// A plan and its steps.
struct Planned {
  StepRecord step;
  std::optional<Version> from;
  std::string not_incremental_reason;  // empty: delta runs connect the steps
  bool forwards = true;
  RestorePlan plan;

  bool incremental() const {
    return from.has_value() && not_incremental_reason.empty();
  }
};

std::string SlicesText(const SliceRange& slices) {
  return absl::StrCat("[", slices.begin, ", ", slices.end, ")");
}

std::string AssignmentName(SliceAssignment assignment) {
  switch (assignment) {
    case SliceAssignment::kAsSaved:
      return "as_saved";
    case SliceAssignment::kEven:
      return "even";
    case SliceAssignment::kNone:
      return "none";
    case SliceAssignment::kReplicated:
      return "replicated";
  }
  return "unknown";
}

std::string AssignmentText(SliceAssignment assignment) {
  switch (assignment) {
    case SliceAssignment::kAsSaved:
      return "with the slices of the ranks that saved";
    case SliceAssignment::kEven:
      return "with even shares of the slices";
    case SliceAssignment::kNone:
      return "without slices: each rank reads the ids of all rows";
    case SliceAssignment::kReplicated:
      return "each reads all rows";
  }
  return "unknown";
}

std::string FromText(const Planned& planned) {
  const std::string from = ToString(*planned.from);
  if (!planned.incremental()) {
    return absl::StrCat(
        from, ", not incremental: ", Printable(planned.not_incremental_reason));
  }
  if (planned.forwards) return absl::StrCat(from, ", incremental");
  return absl::StrCat(
      from,
      ", incremental and backwards: changed rows are looked up, and the bytes "
      "are an upper bound");
}

std::string PlanHeaderText(const Planned& planned) {
  const size_t ranks = planned.plan.ranks.size();
  TextTable table({"", ""});
  table.AddRow({"step", absl::StrCat(ToString(planned.step.version),
                                     ", saved by ", planned.step.world_size,
                                     planned.step.world_size == 1 ? " rank"
                                                                  : " ranks")});
  table.AddRow({"onto", absl::StrCat(ranks, ranks == 1 ? " rank, " : " ranks, ",
                                     AssignmentText(planned.plan.assignment))});
  if (planned.from) table.AddRow({"from", FromText(planned)});
  return table.ToString();
}

std::string RanksText(const RestorePlan& plan) {
  TextTable table({">RANK", "SLICES", ">BASES", ">DELTAS", ">ROWS", ">AT MOST",
                   ">TABLES", ">TENSORS", ">BLOBS"});
  for (const PlannedRank& rank : plan.ranks) {
    const StepReader::ScanEstimate read = rank.all_tables();
    table.AddRow({absl::StrCat(rank.rank), SlicesText(rank.slices),
                  FormatCount(read.base_runs), FormatCount(read.delta_runs),
                  FormatCount(read.rows), FormatCount(read.max_rows),
                  FormatBytes(read.stored_bytes),
                  FormatBytes(rank.tensors.bytes),
                  FormatBytes(rank.blobs.bytes)});
  }
  return table.ToString();
}

std::string RankTablesText(const RestorePlan& plan) {
  TextTable table({">RANK", "TABLE", "SHARDING", "SLICES", ">BASES", ">DELTAS",
                   ">ROWS", ">AT MOST", ">ERASED", ">BYTES"});
  for (const PlannedRank& rank : plan.ranks) {
    for (const PlannedTable& each : rank.tables) {
      const StepReader::ScanEstimate& read = each.read;
      table.AddRow({absl::StrCat(rank.rank), Printable(each.name),
                    DescribeSharding(each.sharding, each.sharding_name),
                    SlicesText(each.slices), FormatCount(read.base_runs),
                    FormatCount(read.delta_runs), FormatCount(read.rows),
                    FormatCount(read.max_rows), FormatCount(read.erased_rows),
                    FormatBytes(read.stored_bytes)});
    }
  }
  return table.ToString();
}

// Returns the tables that an incremental restore reads in full.
std::string FullReadsText(const RestorePlan& plan) {
  TextTable table({"READ IN FULL", "REASON"});
  bool any = false;
  for (const PlannedTable& each : plan.ranks.front().tables) {
    if (each.full_read_reason.empty()) continue;
    table.AddRow({Printable(each.name), Printable(each.full_read_reason)});
    any = true;
  }
  return any ? absl::StrCat("\n", table.ToString()) : "";
}

Json EstimateJson(const StepReader::ScanEstimate& estimate) {
  return {{"base_runs", estimate.base_runs},
          {"delta_runs", estimate.delta_runs},
          {"rows", estimate.rows},
          {"max_rows", estimate.max_rows},
          {"erased_rows", estimate.erased_rows},
          {"stored_bytes", estimate.stored_bytes}};
}

Json PlannedItemsJson(const PlannedItems& planned) {
  return {{"items", planned.items}, {"stored_bytes", planned.bytes}};
}

Json RankJson(const PlannedRank& rank) {
  Json json = {{"rank", rank.rank},
               {"slices", {rank.slices.begin, rank.slices.end}}};
  json["all_tables"] = EstimateJson(rank.all_tables());
  json["tensors"] = PlannedItemsJson(rank.tensors);
  json["blobs"] = PlannedItemsJson(rank.blobs);
  json["tables"] = Json::array();
  for (const PlannedTable& table : rank.tables) {
    Json entry = {{"name", table.name}};
    SetSharding(table.sharding, table.sharding_name, &entry);
    entry["slices"] = {table.slices.begin, table.slices.end};
    entry.update(EstimateJson(table.read));
    entry["full_read_reason"] = ReasonJson(table.full_read_reason);
    json["tables"].push_back(std::move(entry));
  }
  return json;
}

Json PlanJson(const std::string& store, const Planned& planned) {
  Json json = {{"store", store}};
  json.update(ToJson(planned.step.version));
  json["world_size"] = planned.plan.ranks.size();
  json["saved_world_size"] = planned.step.world_size;
  json["slice_assignment"] = AssignmentName(planned.plan.assignment);
  json["from"] = planned.from ? ToJson(*planned.from) : Json();
  json["incremental"] = planned.incremental();
  json["forward"] = planned.incremental() ? Json(planned.forwards) : Json();
  json["not_incremental_reason"] = ReasonJson(planned.not_incremental_reason);
  json["ranks"] = Json::array();
  for (const PlannedRank& rank : planned.plan.ranks) {
    json["ranks"].push_back(RankJson(rank));
  }
  return json;
}

constexpr char kPlanNotes[] =
    "Reads only records, no data. If a run also contains rows of\n"
    "other ranks, ROWS and bytes are an even share of it, and AT\n"
    "MOST counts all its rows. A row that was written in several\n"
    "runs counts in each. Each rank reads whole tensors, or its own\n"
    "part if as many ranks restore as saved. It reads the blobs that\n"
    "it saved, or all blobs if the number of ranks differs.\n";

class PlanCommand : public Command {
 public:
  PlanCommand()
      : Command(
            {.name = "plan",
             .summary = "Show what a restore of a step would read",
             .notes = kPlanNotes,
             .examples =
                 "  ckptdb plan 1000 --store /checkpoints/ctr\n"
                 "  ckptdb plan latest --world 8 --tables -s /checkpoints/ctr\n"
                 "  ckptdb plan latest --from 1000 -s /checkpoints/ctr "
                 "--json\n",
             .paged = true}) {}
  void AddArguments(CLI::App* app) override;
  absl::Status Run(const Context& context) override;

 private:
  absl::Status PlanFrom(Reader* reader, Planned* planned) const;
  absl::StatusOr<Planned> MakePlan(const Context& context,
                                   Reader* reader) const;

  std::string step_;
  std::string from_;
  std::optional<uint32_t> world_size_;
  bool with_tables_ = false;
};

void PlanCommand::AddArguments(CLI::App* app) {
  AddStep(app, &step_);
  app->add_option("-w,--world", world_size_,
                  "number of ranks that restore; default: as many as saved")
      ->type_name("N")
      ->check(CLI::Range(uint32_t{1}, kMaxWorldSize));
  AddFromOption(app, &from_);
  app->add_flag("-t,--tables", with_tables_, "also show each table");
}

// Sets the plan if delta runs connect the two steps, and otherwise the reason
// why they do not.
absl::Status PlanCommand::PlanFrom(Reader* reader, Planned* planned) const {
  CKPTDB_ASSIGN_OR_RETURN(const StepRecord from, ResolveStep(*reader, from_));
  planned->from = from.version;
  const auto changes =
      reader->OpenChanges(from.version, planned->step.version.step);
  if (absl::IsFailedPrecondition(changes.status())) {
    planned->not_incremental_reason = Str(changes.status().message());
    return absl::OkStatus();
  }
  // For "latest", RetryLatest retries after Aborted.
  if (absl::IsNotFound(changes.status())) {
    return absl::AbortedError(
        absl::StrCat(ToString(planned->step.version),
                     " was removed while its restore was planned: ",
                     changes.status().message()));
  }
  CKPTDB_RETURN_IF_ERROR(changes.status());
  // The step may have been overwritten since it was opened, so the plan is for
  // the step to which the changes lead.
  planned->step = (*changes)->to().record();
  planned->forwards = (*changes)->forwards();
  CKPTDB_ASSIGN_OR_RETURN(
      planned->plan,
      PlanRestore(**changes, world_size_.value_or(planned->step.world_size)));
  return absl::OkStatus();
}

absl::StatusOr<Planned> PlanCommand::MakePlan(const Context& context,
                                              Reader* reader) const {
  CKPTDB_ASSIGN_OR_RETURN(const auto step, OpenStep(context, reader, step_));
  Planned planned;
  planned.step = step->record();
  if (!from_.empty()) {
    const absl::Status status = PlanFrom(reader, &planned);
    if (!status.ok()) return WithPlace(ReadingStatus(status), context.store);
    // If no delta runs lead to the step, plans a full restore, and prints the
    // reason.
    if (planned.incremental()) return planned;
  }
  CKPTDB_ASSIGN_OR_RETURN(
      planned.plan,
      PlanRestore(*step, world_size_.value_or(planned.step.world_size)));
  return planned;
}

absl::Status PlanCommand::Run(const Context& context) {
  CKPTDB_ASSIGN_OR_RETURN(auto reader, OpenReader(context));
  Planned planned;
  CKPTDB_RETURN_IF_ERROR(RetryLatest(step_ == kLatest, [&]() -> absl::Status {
    CKPTDB_ASSIGN_OR_RETURN(planned, MakePlan(context, reader.get()));
    return absl::OkStatus();
  }));
  if (context.json) {
    PrintJson(PlanJson(context.store, planned), context.out);
    return absl::OkStatus();
  }
  *context.out << PlanHeaderText(planned) << '\n' << RanksText(planned.plan);
  if (with_tables_) *context.out << '\n' << RankTablesText(planned.plan);
  *context.out << FullReadsText(planned.plan);
  return absl::OkStatus();
}

}  // namespace

std::unique_ptr<Command> NewPlan() { return std::make_unique<PlanCommand>(); }

}  // namespace ckptdb::tool
