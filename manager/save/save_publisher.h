// Publishes on the owner what all ranks have staged; internal to manager/.
#ifndef CKPTDB_MANAGER_SAVE_SAVE_PUBLISHER_H_
#define CKPTDB_MANAGER_SAVE_SAVE_PUBLISHER_H_

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "ckptdb/db/store.h"
#include "ckptdb/manager/checkpoint_manager.h"
#include "ckptdb/manager/policy/history.h"
#include "ckptdb/manager/policy/retirement.h"
#include "ckptdb/manager/ranks/messages.h"

namespace ckptdb::internal {

// The entry of a step's user metadata that says why it was saved.
inline constexpr char kSavedBecause[] = "ckptdb.saved_because";

// Plans which steps leave with a save and publishes both at once, on the owner.
// Used by the thread that runs the save. It owns nothing: what it notes is in
// the retirement and the history, which are thread-safe.
class SavePublisher {
 public:
  // All arguments outlive it.
  SavePublisher(const ManagerOptions& options, Store* store,
                Retirement* retirement, History* history)
      : options_(options),
        store_(store),
        retirement_(retirement),
        history_(history) {}

  // The step that is published.
  struct Publication {
    const Announcement& announced;
    const SaveRequest& request;
    // The step, and which others leave by themselves; see Retirement::Commit.
    Retirement::Commit commit;
  };

  // Publishes the parts of all ranks. The attempt is abandoned when `staged` is
  // an error, or publishing fails. Adds to *planning_micros what planning took.
  Outcome Publish(Publication publication,
                  const absl::StatusOr<std::vector<StagedRank>>& staged,
                  int64_t* planning_micros);

  // Gives up what was begun. What is left of it is swept, whether or not that
  // succeeds.
  void Abandon(const Version& version);

 private:
  PublishSpec SpecOf(const Publication& publication) const;
  absl::Status PlanAndPublish(const std::vector<StagedRank>& staged,
                              Publication* publication, PublishSpec* spec,
                              SaveResult* result, int64_t* planning_micros);
  // The steps that retention removes, and those of a branch that was abandoned
  // where the save has no parent.
  std::vector<int64_t> StepsToRetire(const Publication& publication);
  // Returns whether the store has the step, and it is not pinned.
  bool IsRemovable(int64_t step) const;

  const ManagerOptions& options_;
  Store* const store_;
  Retirement* const retirement_;
  History* const history_;
};

}  // namespace ckptdb::internal

#endif  // CKPTDB_MANAGER_SAVE_SAVE_PUBLISHER_H_
