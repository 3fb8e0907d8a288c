// SPDX-License-Identifier: Apache-2.0
// Makes the store of tests/golden/id_ranges in the given folder.
#include <optional>
#include <string>
#include <vector>

#include "db/store.h"
#include "schema/status.h"
#include "tests/golden/id_ranges/values.h"

namespace ckptdb::testing {
namespace {

// Saves the rows of a rank's range: all of them, or in later steps the changes.
absl::StatusOr<StagedRank> StageRanges(const std::string& path,
                                       const Ticket& ticket, int64_t step) {
  const TableSharding sharding = RangesSharding(step);
  const auto [begin, end] =
      sharding.RangeOf(ticket.rank(), ticket.world_size());
  std::vector<int64_t> ids;
  std::vector<float> values;
  for (int64_t id = begin; id < end; ++id) {
    if (step > 1 && !RangesChanged(id, step)) continue;
    ids.push_back(id);
    values.push_back(RangesValue(id, step));
  }
  const RowSource::Arrays rows(ids, {{values.data(), sizeof(float)}});
  RankState::Table table;
  table.name = "item";
  table.slots = {{"v", DType::kF32, 1}};
  table.sharding = sharding;
  if (step == 1) {
    table.rows = &rows;
  } else {
    table.changes = RankState::Changes{.upserted = &rows};
  }
  RankState state;
  state.AddTable(table);
  return Stage(path, ticket, state);
}

}  // namespace

absl::Status MakeIdRangesStore(const std::string& path) {
  CKPTDB_ASSIGN_OR_RETURN(const auto store, Store::Open(path));
  std::optional<Version> parent;
  for (int64_t step = 1; step <= 3; ++step) {
    SaveSpec spec{.step = step, .world_size = 3};
    spec.parent = parent;
    CKPTDB_ASSIGN_OR_RETURN(const Store::Attempt save, store->Begin(spec));
    std::vector<StagedRank> staged;
    for (const Ticket& ticket : save.tickets) {
      CKPTDB_ASSIGN_OR_RETURN(staged.emplace_back(),
                              StageRanges(path, ticket, step));
    }
    CKPTDB_RETURN_IF_ERROR(store->Publish(save.version, staged).status());
    parent = save.version;
  }
  return store->Sweep().status();
}

}  // namespace ckptdb::testing
