// SPDX-License-Identifier: Apache-2.0
// All-gathers that bypass a coordinator's messages; internal to manager/.
#ifndef CKPTDB_MANAGER_RANKS_ALL_GATHERS_H_
#define CKPTDB_MANAGER_RANKS_ALL_GATHERS_H_

#include <memory>
#include <string>

#include "absl/strings/string_view.h"
#include "manager/coordinator.h"

namespace ckptdb::internal {

// Implements Coordinator::StartAllGather for a MessageCoordinator and its
// duplicates.
class AllGathers {
 public:
  virtual ~AllGathers() = default;
  virtual std::unique_ptr<Coordinator::AllGather> Start(Coordinator* ranks,
                                                        absl::string_view tag,
                                                        std::string value) = 0;
};

// A MessageCoordinator whose all-gathers are begun by `all_gathers`, unless
// that is null.
std::unique_ptr<Coordinator> MessageCoordinatorWith(
    std::unique_ptr<Coordinator::Transport> transport,
    std::shared_ptr<AllGathers> all_gathers);

}  // namespace ckptdb::internal

#endif  // CKPTDB_MANAGER_RANKS_ALL_GATHERS_H_
