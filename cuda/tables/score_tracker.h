// SPDX-License-Identifier: Apache-2.0
// Finds the changed rows of a hash table by their scores; internal to cuda/.
#ifndef CKPTDB_CUDA_TABLES_SCORE_TRACKER_H_
#define CKPTDB_CUDA_TABLES_SCORE_TRACKER_H_

#include <cstdint>
#include <map>
#include <memory>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "cuda/tables/hash_rows.h"
#include "db/base/mutex.h"
#include "db/row_tracker.h"

namespace ckptdb::internal {

// Thread-safe. Take reads the keys and scores of the table.
class ScoreTracker : public ChangeTracker {
 public:
  // The layout must outlive it.
  ScoreTracker(const HashLayout* layout, HashTable::Erasures erasures)
      : layout_(*layout), erasures_(erasures) {}

  absl::StatusOr<Consumer> AddConsumer(absl::string_view name) override;
  absl::Status RemoveConsumer(Consumer consumer) override;
  [[nodiscard]] absl::StatusOr<Changes> Take(Consumer consumer) override;
  absl::Status Return(Consumer consumer, Changes&& changes) override;

  // Call it when the table is being restored: scores may decrease.
  void Restart();

 private:
  using Ids = std::shared_ptr<const std::vector<int64_t>>;
  // The state of the table at a consumer's last Take.
  struct Seen {
    uint64_t score = 0;   // the highest
    uint64_t number = 0;  // counts the Takes
    Ids ids;              // ascending, for Erasures::kCompare
  };
  // A set that was taken and not yet saved or returned.
  struct Taken {
    std::weak_ptr<const TakenSet> key;
    Seen before;
  };

  absl::StatusOr<Seen> Scan(const Seen& before, Changes* changes) const;

  const HashLayout& layout_;
  const HashTable::Erasures erasures_;

  Mutex mutex_;
  // Keeps the consumers and their sets; it has no marks.
  RowTracker consumers_ ABSL_GUARDED_BY(mutex_);
  std::map<uint32_t, Seen> seen_ ABSL_GUARDED_BY(mutex_);
  std::vector<Taken> taken_ ABSL_GUARDED_BY(mutex_);
  uint64_t takes_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace ckptdb::internal

#endif  // CKPTDB_CUDA_TABLES_SCORE_TRACKER_H_
