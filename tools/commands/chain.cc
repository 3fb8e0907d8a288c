// SPDX-License-Identifier: Apache-2.0
// ckptdb chain: the versions from which a step is restored.
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "CLI/App.hpp"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "schema/status.h"
#include "tools/chain_length.h"
#include "tools/command.h"
#include "tools/format.h"
#include "tools/json.h"
#include "tools/open_store.h"
#include "tools/step_argument.h"
#include "tools/step_chain.h"
#include "tools/text_table.h"

namespace ckptdb::tool {
namespace {

// Returns whether the version is a step, or is only kept because this step
// needs it.
std::string StateText(const ChainLink& link, const StepRecord& step) {
  if (link.version == step.version) return "this step";
  return link.is_step ? "a step" : "kept for others";
}

void AddLink(const ChainLink& link, std::string state, TextTable* table) {
  const std::optional<Totals> tables = link.tables();
  const bool known = link.record.has_value();
  const bool delta = known && link.record->kind == StepRecord::Kind::kDelta;
  table->AddRow(
      {absl::StrCat(link.version.step), absl::StrCat(link.version.attempt),
       known ? Str(StepKindName(link.record->kind)) : "-",
       known ? absl::StrCat(delta ? "+" : "", FormatCount(link.record->rows))
             : "-",
       tables ? FormatCount(tables->erased) : "-",
       tables ? FormatBytes(tables->stored_bytes) : "-",
       known ? FormatBytes(link.record->exclusive_bytes) : "-",
       std::move(state)});
}

std::string LinksText(const StepChain& chain, const StepRecord& step) {
  TextTable table({">STEP", ">ATTEMPT", "KIND", ">ROWS", ">ERASED", ">TABLES",
                   ">SAVED", "NOW"});
  for (const ChainLink& link : chain.links) {
    AddLink(link, StateText(link, step), &table);
  }
  if (chain.increment.has_value()) {
    AddLink(*chain.increment,
            chain.increment->record ? "folded into this step"
                                    : "folded into this step, removed",
            &table);
  }
  return table.ToString();
}

// Compares the chain with the default limits. The trainer's limits are in its
// options, and not in the store.
std::string BoundsText(const StepRecord& step) {
  const StoreOptions::ChainBounds bounds;
  const std::string due = BaseDue(step, bounds);
  TextTable table({"", ""});
  table.AddRow(
      {"deltas", absl::StrCat(DeltasOf(step), "; the default limit is ",
                              bounds.max_deltas)});
  table.AddRow(
      {"delta bytes",
       absl::StrFormat("%s, %.2f of %s of base runs; the default "
                       "limit is %.2f",
                       FormatBytes(step.delta_bytes), DeltaRatio(step),
                       FormatBytes(step.base_bytes), bounds.max_delta_ratio)});
  table.AddRow({"base due", due.empty() ? "no" : due});
  return table.ToString();
}

std::string BaseText(const TableStart& start) {
  return absl::StrCat(ToString(start.base),
                      start.base_known ? "" : " or before");
}

std::string TablesText(const StepChain& chain) {
  TextTable table({"TABLE", "BASE", ">DELTAS", "BASE REASON"});
  for (const TableStart& start : TableStarts(chain)) {
    // The reason is unknown if the rank records of a removed version are lost.
    // It is empty if the save was given no changed rows.
    std::string why = "unknown";
    if (start.base_reason.has_value()) why = Printable(*start.base_reason);
    table.AddRow({Printable(start.table), BaseText(start),
                  absl::StrCat(start.deltas, start.base_known ? "" : "+"),
                  why.empty() ? "-" : why});
  }
  return table.ToString();
}

Json LinkJson(const ChainLink& link) {
  Json json = ToJson(link.version);
  const std::optional<Totals> tables = link.tables();
  // If the version's record is lost, its fields are null.
  const auto of_record = [&](const auto& field) {
    return link.record ? Json(field(*link.record)) : Json();
  };
  json["kind"] = of_record(
      [](const StepRecord& record) { return Str(StepKindName(record.kind)); });
  json["is_step"] = link.is_step;
  json["rows"] =
      of_record([](const StepRecord& record) { return record.rows; });
  json["erased_rows"] = tables ? Json(tables->erased) : Json();
  json["table_bytes"] = tables ? Json(tables->stored_bytes) : Json();
  json["exclusive_bytes"] = of_record(
      [](const StepRecord& record) { return record.exclusive_bytes; });
  return json;
}

Json TableJson(const TableStart& start) {
  Json json = {{"name", start.table}};
  json["base"] = start.base_known ? ToJson(start.base) : Json();
  json["base_reason"] = start.base_reason ? Json(*start.base_reason) : Json();
  json["deltas"] = start.base_known ? Json(start.deltas) : Json();
  return json;
}

Json ChainJson(const std::string& store, const StepChain& chain,
               const StepRecord& step, bool with_tables) {
  const StoreOptions::ChainBounds bounds;
  Json json = {{"store", store}};
  json.update(ToJson(step.version));
  json["kind"] = Str(StepKindName(step.kind));
  SetChainLength(step, &json);
  json["max_deltas"] = bounds.max_deltas;
  json["max_delta_ratio"] = bounds.max_delta_ratio;
  json["base_due_reason"] = ReasonJson(BaseDue(step, bounds));
  json["versions"] = Json::array();
  for (const ChainLink& link : chain.links) {
    json["versions"].push_back(LinkJson(link));
  }
  json["folded_from"] = chain.increment ? LinkJson(*chain.increment) : Json();
  if (!with_tables) return json;
  json["tables"] = Json::array();
  for (const TableStart& start : TableStarts(chain)) {
    json["tables"].push_back(TableJson(start));
  }
  return json;
}

class Chain : public Command {
 public:
  Chain()
      : Command({.name = "chain",
                 .summary = "Show the versions from which a step is restored",
                 .examples =
                     "  ckptdb chain 1000 --store /checkpoints/ctr\n"
                     "  ckptdb chain latest --tables -s /checkpoints/ctr\n"
                     "  ckptdb chain latest -s /checkpoints/ctr --json\n",
                 .paged = true}) {}
  void AddArguments(CLI::App* app) override {
    AddStep(app, &step_);
    app->add_flag("-t,--tables", with_tables_,
                  "also show where each table begins, and why");
  }
  absl::Status Run(const Context& context) override {
    CKPTDB_ASSIGN_OR_RETURN(auto reader, OpenReader(context));
    CKPTDB_ASSIGN_OR_RETURN(auto step, OpenStep(context, reader.get(), step_));
    const StepRecord& record = step->record();
    const StepChain chain = LoadChain(reader.get(), *step);
    if (context.json) {
      PrintJson(ChainJson(context.store, chain, record, with_tables_),
                context.out);
      return absl::OkStatus();
    }
    *context.out << LinksText(chain, record) << '\n' << BoundsText(record);
    if (with_tables_) *context.out << '\n' << TablesText(chain);
    return absl::OkStatus();
  }

 private:
  std::string step_;
  bool with_tables_ = false;
};

}  // namespace

std::unique_ptr<Command> NewChain() { return std::make_unique<Chain>(); }

}  // namespace ckptdb::tool
