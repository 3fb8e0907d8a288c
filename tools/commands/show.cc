// SPDX-License-Identifier: Apache-2.0
// ckptdb show: the contents of a step's record.
#include <algorithm>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/types/span.h"
#include "schema/status.h"
#include "tools/chain_length.h"
#include "tools/command.h"
#include "tools/format.h"
#include "tools/json.h"
#include "tools/open_store.h"
#include "tools/step_argument.h"
#include "tools/step_totals.h"
#include "tools/text_table.h"

namespace ckptdb::tool {
namespace {

std::string VersionsText(const std::vector<Version>& versions) {
  if (versions.empty()) return "-";
  return absl::StrJoin(versions, ", ",
                       [](std::string* out, const Version& version) {
                         absl::StrAppend(out, ToString(version));
                       });
}

std::string DeltasText(const StepRecord& record) {
  if (DeltasOf(record) == 0) return "-";
  const std::string due = BaseDue(record, StoreOptions::ChainBounds());
  return absl::StrCat(ChainText(record), ", ",
                      due.empty() ? "within the default limits"
                                  : absl::StrCat("a base is due: ", due));
}

// A step, with its record as it will be when the owner has applied the posts.
struct Shown {
  const StepReader& step;
  StepRecord record;
  Reader::Posted posted;
};

Shown ShownOf(const Reader& reader, const StepReader& step) {
  const StepRecord& read = step.record();
  const auto found = reader.FindStep(read.version.step);
  // The opened step may have been removed or overwritten.
  if (!found.ok() || found->version != read.version) return {step, read, {}};
  return {step, *found, reader.FindPosted(read.version.step)};
}

std::string RecordText(const Shown& shown, int64_t now_micros) {
  const StepRecord& record = shown.record;
  TextTable table({"", ""});
  table.AddRow({"step", absl::StrCat(record.version.step)});
  table.AddRow({"attempt", absl::StrCat(record.version.attempt)});
  table.AddRow({"kind", Str(StepKindName(record.kind))});
  table.AddRow({"flags", FlagsText(record, shown.posted)});
  table.AddRow({"committed",
                absl::StrCat(FormatUtc(record.committed_at_micros), " UTC, ",
                             FormatAge(record.committed_at_micros, now_micros),
                             " ago")});
  table.AddRow({"saved in", FormatDuration(record.save_micros)});
  table.AddRow({"world size", absl::StrCat(record.world_size)});
  table.AddRow({"parent", record.has_parent ? ToString(record.parent) : "-"});
  table.AddRow({"chain", VersionsText(record.chain)});
  table.AddRow({"deltas", DeltasText(record)});
  table.AddRow(
      {"folded from", record.folded ? ToString(record.folded_from) : "-"});
  table.AddRow({"references", VersionsText(record.references)});
  table.AddRow({"library", Printable(record.library_version)});
  return table.ToString();
}

std::string MetricsText(const Shown& shown) {
  TextTable table({"", ">", ""}, 2);
  for (const auto& [name, value] : shown.record.metrics) {
    const bool posted = shown.posted.metrics.contains(name);
    table.AddRow({Printable(name), absl::StrFormat("%.9g", value),
                  posted ? "posted" : ""});
  }
  return table.ToString();
}

std::string MetadataText(const UserMetadata& metadata) {
  TextTable table({"", ""}, 2);
  for (const auto& [key, value] : metadata) {
    table.AddRow({Printable(key), Printable(value)});
  }
  return table.ToString();
}

void AddTotals(std::string name, const Totals& totals, TextTable* table) {
  table->AddRow(
      {std::move(name), FormatCount(totals.items), FormatCount(totals.rows),
       FormatCount(totals.erased), FormatBytes(totals.raw_bytes),
       FormatBytes(totals.stored_bytes), FormatBytes(totals.borrowed_bytes)});
}

std::string KindsText(absl::Span<const StepRecord::Rank> ranks) {
  TextTable table(
      {"KIND", ">ITEMS", ">ROWS", ">ERASED", ">BYTES", ">STORED", ">BORROWED"},
      2);
  for (Item::Kind kind : kItemKinds) {
    AddTotals(Str(ItemKindName(kind)), TotalsOfKind(ranks, kind), &table);
  }
  AddTotals("all", TotalsOf(ranks), &table);
  return table.ToString();
}

// Returns one run of each table by name, from the lowest rank.
std::map<std::string, const Item*> ShownTables(const StepReader& step) {
  std::map<std::string, const Item*> tables;
  for (const StepRecord::Rank& rank : step.ranks()) {
    for (const Item& item : rank.items) {
      if (item.kind == Item::Kind::kRows) tables.emplace(item.name, &item);
    }
  }
  return tables;
}

std::string TablesText(const std::map<std::string, const Item*>& tables) {
  TextTable table({"TABLE", "SHARDING", "SLICE HASH"}, 2);
  for (const auto& [name, item] : tables) {
    table.AddRow({Printable(name),
                  DescribeSharding(item->sharding, item->sharding_name),
                  item->slice_hash == SliceHash::kModulo ? "modulo" : "mix"});
  }
  return table.ToString();
}

// Numbers that a lossy codec encoded, over all ranks.
struct LossyNumbers {
  Item::Kind kind = Item::Kind::kTensor;
  std::string name;
  std::string slot;  // only for tables
  std::set<std::string> codecs;
  Item::Error error;
};

void AddLossy(const Item& item, std::vector<LossyNumbers>* all) {
  for (size_t i = 0; i < item.errors.size(); ++i) {
    const bool table = item.kind == Item::Kind::kRows;
    const std::string slot = table ? item.slots[i].name : "";
    const Codec codec = table ? item.slots[i].codec : item.codec;
    // Skips slots without errors and without a lossy codec.
    if (item.errors[i] == Item::Error() && codec < Codec::kBf16) continue;
    auto found =
        std::find_if(all->begin(), all->end(), [&](const LossyNumbers& other) {
          return other.kind == item.kind && other.name == item.name &&
                 other.slot == slot;
        });
    if (found == all->end()) {
      found = all->insert(found, {item.kind, item.name, slot, {}, {}});
    }
    found->codecs.insert(Str(CodecName(codec)));
    found->error.max = std::max(found->error.max, item.errors[i].max);
    found->error.bound = std::max(found->error.bound, item.errors[i].bound);
  }
}

std::vector<LossyNumbers> LossyOf(const StepReader& step) {
  std::vector<LossyNumbers> all;
  for (const StepRecord::Rank& rank : step.ranks()) {
    for (const Item& item : rank.items) AddLossy(item, &all);
  }
  return all;
}

std::string LossyText(const std::vector<LossyNumbers>& lossy) {
  TextTable table({"KIND", "NAME", "SLOT", "CODEC", ">LARGEST ERROR", ">BOUND"},
                  2);
  for (const LossyNumbers& one : lossy) {
    table.AddRow({Str(ItemKindName(one.kind)), Printable(one.name),
                  one.slot.empty() ? "-" : Printable(one.slot),
                  absl::StrJoin(one.codecs, ","),
                  absl::StrFormat("%.3g", one.error.max),
                  absl::StrFormat("%.3g", one.error.bound)});
  }
  return table.ToString();
}

Json LossyJson(const std::vector<LossyNumbers>& lossy) {
  Json json = Json::array();
  for (const LossyNumbers& one : lossy) {
    json.push_back({{"kind", Str(ItemKindName(one.kind))},
                    {"name", one.name},
                    {"slot", one.slot.empty() ? Json() : Json(one.slot)},
                    {"codecs", one.codecs},
                    {"max_error", one.error.max},
                    {"error_bound", one.error.bound}});
  }
  return json;
}

// A step whose tables are not divided by slices has no bounds.
std::string SlicesText(const StepRecord& record, size_t rank) {
  if (rank + 1 >= record.slice_bounds.size()) return "-";
  return absl::StrCat("[", record.slice_bounds[rank], ", ",
                      record.slice_bounds[rank + 1], ")");
}

std::string RanksText(const StepReader& step) {
  TextTable table({">RANK", "SLICES", ">ITEMS", ">ROWS", ">ERASED", ">BYTES",
                   ">STORED", "DIGEST"},
                  2);
  const std::vector<uint64_t>& digests = step.record().rank_digests;
  for (size_t r = 0; r < step.ranks().size(); ++r) {
    const Totals totals = TotalsOf(step.ranks()[r]);
    table.AddRow({absl::StrCat(r), SlicesText(step.record(), r),
                  FormatCount(totals.items), FormatCount(totals.rows),
                  FormatCount(totals.erased), FormatBytes(totals.raw_bytes),
                  FormatBytes(totals.stored_bytes),
                  r < digests.size() ? FormatHash(digests[r]) : "-"});
  }
  return table.ToString();
}

void PrintText(const Shown& shown, const UserMetadata& of_store,
               const Context& context) {
  const StepReader& step = shown.step;
  const StepRecord& record = shown.record;
  *context.out << RecordText(shown, context.now_micros);
  if (!record.metrics.empty()) {
    *context.out << "\nmetrics\n" << MetricsText(shown);
  }
  if (!record.user_metadata.empty()) {
    *context.out << "\nuser metadata\n" << MetadataText(record.user_metadata);
  }
  if (!of_store.empty()) {
    *context.out << "\nmetadata of the store\n" << MetadataText(of_store);
  }
  *context.out << "\ncontents\n" << KindsText(step.ranks());
  const auto tables = ShownTables(step);
  if (!tables.empty()) *context.out << "\ntables\n" << TablesText(tables);
  const auto lossy = LossyOf(step);
  if (!lossy.empty()) *context.out << "\nlossy\n" << LossyText(lossy);
  *context.out << "\nranks\n" << RanksText(step);
}

Json ShownJson(const std::string& store, const Shown& shown) {
  const StepReader& step = shown.step;
  Json json = {{"store", store}};
  json.update(ToJson(shown.record));
  SetPosted(shown.posted, &json);
  json["totals"] = ToJson(TotalsOf(step.ranks()));
  for (Item::Kind kind : kItemKinds) {
    json["kinds"][Str(ItemKindName(kind))] =
        ToJson(TotalsOfKind(step.ranks(), kind));
  }
  json["tables"] = Json::array();
  for (const auto& [name, item] : ShownTables(step)) {
    Json table = {{"name", name}};
    SetSharding(item->sharding, item->sharding_name, &table);
    json["tables"].push_back(std::move(table));
  }
  json["lossy"] = LossyJson(LossyOf(step));
  json["ranks"] = Json::array();
  const std::vector<uint64_t>& digests = step.record().rank_digests;
  for (size_t r = 0; r < step.ranks().size(); ++r) {
    Json rank = {{"rank", r}};
    rank["digest"] = r < digests.size() ? Json(FormatHash(digests[r])) : Json();
    rank["totals"] = ToJson(TotalsOf(step.ranks()[r]));
    json["ranks"].push_back(std::move(rank));
  }
  return json;
}

constexpr char kShowNotes[] =
    "Shows only the contents of the step itself: for a delta step,\n"
    "the changed rows.\n"
    "\"ckptdb chain\" shows the other versions from which it is\n"
    "restored.\n"
    "Posted metrics are those that the store's owner will add with\n"
    "its next save.\n";

class Show : public Command {
 public:
  Show()
      : Command(
            {.name = "show",
             .summary = "Show a step: its record, metrics, metadata, totals",
             .notes = kShowNotes,
             .examples = "  ckptdb show 1000 --store /checkpoints/ctr\n"
                         "  ckptdb show latest -s /checkpoints/ctr --json\n",
             .paged = true}) {}
  void AddArguments(CLI::App* app) override { AddStep(app, &step_); }
  absl::Status Run(const Context& context) override {
    CKPTDB_ASSIGN_OR_RETURN(auto reader, OpenReader(context));
    CKPTDB_ASSIGN_OR_RETURN(auto step, OpenStep(context, reader.get(), step_));
    const Shown shown = ShownOf(*reader, *step);
    const UserMetadata of_store = reader->user_metadata();
    if (context.json) {
      Json document = ShownJson(context.store, shown);
      document["store_metadata"] = MetadataJson(of_store);
      PrintJson(document, context.out);
    } else {
      PrintText(shown, of_store, context);
    }
    return absl::OkStatus();
  }

 private:
  std::string step_;
};

}  // namespace

std::unique_ptr<Command> NewShow() { return std::make_unique<Show>(); }

}  // namespace ckptdb::tool
