// SPDX-License-Identifier: Apache-2.0
// A ledger of what a store has acknowledged, and so must hold.
//
//   ledger.Began(7);
//   ledger.Saved(7, /*retired=*/{3});
//   CKPTDB_RETURN_IF_ERROR(ledger.Settle({5, 6, 7}, /*latest=*/7));
#ifndef CKPTDB_BENCH_SOAK_LEDGER_H_
#define CKPTDB_BENCH_SOAK_LEDGER_H_

#include <cstdint>
#include <optional>
#include <set>

#include "absl/status/status.h"
#include "absl/types/span.h"

namespace ckptdb::soak {

class Ledger {
 public:
  // A save was asked for, which may or may not happen.
  void Began(int64_t step) { in_doubt_.insert(step); }
  void Saved(int64_t step, absl::Span<const int64_t> retired);
  // It failed for room, and those before it did not happen. Whether it did is
  // known when another one is acknowledged or the store opened again: it may be
  // the one after which the store is out of use, see guarantee 4 of db/store.h.
  void Failed(int64_t step) { in_doubt_ = {step}; }
  void Pinned(int64_t step) { pinned_.insert(step); }
  void Unpinned(int64_t step) { pinned_.erase(step); }

  // Compares with the steps that a store lists, and knows from then on what
  // became of saves in doubt. Returns DataLoss naming the step that is missing
  // or should not be there: without a save in doubt that happened there are
  // exactly the acknowledged steps that were not retired; with one, the steps
  // that it retired may be gone, but none that is pinned.
  absl::Status Settle(const std::set<int64_t>& found,
                      std::optional<int64_t> latest);

  const std::set<int64_t>& steps() const { return steps_; }
  const std::set<int64_t>& pinned() const { return pinned_; }

 private:
  absl::Status CheckMissing(const std::set<int64_t>& found,
                            bool may_retire) const;

  std::set<int64_t> steps_;
  std::set<int64_t> pinned_;
  std::set<int64_t> in_doubt_;
  std::optional<int64_t> latest_;
};

}  // namespace ckptdb::soak

#endif  // CKPTDB_BENCH_SOAK_LEDGER_H_
