// SPDX-License-Identifier: Apache-2.0
// Rows of the soak's table as a process holds them: filled by a restore or a
// scan, compared with what they should be.
#ifndef CKPTDB_BENCH_SOAK_HELD_ROWS_H_
#define CKPTDB_BENCH_SOAK_HELD_ROWS_H_

#include <mutex>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "bench/soak/content.h"
#include "db/reader.h"

namespace ckptdb::soak {

class HeldRows : public LiveTable {
 public:
  Rows& rows() { return rows_; }
  const Rows& rows() const { return rows_; }

  // The slots that batches have, in this order. Default: the table's.
  void SetSlots(absl::Span<const std::string> slots) {
    slots_.assign(slots.begin(), slots.end());
  }

  absl::Status Clear() override;
  absl::Status Consume(int worker, const RowSink::Batch& batch) override;
  absl::Status Erase(int worker, absl::Span<const int64_t> ids) override;

 private:
  std::mutex mutex_;
  std::vector<std::string> slots_ = {kEmbeddingSlot, kSumSlot};
  Rows rows_;
};

// Returns DataLoss with `where` and the first id at which they differ.
absl::Status CompareRows(const Rows& found, const Rows& expected,
                         absl::string_view where);

}  // namespace ckptdb::soak

#endif  // CKPTDB_BENCH_SOAK_HELD_ROWS_H_
