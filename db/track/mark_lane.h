// SPDX-License-Identifier: Apache-2.0
// Assigns threads to lanes, in which they record marks; internal to db/.
#ifndef CKPTDB_DB_TRACK_MARK_LANE_H_
#define CKPTDB_DB_TRACK_MARK_LANE_H_

#include <atomic>
#include <cstddef>

namespace ckptdb::internal {

// Threads of a lane wait for each other and share its cache lines.
inline constexpr size_t kMarkLanes = 8;
inline constexpr size_t kMarkLaneAlignBytes = 64;

inline size_t MarkLaneOfThread() {
  static std::atomic<size_t> threads{0};
  thread_local const size_t kThread = threads.fetch_add(1);
  return kThread % kMarkLanes;
}

}  // namespace ckptdb::internal

#endif  // CKPTDB_DB_TRACK_MARK_LANE_H_
