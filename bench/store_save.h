// SPDX-License-Identifier: Apache-2.0
// Our side of a save benchmark: each repetition saves a new step into
// the same store, the one before deleted and swept.
#ifndef CKPTDB_BENCH_STORE_SAVE_H_
#define CKPTDB_BENCH_STORE_SAVE_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "bench/cases.h"
#include "bench/disk.h"
#include "bench/measure.h"
#include "bench/raw_io.h"
#include "db/state.h"
#include "db/store.h"

namespace ckptdb::bench {

StoreOptions StoreOptionsOf(const BenchOptions& options);
ReadOptions ReadOptionsOf(const BenchOptions& options);

class StoreSave {
 public:
  // Makes the store in the workspace. `state` must outlive the result.
  static absl::StatusOr<std::unique_ptr<StoreSave>> Make(
      const Workspace& workspace, const BenchOptions& options,
      const RankState* state);

  // Refers to this object.
  Contestant AsContestant();

  // Removes the step that is there, and waits until its space is back.
  absl::Status Clear();
  // Saves the next step. Returns Unavailable if a save has written less than
  // all.
  absl::Status Save();

  Store& store() { return *store_; }
  int64_t last_step() const { return step_; }
  uint64_t stored_bytes() const { return stored_bytes_; }
  // The most of all saves.
  uint64_t peak_bytes() const { return peak_bytes_; }

 private:
  StoreSave(std::unique_ptr<Store> store, const RankState* state)
      : store_(std::move(store)), state_(state) {}

  const std::unique_ptr<Store> store_;
  const RankState* const state_;
  PeakMemory memory_;
  int64_t step_ = 0;
  bool saved_ = false;
  uint64_t stored_bytes_ = 0;
  uint64_t peak_bytes_ = 0;
};

// The raw writes of `payload` in all variants, each into a folder of its own
// that is removed after it. The memory must outlive them.
std::vector<Contestant> RawWriters(const Workspace& workspace,
                                   const std::vector<Memory>& payload);

inline constexpr uint64_t kManyStepsTensorElements = 16;

// Makes a store of steps 0 to `steps` - 1 of a u64 tensor "w" and a table of a
// few rows each, no two with the same bytes, each with a metric "auc".
absl::Status BuildSteps(const std::string& path, uint64_t steps, uint64_t seed);

}  // namespace ckptdb::bench

#endif  // CKPTDB_BENCH_STORE_SAVE_H_
