// SPDX-License-Identifier: Apache-2.0
#ifndef CKPTDB_TESTS_MANAGER_TEST_OPTIONS_H_
#define CKPTDB_TESTS_MANAGER_TEST_OPTIONS_H_

#include <string>

#include "manager/checkpoint_manager.h"
#include "schema/status.h"

namespace ckptdb::testing {

// Saves each `interval` steps, as deltas however small the tables are.
inline ManagerOptions TestOptions(const std::string& path,
                                  int64_t interval = 1) {
  ManagerOptions options;
  options.path = path;
  options.store.background_sweep = false;
  options.save.bounds.max_delta_ratio = 100;
  options.ranks.deadline = absl::Seconds(60);
  options.schedule.permanent = SaveEveryNSteps(interval);
  return options;
}

// Counts a step, saves it, whatever the schedule, and waits for the save.
inline absl::Status StepAndSave(CheckpointManager* manager,
                                const SaveRequest& request = {}) {
  CKPTDB_RETURN_IF_ERROR(manager->Step().status());
  CKPTDB_RETURN_IF_ERROR(manager->Save(request).status());
  return manager->WaitUntilFinished();
}

}  // namespace ckptdb::testing

#endif  // CKPTDB_TESTS_MANAGER_TEST_OPTIONS_H_
