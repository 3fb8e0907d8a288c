// SPDX-License-Identifier: Apache-2.0
// The contents of the store of tests/golden/declared_sharding, by formula: see
// README.md in this folder. Nothing here is computed by the library.
//
//   const GoldenStep step = GoldenStepOf(110);
//   step.tables.at("by_slices").rows.at(7919)  // the bytes of its slots
#ifndef CKPTDB_TESTS_GOLDEN_DECLARED_SHARDING_HISTORY_H_
#define CKPTDB_TESTS_GOLDEN_DECLARED_SHARDING_HISTORY_H_

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "db/state.h"
#include "tests/db/content.h"
#include "tests/db/delta_content.h"

namespace ckptdb::testing {

struct GoldenPlan {
  int64_t step = 0;
  std::optional<int64_t> parent;
  uint32_t world_size = 1;
  std::vector<uint32_t> slice_bounds;
};

// The plans, in the order in which the steps were saved.
const std::vector<GoldenPlan>& GoldenPlans();
const GoldenPlan& GoldenPlanOf(int64_t step);

// The state of all ranks together.
struct GoldenStep {
  GoldenPlan plan;
  std::map<std::string, TableContent> tables;
  Deltas changes;  // of the tables since the parent; empty without a parent
  std::map<std::string, TensorContent> tensors;           // all shards
  std::vector<std::map<std::string, std::string>> blobs;  // by rank
};
GoldenStep GoldenStepOf(int64_t step);

TableSharding GoldenSharding(const std::string& table);
// Returns false for rows that another rank saves.
bool GoldenRankSaves(const GoldenStep& step, const std::string& table,
                     int64_t id, uint32_t rank);
// Returns what this rank saves of a tensor: all of it, a shard, or nothing.
std::optional<TensorContent> GoldenShard(const GoldenStep& step,
                                         const std::string& tensor,
                                         uint32_t rank);

}  // namespace ckptdb::testing

#endif  // CKPTDB_TESTS_GOLDEN_DECLARED_SHARDING_HISTORY_H_
