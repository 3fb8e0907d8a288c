// SPDX-License-Identifier: Apache-2.0
// The changes of all of a rank's tables since its last save; internal to
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
#include "absl/strings/string_view.h"
#include "db/row_tracker.h"
#include "manager/model_state.h"

namespace ckptdb::internal {

// The changes of each table, in the model's order; unset for a table without a
// tracker.
using ChangeSets = std::vector<std::optional<ChangeTracker::Changes>>;

// The reasons to save tables in full, by table name.
using BaseReasons = std::map<std::string, std::string>;

// Consumes the trackers of a model, which outlives the feed. Feeds of managers
// of other stores may share the trackers: each receives all marks.
class ChangeFeed {
 public:
  // `store_path` is the manager's.
  ChangeFeed(const ModelState& model, std::string store_path)
      : model_(model), store_path_(std::move(store_path)) {}
  ~ChangeFeed();
  ChangeFeed(const ChangeFeed&) = delete;
  ChangeFeed& operator=(const ChangeFeed&) = delete;

  // Joins all trackers. Returns AlreadyExists if a tracker has another feed of
  // the same store, or the model contains a table under two names.
  absl::Status Join();

  // Returns the changes since the last Take. If a manager has restored a table
  // since then, its set is marked incomplete; its lists are the tracker's. So
  // is the next set of a table whose tracker has thrown, or has failed to take
  // changes back.
  absl::StatusOr<ChangeSets> Take();
  // Drops the changes since the last Take, as the model was restored; those of
  // all trackers, even if one of them fails.
  absl::Status Drop();
  // Returns the changes of a failed save to all trackers, even if one of them
  // fails.
  absl::Status Return(ChangeSets sets);

 private:
  struct Joined {
    ChangeTracker* tracker = nullptr;
    ChangeTracker::Consumer consumer;
    uint64_t restores = 0;  // as of the last Take
    // Why the next set is incomplete although the tracker may not know it.
    std::string incomplete = {};
  };
  absl::Status Join(const std::string& name, ChangeTracker* tracker,
                    std::optional<Joined>* joined) const;
  static absl::StatusOr<ChangeTracker::Changes> TakeFrom(Joined* joined);
  static void NoteLost(absl::string_view what, const absl::Status& error,
                       Joined* joined);

  const ModelState& model_;
  const std::string store_path_;
  std::vector<std::optional<Joined>> joined_;  // by table
};

// Returns the tables that cannot be saved as changes.
BaseReasons IncompleteTables(const ModelState& model, const ChangeSets& sets);

}  // namespace ckptdb::internal

#endif  // CKPTDB_MANAGER_STATE_CHANGE_SETS_H_
