// The changes of all tables of a rank since its last save; internal to
// manager/.
#ifndef CKPTDB_MANAGER_STATE_CHANGE_SETS_H_
#define CKPTDB_MANAGER_STATE_CHANGE_SETS_H_

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
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

// Consumes the trackers of a model, which outlives the feed. Managers of other
// stores may have feeds of the same trackers: each sees all marks.
class ChangeFeed {
 public:
  // `store_path` is that of the manager.
  ChangeFeed(const ModelState& model, std::string store_path)
      : model_(model), store_path_(std::move(store_path)) {}
  ~ChangeFeed();
  ChangeFeed(const ChangeFeed&) = delete;
  ChangeFeed& operator=(const ChangeFeed&) = delete;

  // Joins all trackers. Returns AlreadyExists if another feed of the same store
  // has a tracker, or the model has a table under two names.
  absl::Status Join();

  // Returns the changes since the last Take. If a manager has restored a table
  // since then, its set is not complete; its lists are as the tracker gave
  // them.
  absl::StatusOr<ChangeSets> Take();
  // Gives back the changes of a save that failed: all of them, whatever happens
  // to one.
  absl::Status Return(ChangeSets sets);

 private:
  struct Joined {
    ChangeTracker* tracker = nullptr;
    ChangeTracker::Consumer consumer;
    uint64_t restores = 0;  // that the sets taken so far account for
  };
  absl::Status Join(const std::string& name, ChangeTracker* tracker,
                    std::optional<Joined>* joined) const;

  const ModelState& model_;
  const std::string store_path_;
  std::vector<std::optional<Joined>> joined_;  // by table
};

// Returns the tables that cannot be saved as changes.
BaseReasons IncompleteTables(const ModelState& model, const ChangeSets& sets);

}  // namespace ckptdb::internal

#endif  // CKPTDB_MANAGER_STATE_CHANGE_SETS_H_
