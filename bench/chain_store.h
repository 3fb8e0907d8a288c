// SPDX-License-Identifier: Apache-2.0
// A store with a base of a table and deltas over it, each of 1 % of the rows,
// and what it takes to restore, follow and compare them.
#ifndef CKPTDB_BENCH_CHAIN_STORE_H_
#define CKPTDB_BENCH_CHAIN_STORE_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "bench/cases.h"
#include "bench/disk.h"
#include "bench/measure.h"
#include "bench/payload.h"
#include "db/store.h"

namespace ckptdb::bench {

// A delta changes one row in so many, scattered over the trainer's memory.
inline constexpr uint64_t kRowsPerChanged = 100;

class ChainStore {
 public:
  // Makes the store in the workspace, and the table with it.
  static absl::StatusOr<std::unique_ptr<ChainStore>> Make(
      const Workspace& workspace, const BenchOptions& options);

  // Saves the whole table as the next step, with no chain.
  absl::StatusOr<SaveResult> SaveBase();
  // Changes 1 % of the rows, and saves them over the step before.
  absl::StatusOr<SaveResult> SaveDelta();
  // Removes all steps, and waits until their space is back.
  absl::Status Clear();

  Table& table() { return *table_; }
  Store& store() { return *store_; }
  const std::string& path() const { return store_->path(); }
  int64_t last_step() const { return step_; }
  // The time of the last save itself.
  const Sample& last_sample() const { return last_sample_; }
  // Returns the digest of the table's rows after a step was saved.
  uint64_t digest(int64_t step) const { return digests_.at(step); }
  uint64_t rows_changed() const;
  uint64_t bytes_changed() const { return rows_changed() * Table::kRowBytes; }

  // Reads a step with nothing of it in the page cache: Prepare, the restore,
  // and a check of what came.
  Contestant RestoreOf(int64_t step, const std::string& name);

 private:
  ChainStore(std::unique_ptr<Store> store, std::unique_ptr<Table> table,
             const BenchOptions& options)
      : store_(std::move(store)), table_(std::move(table)), options_(options) {}

  absl::StatusOr<SaveResult> Save(const RankState& state);

  std::unique_ptr<Store> store_;
  const std::unique_ptr<Table> table_;
  const BenchOptions options_;
  int64_t step_ = 0;
  uint64_t deltas_ = 0;
  std::optional<Version> last_;
  Sample last_sample_;
  std::vector<uint64_t> digests_ = {0};  // by step
};

}  // namespace ckptdb::bench

#endif  // CKPTDB_BENCH_CHAIN_STORE_H_
