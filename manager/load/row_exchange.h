// A restore of a table in which each page is read by one rank; internal to
// manager/.
#ifndef CKPTDB_MANAGER_LOAD_ROW_EXCHANGE_H_
#define CKPTDB_MANAGER_LOAD_ROW_EXCHANGE_H_

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "ckptdb/db/reader.h"
#include "ckptdb/db/state.h"
#include "ckptdb/manager/coordinator.h"

namespace ckptdb::internal {

struct RowExchange {
  const StepReader* step = nullptr;
  std::string table;  // its name in the step
  LiveTable::RestoreMode mode = LiveTable::RestoreMode::kClear;
  ScanOptions scan;  // without slices and `wanted`; all slots by name
  TableSharding sharding;
  SliceHash hash = SliceHash::kModulo;  // of the model's table
  LiveTable* live = nullptr;
  Coordinator* ranks = nullptr;
  absl::Duration deadline;
  // About the bytes of rows that a rank reads in a round.
  uint64_t round_bytes = uint64_t{128} << 20;
};

// Returns whether the ranks read less if they exchange rows than if each reads
// all pages that have rows of its own. That is so if the ids of a rank are
// spread over what several ranks saved, by the remainder or by a function, and
// the coordinator sends each value to its rank alone. All ranks come to the
// same result.
bool ShouldExchange(const StepReader::TableSpec& table, uint32_t saved_ranks,
                    const TableSharding& sharding, const Coordinator& ranks);

// Restores the table, on all ranks together. Each reads an even share of the
// slices, and sends each row to the rank that has it now, in rounds, so that a
// rank holds about 128 MiB of rows to send and as much of received ones. All
// ranks return the same status.
absl::Status RestoreByExchange(const RowExchange& exchange);

}  // namespace ckptdb::internal

#endif  // CKPTDB_MANAGER_LOAD_ROW_EXCHANGE_H_
