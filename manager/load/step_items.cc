// SPDX-License-Identifier: Apache-2.0
#include "manager/load/step_items.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "manager/ranks/message_codec.h"
#include "manager/state/categories.h"
#include "manager/state/registered_state.h"
#include "schema/status.h"

namespace ckptdb::internal {

template <>
struct Fields<StepItem> {
  static auto Of(auto& m) { return std::tie(m.category, m.name); }
};

namespace {

StepItem Describe(const Item& item) {
  if (item.kind == Item::Kind::kTensor) return {kDense, item.name};
  if (item.kind == Item::Kind::kRows) return {kSparse, item.name};
  absl::string_view name = item.name;
  if (absl::ConsumePrefix(&name, ExtraBlob(""))) {
    return {kExtra, std::string(name)};
  }
  if (absl::ConsumePrefix(&name, IoStateBlob(""))) {
    return {kIoState, std::string(name)};
  }
  return {"blob", item.name};
}

std::vector<StepItem> RegisteredItems(const ModelState& model) {
  std::vector<StepItem> items;
  for (const auto& each : model.tensors()) items.push_back({kDense, each.name});
  for (const auto& each : model.tables()) items.push_back({kSparse, each.name});
  for (const auto& each : model.extras()) items.push_back({kExtra, each.name});
  for (const auto& each : model.io_states()) {
    items.push_back({kIoState, each.name});
  }
  return items;
}

// Returns the key of `oname` that maps a name, which is the name or the longest
// part of it before a ".", and the name's source; two empty strings if none
// does.
std::pair<std::string, std::string> Mapped(
    const std::map<std::string, std::string>& oname, const std::string& name) {
  if (oname.empty()) return {};
  for (size_t end = name.size(); end != std::string::npos && end > 0;
       end = name.rfind('.', end - 1)) {
    const auto found = oname.find(name.substr(0, end));
    if (found != oname.end()) {
      return {found->first, found->second + name.substr(end)};
    }
  }
  return {};
}

// Returns whether a step has an item of this name, or items below it.
bool Contains(const std::set<StepItem>& items, const std::string& name) {
  return std::any_of(items.begin(), items.end(), [&](const StepItem& each) {
    return each.name == name || absl::StartsWith(each.name, name + ".");
  });
}

}  // namespace

std::string StepItem::Stored() const {
  if (category == kExtra) return ExtraBlob(name);
  return category == kIoState ? IoStateBlob(name) : name;
}

std::string StepItem::ToString() const {
  return absl::StrCat(category, " \"", absl::Utf8SafeCHexEscape(name), "\"");
}

std::set<StepItem> ItemsOf(const StepReader& step) {
  std::set<StepItem> items;
  for (const StepRecord::Rank& rank : step.ranks()) {
    for (const Item& item : rank.items) items.insert(Describe(item));
  }
  return items;
}

std::vector<StepItem> UnexpectedItems(
    const StepReader& step, const ModelState& model,
    const std::map<std::string, std::string>& oname) {
  std::set<StepItem> rest = ItemsOf(step);
  for (const StepItem& each : RegisteredItems(model)) {
    rest.erase({each.category, SourceOf(oname, each.name)});
  }
  return {rest.begin(), rest.end()};
}

absl::StatusOr<std::vector<StepItem>> UnexpectedOnAllRanks(
    std::vector<StepItem> own, Coordinator* ranks, absl::Duration deadline) {
  if (ranks->world_size() == 1) return own;
  constexpr char kTag[] = "unexpected items";
  const auto parts = ranks->Gather(kTag, EncodeMessage(own), deadline);
  std::pair<absl::Status, std::vector<StepItem>> agreed = {parts.status(),
                                                           std::move(own)};
  for (size_t rank = 1; parts.ok() && rank < parts->size(); ++rank) {
    std::vector<StepItem> others;
    agreed.first.Update(DecodeMessage((*parts)[rank], &others));
    std::vector<StepItem> common;
    std::set_intersection(agreed.second.begin(), agreed.second.end(),
                          others.begin(), others.end(),
                          std::back_inserter(common));
    agreed.second = std::move(common);
  }
  CKPTDB_ASSIGN_OR_RETURN(
      const std::string told,
      ranks->Tell(kTag, EncodeMessage(agreed), AfterGather(*ranks, deadline)));
  CKPTDB_RETURN_IF_ERROR(DecodeMessage(told, &agreed));
  CKPTDB_RETURN_IF_ERROR(agreed.first);
  return std::move(agreed.second);
}

std::string SourceOf(const std::map<std::string, std::string>& oname,
                     const std::string& name) {
  const auto [key, source] = Mapped(oname, name);
  return key.empty() ? name : source;
}

LoadRule RuleOf(const EvolvePolicy& policy, const StepReader& step,
                const ModelState& model) {
  LoadRule rule;
  rule.exclude = policy.exclude;
  rule.oname = policy.oname;
  rule.cast = policy.cast;
  rule.tables = policy.tables;
  if (rule.oname.empty()) return rule;
  const std::set<StepItem> items = ItemsOf(step);
  for (const StepItem& each : RegisteredItems(model)) {
    const auto [key, source] = Mapped(policy.oname, each.name);
    if (key.empty()) continue;
    // An item that is new below a renamed one keeps its values.
    const bool is_new =
        key != each.name && !items.contains({each.category, source}) &&
        (Contains(items, policy.oname.at(key)) || Contains(items, key));
    if (is_new || items.contains(each)) rule.oname[each.name] = each.name;
  }
  return rule;
}

LoadRule RuleFor(LoadRule rule, const StepReader& step,
                 const ModelState& model) {
  if (rule.oname.empty()) return rule;
  const std::map<std::string, std::string> oname = rule.oname;
  const std::set<StepItem> items = ItemsOf(step);
  for (const StepItem& each : RegisteredItems(model)) {
    const auto [key, source] = Mapped(oname, each.name);
    const bool below = !key.empty() && key != each.name;
    if (below && items.contains(each) &&
        !items.contains({each.category, source})) {
      rule.oname[each.name] = each.name;
    }
  }
  return rule;
}

}  // namespace ckptdb::internal
