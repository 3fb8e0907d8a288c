// SPDX-License-Identifier: Apache-2.0
// The named points of a save and a sweep, which StoreOptions::on_point passes,
// in their order. A process may die at any of them; tests and drills loop over
// all. Included by db/options.h.
#ifndef CKPTDB_DB_INTERNAL_CRASH_POINTS_H_
#define CKPTDB_DB_INTERNAL_CRASH_POINTS_H_

#include <array>

#include "absl/strings/string_view.h"

namespace ckptdb {

namespace point {
// 1. Begin: the attempt record is durable.
inline constexpr absl::string_view kBegun = "begin:recorded";
// 2. Stage: the first file is being written; all files are durable.
inline constexpr absl::string_view kStaging = "stage:writing";
inline constexpr absl::string_view kStaged = "stage:done";
// 3. Publish: (a) all is checked; (b) the files are in the database; (c) the
// batch is durable, the step exists; (d) it is flushed, and acknowledged
// next.
inline constexpr absl::string_view kChecked = "publish:checked";
inline constexpr absl::string_view kIngested = "publish:ingested";
inline constexpr absl::string_view kCommitted = "publish:committed";
inline constexpr absl::string_view kFlushed = "publish:flushed";
// 4. Sweep: garbage is known; its files are deleted; its records are deleted.
inline constexpr absl::string_view kSweepMarked = "sweep:marked";
inline constexpr absl::string_view kSweepFreed = "sweep:freed";
inline constexpr absl::string_view kSweepDone = "sweep:done";
}  // namespace point

inline constexpr std::array<absl::string_view, 10> kCrashPoints = {
    point::kBegun,      point::kStaging,   point::kStaged,  point::kChecked,
    point::kIngested,   point::kCommitted, point::kFlushed, point::kSweepMarked,
    point::kSweepFreed, point::kSweepDone,
};

namespace point {
// A fetch that updates a store, for each step: its files are downloaded; its
// attempt records are durable; its files are in the database; the batch is
// durable, the step exists. At the end: older steps are deleted.
inline constexpr absl::string_view kFetchDownloaded = "fetch:downloaded";
inline constexpr absl::string_view kFetchBegun = "fetch:begun";
inline constexpr absl::string_view kFetchIngested = "fetch:ingested";
inline constexpr absl::string_view kFetchCommitted = "fetch:committed";
inline constexpr absl::string_view kFetchRemoved = "fetch:removed";
}  // namespace point

inline constexpr std::array<absl::string_view, 5> kFetchPoints = {
    point::kFetchDownloaded, point::kFetchBegun, point::kFetchIngested,
    point::kFetchCommitted, point::kFetchRemoved};

}  // namespace ckptdb

#endif  // CKPTDB_DB_INTERNAL_CRASH_POINTS_H_
