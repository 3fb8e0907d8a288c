// SPDX-License-Identifier: Apache-2.0
// Alternatives to a store, measured in turns with it.
#ifndef CKPTDB_BENCH_ALTERNATIVES_H_
#define CKPTDB_BENCH_ALTERNATIVES_H_

#include "absl/status/status.h"
#include "bench/cases.h"
#include "bench/disk.h"
#include "bench/payload.h"
#include "bench/report.h"
#include "bench/store_save.h"

namespace ckptdb::bench {

// Adds two results, whose raw side is the alternative:
// full/put_per_row  a RocksDB Put for each row, 1,000 of them a WriteBatch,
//                   with the log, and a flush and sync at the end
// full/fwrite       the arrays by buffered fwrite, and fsync
absl::Status CompareWithAlternatives(const BenchOptions& options,
                                     const Workspace& workspace,
                                     const Table& table, StoreSave* save,
                                     Report* report);

}  // namespace ckptdb::bench

#endif  // CKPTDB_BENCH_ALTERNATIVES_H_
