// SPDX-License-Identifier: Apache-2.0
// ckptdb du: how the bytes of a store are used.
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "CLI/App.hpp"
#include "absl/strings/str_cat.h"
#include "schema/status.h"
#include "tools/command.h"
#include "tools/format.h"
#include "tools/json.h"
#include "tools/needs.h"
#include "tools/open_store.h"
#include "tools/progress_line.h"
#include "tools/step_totals.h"
#include "tools/sweep.h"
#include "tools/text_table.h"

namespace ckptdb::tool {
namespace {

// These are the values of `held_versions[].reason` in docs/json.md.
std::string HoldReasonText(Usage::Held::Reason why) {
  switch (why) {
    case Usage::Held::Reason::kReferenced:
      return "referenced";
    case Usage::Held::Reason::kLeased:
      return "leased";
    case Usage::Held::Reason::kInProgress:
      return "in_progress";
    case Usage::Held::Reason::kQuarantined:
      return "quarantined";
    case Usage::Held::Reason::kGarbage:
      return "garbage";
  }
  return "unknown";
}

void PrintSteps(const Usage& usage, std::ostream* out) {
  TextTable table({">STEP", ">ATTEMPT", ">OWN", ">BORROWED"});
  for (const Usage::Step& step : usage.steps) {
    table.AddRow(
        {absl::StrCat(step.version.step), absl::StrCat(step.version.attempt),
         FormatBytes(step.exclusive_bytes), FormatBytes(step.borrowed_bytes)});
  }
  *out << table.ToString();
}

void PrintOthers(const Usage& usage, const std::vector<StepRecord>& steps,
                 std::ostream* out) {
  if (usage.held_versions.empty()) return;
  TextTable table({">STEP", ">ATTEMPT", ">BYTES", "REASON", "NEEDED BY"});
  for (const Usage::Held& other : usage.held_versions) {
    table.AddRow({absl::StrCat(other.version.step),
                  absl::StrCat(other.version.attempt),
                  FormatBytes(other.stored_bytes), HoldReasonText(other.reason),
                  NeedsText(NeedsOf(other.version, steps))});
  }
  *out << "\nversions without a step\n" << table.ToString();
}

std::string NamesTitle(Item::Kind kind) {
  switch (kind) {
    case Item::Kind::kTensor:
      return "tensors";
    case Item::Kind::kBlob:
      return "blobs";
    case Item::Kind::kRows:
      return "table";
  }
  return "unknown";
}

void PrintNames(const Usage& usage, std::ostream* out) {
  TextTable table(
      {"WHAT", "NAME", ">STEPS", ">OWN", ">OF DELTAS", ">KEPT FOR STEPS"});
  for (const Usage::Name& name : usage.names) {
    const bool is_table = name.kind == Item::Kind::kRows;
    table.AddRow({NamesTitle(name.kind), is_table ? Printable(name.name) : "-",
                  FormatCount(name.step_count),
                  FormatBytes(name.exclusive_bytes),
                  is_table ? FormatBytes(name.delta_bytes) : "-",
                  FormatBytes(name.referenced_bytes)});
  }
  *out << '\n' << table.ToString();
}

// A step's part of a table, or all its tensors or blobs.
struct NameOfStep {
  Version version;
  Item::Kind kind = Item::Kind::kRows;
  std::string name;  // the table's; empty for other kinds
  Totals totals;
};

// Returns the names of each step. Skips steps that are removed meanwhile.
absl::StatusOr<std::vector<NameOfStep>> NamesByStep(
    const Reader& reader, const std::vector<StepRecord>& steps) {
  std::vector<NameOfStep> names;
  for (const StepRecord& step : steps) {
    const auto ranks = reader.FindRanks(step.version.step);
    if (IsGone(ranks.status())) continue;
    CKPTDB_RETURN_IF_ERROR(ranks.status());
    std::map<std::pair<int, std::string>, NameOfStep> by_name;
    for (const StepRecord::Rank& rank : *ranks) {
      for (const Item& item : rank.items) {
        const bool is_table = item.kind == Item::Kind::kRows;
        const int order = is_table ? 1 : item.kind == Item::Kind::kBlob ? 2 : 0;
        NameOfStep& name = by_name[{order, is_table ? item.name : ""}];
        name.version = rank.version;
        name.kind = item.kind;
        if (is_table) name.name = item.name;
        name.totals.Add(item, rank.version);
      }
    }
    for (auto& [key, name] : by_name) names.push_back(std::move(name));
  }
  return names;
}

void PrintStepNames(const std::vector<NameOfStep>& names, std::ostream* out) {
  TextTable table(
      {">STEP", "WHAT", "NAME", ">ROWS", ">ERASED", ">OWN", ">BORROWED"});
  for (const NameOfStep& name : names) {
    const bool is_table = name.kind == Item::Kind::kRows;
    const Totals& totals = name.totals;
    table.AddRow({absl::StrCat(name.version.step), NamesTitle(name.kind),
                  is_table ? Printable(name.name) : "-",
                  is_table ? FormatCount(totals.rows) : "-",
                  is_table ? FormatCount(totals.erased) : "-",
                  FormatBytes(totals.stored_bytes - totals.borrowed_bytes),
                  FormatBytes(totals.borrowed_bytes)});
  }
  *out << '\n' << table.ToString();
}

Json StepNamesJson(const std::vector<NameOfStep>& names) {
  Json json = Json::array();
  for (const NameOfStep& name : names) {
    const bool is_table = name.kind == Item::Kind::kRows;
    const Totals& totals = name.totals;
    Json entry = ToJson(name.version);
    entry["kind"] = Str(ItemKindName(name.kind));
    entry["name"] = is_table ? Json(name.name) : Json();
    entry["rows"] = totals.rows;
    entry["erased_rows"] = totals.erased;
    entry["exclusive_bytes"] = totals.stored_bytes - totals.borrowed_bytes;
    entry["borrowed_bytes"] = totals.borrowed_bytes;
    json.push_back(std::move(entry));
  }
  return json;
}

uint64_t ExclusiveBytes(const Usage& usage) {
  uint64_t bytes = 0;
  for (const Usage::Step& step : usage.steps) bytes += step.exclusive_bytes;
  return bytes;
}

// The lines from "steps" to "not the store's" add up to "on disk", so each byte
// is counted once.
uint64_t HeldBytes(const Usage& usage) {
  uint64_t bytes = 0;
  for (const Usage::Held& other : usage.held_versions)
    bytes += other.stored_bytes;
  return bytes;
}

// Returns the bytes of versions that are kept because other steps need them.
uint64_t ReferencedBytes(const Usage& usage) {
  uint64_t bytes = 0;
  for (const Usage::Held& other : usage.held_versions) {
    if (other.reason == Usage::Held::Reason::kReferenced)
      bytes += other.stored_bytes;
  }
  return bytes;
}

void PrintText(const Usage& usage, const std::vector<StepRecord>& steps,
               bool with_tables, const std::vector<NameOfStep>& step_names,
               std::ostream* out) {
  PrintSteps(usage, out);
  PrintOthers(usage, steps, out);
  if (with_tables) PrintNames(usage, out);
  if (!step_names.empty()) PrintStepNames(step_names, out);
  const uint64_t referenced = ReferencedBytes(usage);
  TextTable table({"", ">"});
  table.AddRow({"steps", FormatBytes(ExclusiveBytes(usage))});
  table.AddRow({"kept for other steps", FormatBytes(referenced)});
  table.AddRow({"others", FormatBytes(HeldBytes(usage) - referenced)});
  table.AddRow({"RocksDB overhead", FormatBytes(usage.overhead_bytes())});
  table.AddRow({"staging", FormatBytes(usage.staging_bytes)});
  table.AddRow({"leases and notes", FormatBytes(usage.control_bytes)});
  table.AddRow({"reserved", FormatBytes(usage.spare_bytes)});
  table.AddRow({"not the store's", FormatBytes(usage.foreign_bytes)});
  table.AddRow({"on disk", FormatBytes(usage.disk_bytes)});
  table.AddRow({"available", FormatBytes(usage.available_bytes)});
  *out << '\n' << table.ToString();
  PrintUnswept(usage.unswept, out);
}

Json NameJson(const Usage::Name& name) {
  Json json = Json::object();
  if (name.kind == Item::Kind::kRows) json["name"] = name.name;
  json["step_count"] = name.step_count;
  json["exclusive_bytes"] = name.exclusive_bytes;
  if (name.kind == Item::Kind::kRows) json["delta_bytes"] = name.delta_bytes;
  json["referenced_bytes"] = name.referenced_bytes;
  return json;
}

// Sets "tables", "tensors" and "blobs".
void SetNames(const Usage& usage, Json* json) {
  (*json)["tables"] = Json::array();
  // These fields are also set, to 0, for a store without tensors or blobs.
  Usage::Name tensors;
  tensors.kind = Item::Kind::kTensor;
  Usage::Name blobs;
  blobs.kind = Item::Kind::kBlob;
  for (const Usage::Name& name : usage.names) {
    if (name.kind == Item::Kind::kTensor) tensors = name;
    if (name.kind == Item::Kind::kBlob) blobs = name;
    if (name.kind != Item::Kind::kRows) continue;
    (*json)["tables"].push_back(NameJson(name));
  }
  (*json)["tensors"] = NameJson(tensors);
  (*json)["blobs"] = NameJson(blobs);
}

Json UsageJson(const std::string& store, const Usage& usage,
               const std::vector<StepRecord>& steps) {
  Json json = {{"store", store},
               {"disk_bytes", usage.disk_bytes},
               {"available_bytes", usage.available_bytes},
               {"database_bytes", usage.database_bytes},
               {"overhead_bytes", usage.overhead_bytes()},
               {"staging_bytes", usage.staging_bytes},
               {"control_bytes", usage.control_bytes},
               {"spare_bytes", usage.spare_bytes},
               {"foreign_bytes", usage.foreign_bytes},
               {"exclusive_bytes", ExclusiveBytes(usage)},
               {"held_bytes", HeldBytes(usage)},
               {"referenced_bytes", ReferencedBytes(usage)}};
  json["steps"] = Json::array();
  for (const Usage::Step& step : usage.steps) {
    Json entry = ToJson(step.version);
    entry["exclusive_bytes"] = step.exclusive_bytes;
    entry["borrowed_bytes"] = step.borrowed_bytes;
    json["steps"].push_back(std::move(entry));
  }
  json["held_versions"] = Json::array();
  for (const Usage::Held& other : usage.held_versions) {
    Json entry = ToJson(other.version);
    entry["stored_bytes"] = other.stored_bytes;
    entry["reason"] = HoldReasonText(other.reason);
    SetNeeds(NeedsOf(other.version, steps), &entry);
    json["held_versions"].push_back(std::move(entry));
  }
  SetUnswept(usage.unswept, &json);
  return json;
}

constexpr char kDuNotes[] =
    "BORROWED is the data of other versions that a step uses: runs\n"
    "of its chain, tensors, blobs. \"kept for other steps\" is data of\n"
    "removed steps that other steps need; it is removed with the\n"
    "last of them. \"reserved\" is space for a full disk. --tables\n"
    "shows the same bytes by table: STEPS is the number of steps\n"
    "that stored some of them, OWN the bytes that they stored.\n"
    "--steps shows them for each step.\n";

class Du : public Command {
 public:
  Du()
      : Command({.name = "du",
                 .summary = "Show how the bytes of a store are used",
                 .notes = kDuNotes,
                 .examples =
                     "  ckptdb du --store /checkpoints/ctr\n"
                     "  ckptdb du --tables --steps -s /checkpoints/ctr\n"
                     "  ckptdb du -s /checkpoints/ctr --json\n",
                 .paged = true}) {}
  void AddArguments(CLI::App* app) override {
    app->add_flag("-t,--tables", with_tables_,
                  "also by table, and for all tensors and all blobs");
    app->add_flag("--steps", by_step_, "also by step and table");
  }
  absl::Status Run(const Context& context) override {
    CKPTDB_ASSIGN_OR_RETURN(auto reader, OpenReader(context));
    CKPTDB_ASSIGN_OR_RETURN(const Usage usage, Measure(context, *reader));
    const std::vector<StepRecord> steps = reader->Steps();
    std::vector<NameOfStep> names;
    if (by_step_) {
      CKPTDB_ASSIGN_OR_RETURN(names, NamesByStep(*reader, steps));
    }
    if (context.json) {
      Json json = UsageJson(context.store, usage, steps);
      if (with_tables_) SetNames(usage, &json);
      if (by_step_) json["steps_by_name"] = StepNamesJson(names);
      PrintJson(json, context.out);
    } else {
      PrintText(usage, steps, with_tables_, names, context.out);
    }
    return absl::OkStatus();
  }

 private:
  absl::StatusOr<Usage> Measure(const Context& context,
                                const Reader& reader) const {
    const ProgressLine progress(context.terminal, "du: adding up");
    auto usage = reader.GetUsage(with_tables_);
    if (usage.ok()) return usage;
    return WithPlace(ReadingStatus(usage.status()), context.store);
  }

  bool with_tables_ = false;
  bool by_step_ = false;
};

}  // namespace

std::unique_ptr<Command> NewDu() { return std::make_unique<Du>(); }

}  // namespace ckptdb::tool
