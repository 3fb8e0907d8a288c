// SPDX-License-Identifier: Apache-2.0
// The items of a step, and those registered in the model; internal to manager/.
#ifndef CKPTDB_MANAGER_LOAD_STEP_ITEMS_H_
#define CKPTDB_MANAGER_LOAD_STEP_ITEMS_H_

#include <map>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "db/reader.h"
#include "manager/coordinator.h"
#include "manager/load_rule.h"
#include "manager/model_state.h"

namespace ckptdb::internal {

// An item of a step by its user-visible name.
struct StepItem {
  std::string category;  // "blob" if no manager wrote it
  std::string name;      // without the category's prefix

  bool operator<(const StepItem& other) const {
    return std::tie(category, name) < std::tie(other.category, other.name);
  }
  // Returns the name that the step stores.
  std::string Stored() const;
  // Returns `dense "w"`.
  std::string ToString() const;
};

// Returns the items that a step's ranks have saved.
std::set<StepItem> ItemsOf(const StepReader& step);

// Returns the items that no registered item is loaded from, in ascending order.
// `oname` maps registered names to names in the step, as in LoadRule.
std::vector<StepItem> UnexpectedItems(
    const StepReader& step, const ModelState& model,
    const std::map<std::string, std::string>& oname);

// Returns the items that are unexpected on each rank: others are loaded by the
// ranks that registered them. All ranks call it, with their own unexpected
// items in ascending order.
absl::StatusOr<std::vector<StepItem>> UnexpectedOnAllRanks(
    std::vector<StepItem> own, Coordinator* ranks, absl::Duration deadline);

// Returns the name in the step that a registered name is mapped to, by its own
// key or by that of the longest part before a ".".
std::string SourceOf(const std::map<std::string, std::string>& oname,
                     const std::string& name);

// Returns the rule with which a policy restores a step. Names that exist in the
// step are not mapped. Nor are names that the step lacks, below a key if the
// step has that key or its old name.
LoadRule RuleOf(const EvolvePolicy& policy, const StepReader& step,
                const ModelState& model);

// Adapts a load's rule to a step: a key does not rename an item below it that
// the step contains only under its registered name.
LoadRule RuleFor(LoadRule rule, const StepReader& step,
                 const ModelState& model);

}  // namespace ckptdb::internal

#endif  // CKPTDB_MANAGER_LOAD_STEP_ITEMS_H_
