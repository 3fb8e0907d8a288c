#include "ckptdb/manager/load/step_items.h"

#include <set>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "ckptdb/manager/load/load_patterns.h"

namespace ckptdb::internal {
namespace {

// A kind of item and its name in the step: a tensor never hides a table of the
// same name.
using StoredName = std::pair<Item::Kind, std::string>;

std::set<StoredName> RegisteredSources(
    const ModelState& model, const std::map<std::string, std::string>& oname) {
  std::set<StoredName> sources;
  for (const auto& each : model.tensors()) {
    sources.emplace(Item::Kind::kTensor, SourceOf(oname, each.name));
  }
  for (const auto& each : model.tables()) {
    sources.emplace(Item::Kind::kRows, SourceOf(oname, each.name));
  }
  for (const auto& each : model.extras()) {
    sources.emplace(Item::Kind::kBlob, ExtraBlob(SourceOf(oname, each.name)));
  }
  for (const auto& each : model.io_states()) {
    sources.emplace(Item::Kind::kBlob, IoStateBlob(SourceOf(oname, each.name)));
  }
  return sources;
}

StepItem Describe(const Item& item) {
  if (item.kind == Item::Kind::kTensor) return {kDense, item.name, item.name};
  if (item.kind == Item::Kind::kRows) return {kSparse, item.name, item.name};
  absl::string_view name = item.name;
  if (absl::ConsumePrefix(&name, ExtraBlob(""))) {
    return {kExtra, std::string(name), item.name};
  }
  if (absl::ConsumePrefix(&name, IoStateBlob(""))) {
    return {kIoState, std::string(name), item.name};
  }
  return {"blob", item.name, item.name};
}

}  // namespace

std::string StepItem::ToString() const {
  return absl::StrCat(category, " \"", absl::Utf8SafeCHexEscape(name), "\"");
}

std::vector<StepItem> UnexpectedItems(
    const StepReader& step, const ModelState& model,
    const std::map<std::string, std::string>& oname) {
  const std::set<StoredName> registered = RegisteredSources(model, oname);
  std::set<StepItem> rest;
  for (const StepRecord::Rank& rank : step.ranks()) {
    for (const Item& item : rank.items) {
      if (registered.contains({item.kind, item.name})) continue;
      rest.insert(Describe(item));
    }
  }
  return {rest.begin(), rest.end()};
}

const std::string& SourceOf(const std::map<std::string, std::string>& oname,
                            const std::string& name) {
  const auto found = oname.find(name);
  return found == oname.end() ? name : found->second;
}

}  // namespace ckptdb::internal
