#include "ckptdb/manager/checkpoint_manager.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "ckptdb/manager/config/json_reader.h"
#include "ckptdb/manager/config/json_text.h"
#include "ckptdb/schema/status.h"

namespace ckptdb {
namespace {

using internal::Json;
using internal::JsonText;

constexpr char kPlace[] = "load specification";

// Reads one rule. Keys that are not there keep the defaults of LoadRule; an
// unknown one is an error that names the nearest.
absl::StatusOr<LoadRule> ReadRule(size_t number, const Json& json) {
  LoadRule rule;
  internal::ObjectReader reader(absl::StrCat(kPlace, ", rule ", number), json);
  reader.Read("path", &rule.path);
  reader.Read("step", &rule.step);
  reader.Read("load", &rule.load);
  reader.Read("exclude", &rule.exclude);
  reader.Read("oname", &rule.oname);
  reader.Read("strict", &rule.strict);
  reader.Read("hashtable_clear", &rule.hashtable_clear);
  reader.Read("cast", &rule.cast);
  reader.Read("is_dynamic", &rule.is_dynamic);
  reader.Read("ignore_error", &rule.ignore_error);
  reader.Read("skip", &rule.skip);
  CKPTDB_RETURN_IF_ERROR(reader.Finish());
  return rule;
}

absl::string_view OutcomeName(CheckpointManager::LoadedItem::Outcome outcome) {
  switch (outcome) {
    case CheckpointManager::LoadedItem::Outcome::kLoaded:
      return "loaded";
    case CheckpointManager::LoadedItem::Outcome::kMissing:
      return "missing";
    case CheckpointManager::LoadedItem::Outcome::kMisfit:
      return "does not fit";
  }
  return "unknown";
}

// Returns `cast "embedding" f32 to bf16`, and no slot for a tensor.
std::string CastText(const CheckpointManager::DTypeCast& cast) {
  return absl::StrCat(
      "cast ", cast.slot.empty() ? "" : absl::StrCat("\"", cast.slot, "\" "),
      DTypeName(cast.from), " to ", DTypeName(cast.to));
}

// Adds up the items that are loaded. Those that do not fit have a size as well,
// which a dry run prints.
uint64_t SumLoaded(const CheckpointManager::LoadedRule& rule,
                   uint64_t CheckpointManager::LoadedItem::*field) {
  uint64_t sum = 0;
  for (const CheckpointManager::LoadedItem& item : rule.items) {
    if (item.outcome == CheckpointManager::LoadedItem::Outcome::kLoaded)
      sum += item.*field;
  }
  return sum;
}

uint64_t SumAll(const std::vector<CheckpointManager::LoadedRule>& rules,
                uint64_t (CheckpointManager::LoadedRule::*of)() const) {
  uint64_t sum = 0;
  for (const CheckpointManager::LoadedRule& rule : rules) sum += (rule.*of)();
  return sum;
}

}  // namespace

absl::StatusOr<std::vector<LoadRule>> ParseLoadSpec(absl::string_view json) {
  CKPTDB_ASSIGN_OR_RETURN(const JsonText text, JsonText::Parse(kPlace, json));
  const Json& list = text.json();
  if (!list.is_array()) {
    return text.Locate(internal::Unexpected(absl::StrCat(kPlace, ": the value"),
                                            list, "a list of rules"));
  }
  std::vector<LoadRule> rules;
  for (size_t i = 0; i < list.size(); ++i) {
    // An error is located while its value exists: it is found by its address.
    absl::StatusOr<LoadRule> rule = ReadRule(i, list[i]);
    if (!rule.ok()) return text.Locate(rule.status());
    rules.push_back(*std::move(rule));
  }
  return rules;
}

uint64_t CheckpointManager::LoadedRule::bytes() const {
  return SumLoaded(*this, &CheckpointManager::LoadedItem::bytes);
}
uint64_t CheckpointManager::LoadedRule::rows() const {
  return SumLoaded(*this, &CheckpointManager::LoadedItem::rows);
}

uint64_t CheckpointManager::LoadSummary::bytes() const {
  return SumAll(rules, &CheckpointManager::LoadedRule::bytes);
}
uint64_t CheckpointManager::LoadSummary::rows() const {
  return SumAll(rules, &CheckpointManager::LoadedRule::rows);
}

// One line for each item, below the line of its rule: what was or would be
// loaded comes before what no rule has chosen.
std::string CheckpointManager::LoadSummary::ToString() const {
  std::string text;
  for (const CheckpointManager::LoadedRule& rule : rules) {
    absl::StrAppend(&text, rule.path, ", ",
                    rule.step ? absl::StrCat("step ", *rule.step) : "no step",
                    "\n");
    for (const CheckpointManager::LoadedItem& item : rule.items) {
      absl::StrAppend(&text, "  ", OutcomeName(item.outcome), ": ",
                      item.category, " \"", item.name, "\"");
      if (item.source != item.name) {
        absl::StrAppend(&text, " from \"", item.source, "\"");
      }
      if (item.rows > 0) absl::StrAppend(&text, ", ", item.rows, " rows");
      if (item.bytes > 0) absl::StrAppend(&text, ", ", item.bytes, " bytes");
      for (const CheckpointManager::DTypeCast& cast : item.casts) {
        absl::StrAppend(&text, ", ", CastText(cast));
      }
      if (!item.detail.empty()) absl::StrAppend(&text, ": ", item.detail);
      absl::StrAppend(&text, "\n");
    }
    for (const CheckpointManager::UnmatchedPattern& each : rule.unmatched) {
      absl::StrAppend(&text, "  matches nothing: load pattern \"", each.pattern,
                      "\"; did you mean \"", each.nearest, "\"?\n");
    }
    for (const std::string& name : rule.unexpected) {
      absl::StrAppend(&text, "  unexpected: ", name, "\n");
    }
    if (!rule.note.empty()) absl::StrAppend(&text, "  ", rule.note, "\n");
  }
  return text;
}

}  // namespace ckptdb
