// The changes of all tables of a rank since its last save; internal to
// manager/.
#ifndef CKPTDB_MANAGER_STATE_CHANGE_SETS_H_
#define CKPTDB_MANAGER_STATE_CHANGE_SETS_H_

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "ckptdb/db/row_tracker.h"
#include "ckptdb/manager/model_state.h"

namespace ckptdb::internal {

// By table, in the order of the model's; none for one without a tracker.
using ChangeSets = std::vector<std::optional<RowChanges>>;

// Why tables are saved whole, by table.
using BaseReasons = std::map<std::string, std::string>;

// A consumer of the trackers of a model, which outlives it.
class ChangeFeed {
 public:
  explicit ChangeFeed(const ModelState& model) : model_(model) {}
  ~ChangeFeed();
  ChangeFeed(const ChangeFeed&) = delete;
  ChangeFeed& operator=(const ChangeFeed&) = delete;

  // AlreadyExists when another manager saves the same tables.
  absl::Status Join();

  absl::StatusOr<ChangeSets> Take();
  // Of a save that failed. All are returned, whatever happens to one.
  absl::Status Return(ChangeSets sets);

 private:
  const ModelState& model_;
  std::vector<std::optional<ConsumerId>> consumers_;
};

// Of those that cannot be saved as changes.
BaseReasons IncompleteTables(const ModelState& model, const ChangeSets& sets);

}  // namespace ckptdb::internal

#endif  // CKPTDB_MANAGER_STATE_CHANGE_SETS_H_
