// The items of a step that no registered item is loaded from; internal to
// manager/.
#ifndef CKPTDB_MANAGER_LOAD_STEP_ITEMS_H_
#define CKPTDB_MANAGER_LOAD_STEP_ITEMS_H_

#include <compare>
#include <map>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "ckptdb/db/reader.h"
#include "ckptdb/manager/model_state.h"

namespace ckptdb::internal {

// An item of a step as people know it.
struct StepItem {
  std::string category;  // "blob" for one that no manager has written
  std::string name;      // of a blob without the prefix of its category
  std::string stored;    // as the step has it

  auto operator<=>(const StepItem&) const = default;
  // Returns `dense "w"`.
  std::string ToString() const;
};

// Returns the items that are no registered item's, in ascending order. `oname`
// maps registered names to names in the step, as that of LoadRule.
std::vector<StepItem> UnexpectedItems(
    const StepReader& step, const ModelState& model,
    const std::map<std::string, std::string>& oname);

// Returns the name in the step that a registered name is mapped to.
const std::string& SourceOf(const std::map<std::string, std::string>& oname,
                            const std::string& name);

}  // namespace ckptdb::internal

#endif  // CKPTDB_MANAGER_LOAD_STEP_ITEMS_H_
