// SPDX-License-Identifier: Apache-2.0
// Reads ranges of objects and keeps some of them; internal to remote/.
#ifndef CKPTDB_REMOTE_RANGES_RANGED_OBJECTS_H_
#define CKPTDB_REMOTE_RANGES_RANGED_OBJECTS_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <string>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "db/base/mutex.h"
#include "db/base/outside_files.h"
#include "remote/object_store.h"

namespace ckptdb::internal {

// Objects are divided into cells. A read requests the cells that it needs and
// that are not in memory; if it continues where an earlier request ended, it
// requests twice as many, up to kMostCells. So a lookup takes few bytes, and a
// scan few requests. Each thread waits for its own request. Thread-safe.
class RangedObjects : public OutsideFiles {
 public:
  static constexpr uint64_t kCellBytes = uint64_t{128} << 10;
  static constexpr uint64_t kMostCells = 64;  // in a request: 8 MiB

  // Keeps about `memory_bytes` of the cells that were used last. `cancelled`,
  // if set, is polled ten times a second while a thread waits for a request of
  // another one.
  RangedObjects(std::shared_ptr<ObjectStore> store, uint64_t memory_bytes,
                std::function<bool()> cancelled = {})
      : store_(std::move(store)),
        memory_bytes_(memory_bytes),
        cancelled_(std::move(cancelled)) {}

  // The name of a table is its key.
  absl::Status Read(const OutsideTable& table, uint64_t offset,
                    absl::Span<char> out) override;

 private:
  // Consecutive cells of an object that one request reads.
  struct Piece {
    std::string key;
    uint64_t first = 0;  // cell
    uint64_t cells = 0;
    uint64_t bytes = 0;
    std::unique_ptr<char[]> data;
    bool loaded = false;
  };
  using PiecePtr = std::shared_ptr<Piece>;
  using CellKey = std::pair<std::string, uint64_t>;

  PiecePtr Find(const std::string& key, uint64_t cell)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  PiecePtr Plan(const OutsideTable& table, uint64_t cell, uint64_t last_cell)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Status Load(Piece* piece);
  absl::StatusOr<PiecePtr> Get(const OutsideTable& table, uint64_t cell,
                               uint64_t last_cell);
  absl::Status Await() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Forget(const PiecePtr& piece) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void FreeMemory() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const std::shared_ptr<ObjectStore> store_;
  const uint64_t memory_bytes_;
  const std::function<bool()> cancelled_;
  Mutex mutex_;
  ConditionVariable loaded_;
  std::map<CellKey, PiecePtr> cells_ ABSL_GUARDED_BY(mutex_);
  std::list<PiecePtr> by_use_ ABSL_GUARDED_BY(mutex_);  // the last used first
  uint64_t bytes_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace ckptdb::internal

#endif  // CKPTDB_REMOTE_RANGES_RANGED_OBJECTS_H_
