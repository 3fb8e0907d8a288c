// SPDX-License-Identifier: Apache-2.0
#include "manager/results.h"

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "manager/load/loaded_items.h"

namespace ckptdb {
namespace {

using internal::LoadedItem;
using internal::LoadedRule;
using internal::SlotChange;

absl::string_view OutcomeName(LoadedItem::Outcome outcome) {
  switch (outcome) {
    case LoadedItem::Outcome::kLoaded:
      return "loaded";
    case LoadedItem::Outcome::kMissing:
      return "missing";
    case LoadedItem::Outcome::kMisfit:
      return "does not fit";
    case LoadedItem::Outcome::kPartlyLoaded:
      return "partly loaded";
    case LoadedItem::Outcome::kNotLoaded:
      return "not loaded";
  }
  return "unknown";
}

// Returns `cast "embedding" f32 to bf16`, without a slot for a tensor.
std::string CastText(const SlotChange& cast) {
  return absl::StrCat(
      "cast ",
      cast.source.empty() ? "" : absl::StrCat("\"", cast.source, "\" "),
      DTypeName(cast.from), " to ", DTypeName(cast.to));
}

// Sums over the loaded items only: items that do not fit also have a size,
// which a dry run prints.
uint64_t SumLoaded(const LoadedRule& rule, uint64_t LoadedItem::*field) {
  uint64_t sum = 0;
  for (const LoadedItem& item : rule.items) {
    if (item.outcome == LoadedItem::Outcome::kLoaded) sum += item.*field;
  }
  return sum;
}

uint64_t SumAll(const std::vector<LoadedRule>& rules,
                uint64_t (LoadedRule::*of)() const) {
  uint64_t sum = 0;
  for (const LoadedRule& rule : rules) sum += (rule.*of)();
  return sum;
}

std::string ChangeText(const SlotChange& change) {
  switch (change.kind) {
    case SlotChange::Kind::kCast:
      return CastText(change);
    case SlotChange::Kind::kRenamed:
      return absl::StrCat("slot \"", change.slot, "\" from \"", change.source,
                          "\"");
    case SlotChange::Kind::kConverted:
      return absl::StrCat("slot \"", change.slot, "\" converted from \"",
                          change.source, "\"");
    case SlotChange::Kind::kFilled:
      return absl::StrCat("slot \"", change.slot, "\" filled");
    case SlotChange::Kind::kDropped:
      return absl::StrCat("slot \"", change.source, "\" is not registered");
  }
  return "";
}

void AppendItem(const LoadedItem& item, std::string* text) {
  absl::StrAppend(text, "  ", OutcomeName(item.outcome), ": ", item.category,
                  " \"", item.name, "\"");
  if (item.source != item.name) {
    absl::StrAppend(text, " from \"", item.source, "\"");
  }
  const char* const most = item.exact ? ", " : ", at most ";
  if (item.rows > 0) absl::StrAppend(text, most, item.rows, " rows");
  if (item.bytes > 0) absl::StrAppend(text, most, item.bytes, " bytes");
  for (const SlotChange& change : item.slot_changes) {
    absl::StrAppend(text, ", ", ChangeText(change));
  }
  if (!item.detail.empty()) absl::StrAppend(text, ": ", item.detail);
  absl::StrAppend(text, "\n");
}

}  // namespace

uint64_t LoadSummary::LoadedRule::bytes() const {
  return SumLoaded(*this, &LoadedItem::bytes);
}
uint64_t LoadSummary::LoadedRule::rows() const {
  return SumLoaded(*this, &LoadedItem::rows);
}

uint64_t LoadSummary::bytes() const {
  return SumAll(rules, &LoadedRule::bytes);
}
uint64_t LoadSummary::rows() const { return SumAll(rules, &LoadedRule::rows); }

// One line for each item, below its rule: first what was or would be loaded,
// then what no rule has chosen.
std::string LoadSummary::ToString() const {
  std::string text;
  for (const LoadedRule& rule : rules) {
    absl::StrAppend(&text, rule.path, ", ",
                    rule.step ? absl::StrCat("step ", *rule.step) : "no step",
                    "\n");
    for (const LoadedItem& item : rule.items) AppendItem(item, &text);
    for (const std::string& each : rule.unmatched) {
      absl::StrAppend(&text, "  ", each, "\n");
    }
    for (const std::string& name : rule.unexpected) {
      absl::StrAppend(&text, "  unexpected: ", name, "\n");
    }
    if (!rule.note.empty()) absl::StrAppend(&text, "  ", rule.note, "\n");
  }
  return text;
}

}  // namespace ckptdb
