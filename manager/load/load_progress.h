// SPDX-License-Identifier: Apache-2.0
// Reports the progress of a load that makes several reads; internal to
// manager/.
#ifndef CKPTDB_MANAGER_LOAD_LOAD_PROGRESS_H_
#define CKPTDB_MANAGER_LOAD_LOAD_PROGRESS_H_

#include <algorithm>
#include <cstdint>
#include <functional>
#include <utility>

namespace ckptdb::internal {

// Not thread-safe: reads follow one another, and each reports one call at a
// time.
class LoadProgress {
 public:
  using Function = std::function<void(uint64_t done_bytes, uint64_t all_bytes)>;

  explicit LoadProgress(Function report) : report_(std::move(report)) {}

  void AddTotal(uint64_t bytes) { all_bytes_ += bytes; }
  // Called before the reads of an item of `bytes` bytes.
  void BeginItem(uint64_t bytes) {
    begun_bytes_ += std::exchange(item_bytes_, bytes);
  }
  // The ReadOptions::progress of the item's reads. An exchange of rows makes
  // several, so the sum may not grow.
  void Report(uint64_t done_bytes, uint64_t all_bytes) {
    const double share = all_bytes == 0 ? 1 : 1.0 * done_bytes / all_bytes;
    const uint64_t sum =
        begun_bytes_ + static_cast<uint64_t>(share * item_bytes_);
    if (sum <= done_bytes_) return;
    done_bytes_ = std::min(sum, all_bytes_);
    report_(done_bytes_, all_bytes_);
  }

 private:
  const Function report_;
  uint64_t all_bytes_ = 0;
  uint64_t begun_bytes_ = 0;  // of the items before this one
  uint64_t item_bytes_ = 0;
  uint64_t done_bytes_ = 0;
};

}  // namespace ckptdb::internal

#endif  // CKPTDB_MANAGER_LOAD_LOAD_PROGRESS_H_
