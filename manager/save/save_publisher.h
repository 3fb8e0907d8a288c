// SPDX-License-Identifier: Apache-2.0
// Publishes, on the owner, the staged parts of all ranks; internal to manager/.
#ifndef CKPTDB_MANAGER_SAVE_SAVE_PUBLISHER_H_
#define CKPTDB_MANAGER_SAVE_SAVE_PUBLISHER_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "db/store.h"
#include "manager/manager_options.h"
#include "manager/policy/history.h"
#include "manager/policy/retirement.h"
#include "manager/ranks/messages.h"

namespace ckptdb::internal {

// The key in a step's user metadata that stores the reason for saving it.
inline constexpr char kSavedBecause[] = "ckptdb.saved_because";

// Plans which steps a save removes and publishes both in one commit, on the
// owner. Used by the thread that runs the save. Owns no state: it records in
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

  // The step to publish.
  struct Publication {
    const Announcement& announced;
    const SaveRequest& request;
    const std::string& value_types;  // see EncodeValueTypes
    // The step, and the steps that are removed with it; see Retirement::Commit.
    Retirement::Commit commit;
  };

  // Publishes the parts of all ranks. Abandons the attempt if `staged` is an
  // error or publishing fails. Adds the time that planning took to
  // *planning_micros.
  Outcome Publish(Publication publication,
                  const absl::StatusOr<std::vector<StagedRank>>& staged,
                  int64_t* planning_micros);

  // Abandons an attempt. A later sweep deletes its files, whether or not this
  // succeeds.
  void Abandon(const Version& version);

 private:
  SaveSpec SpecOf(const Publication& publication) const;
  absl::Status PlanAndPublish(const std::vector<StagedRank>& staged,
                              Publication* publication, SaveSpec* spec,
                              SaveResult* result, int64_t* planning_micros);
  // Returns the steps that retention removes and, if the save has no parent,
  // those of the abandoned branch.
  std::vector<int64_t> StepsToRetire(const Publication& publication);
  // Returns whether the store contains the step and it is not pinned.
  bool IsRemovable(int64_t step) const;

  const ManagerOptions& options_;
  Store* const store_;
  Retirement* const retirement_;
  History* const history_;
};

}  // namespace ckptdb::internal

#endif  // CKPTDB_MANAGER_SAVE_SAVE_PUBLISHER_H_
