// SPDX-License-Identifier: Apache-2.0
// Restores a table so that each page is read by a single rank; internal to
// manager/.
#ifndef CKPTDB_MANAGER_LOAD_ROW_EXCHANGE_H_
#define CKPTDB_MANAGER_LOAD_ROW_EXCHANGE_H_

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "db/reader.h"
#include "db/state.h"
#include "manager/coordinator.h"

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
  // The approximate bytes of rows that a rank reads in a round.
  uint64_t round_bytes = uint64_t{128} << 20;
};

// Returns whether exchanging rows reads less than each rank reading all pages
// with rows of its own. This holds if the ids of a rank are spread over several
// ranks' saves, by modulo or by a function, and the coordinator sends each
// value only to its rank. All ranks return the same.
bool ShouldExchange(const StepReader::TableSpec& table, uint32_t saved_ranks,
                    const TableSharding& sharding, const Coordinator& ranks);

// Restores the table, on all ranks together. Each reads an even share of the
// slices, and sends each row to the rank that now owns it, in rounds, so that a
// rank holds about 128 MiB of rows to send and as many received. All ranks
// return the same status.
absl::Status RestoreByExchange(const RowExchange& exchange);

}  // namespace ckptdb::internal

#endif  // CKPTDB_MANAGER_LOAD_ROW_EXCHANGE_H_
