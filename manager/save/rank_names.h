// SPDX-License-Identifier: Apache-2.0
// What must have the same names on all ranks because one rank saves it for all;
// internal to manager/.
#ifndef CKPTDB_MANAGER_SAVE_RANK_NAMES_H_
#define CKPTDB_MANAGER_SAVE_RANK_NAMES_H_

#include <cstddef>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "manager/manager_options.h"
#include "manager/model_state.h"
#include "manager/ranks/message_codec.h"

namespace ckptdb::internal {

// The names of a rank. Tables are compared when the manager is opened; each
// rank saves its own shards of tensors and io states.
struct RankNames {
  std::string replicas;  // see DescribeReplicas
  // Sorted.
  std::vector<std::string> objects;  // and values
  std::vector<std::string> metrics;
  std::vector<std::string> user_metadata;
};

template <>
struct Fields<RankNames> {
  static auto Of(auto& m) {
    return std::tie(m.replicas, m.objects, m.metrics, m.user_metadata);
  }
};

// Returns the names of a model, which the ranks compare when they open the
// manager.
RankNames NamesOf(const ModelState& model,
                  const ManagerOptions::Ranks& options);

// Returns the names of a save, with a hash in place of a long description of
// the replicas. A provider may register others than at the opening.
RankNames NamesOfSave(const ModelState& model,
                      const ManagerOptions::Ranks& options,
                      const SaveRequest& request);

// Returns InvalidArgument naming the rank, the first difference and the remedy
// if another rank's replicas differ from the owner's, or if it has an object, a
// metric or user metadata that the owner lacks: no rank would save it.
absl::Status CompareNames(const RankNames& owners, size_t rank,
                          const RankNames& other);

}  // namespace ckptdb::internal

#endif  // CKPTDB_MANAGER_SAVE_RANK_NAMES_H_
