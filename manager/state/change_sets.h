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

// The changes of each table, in the order of the model; none for a table
// without a tracker.
using ChangeSets = std::vector<std::optional<ChangeTracker::Changes>>;

// The reasons to save tables whole, by the name of the table.
using BaseReasons = std::map<std::string, std::string>;

// Consumes the trackers of a model, which outlives the feed.
class ChangeFeed {
 public:
  explicit ChangeFeed(const ModelState& model) : model_(model) {}
  ~ChangeFeed();
  ChangeFeed(const ChangeFeed&) = delete;
  ChangeFeed& operator=(const ChangeFeed&) = delete;

  // Joins all trackers. Returns AlreadyExists if another manager saves the same
  // tables.
  absl::Status Join();

  absl::StatusOr<ChangeSets> Take();
  // Gives back the changes of a save that failed: all of them, whatever happens
  // to one.
  absl::Status Return(ChangeSets sets);

 private:
  const ModelState& model_;
  std::vector<std::optional<ChangeTracker::Consumer>> consumers_;
};

// Returns the tables that cannot be saved as changes.
BaseReasons IncompleteTables(const ModelState& model, const ChangeSets& sets);

}  // namespace ckptdb::internal

#endif  // CKPTDB_MANAGER_STATE_CHANGE_SETS_H_
