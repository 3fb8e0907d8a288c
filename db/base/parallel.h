// SPDX-License-Identifier: Apache-2.0
// Runs tasks on several threads; internal to db/.
#ifndef CKPTDB_DB_BASE_PARALLEL_H_
#define CKPTDB_DB_BASE_PARALLEL_H_

#include <cstdint>
#include <functional>

#include "absl/status/status.h"

namespace ckptdb::internal {

// Calls task(worker, i) for every i below `tasks`, started in ascending order,
// on at most `threads` workers numbered from 0. The calling thread is one of
// them, and does all the work if no other thread can be started. After an error
// or an exception, starts no further task. Returns the error of the lowest i
// that failed.
//
// `poll`, if set, is called on the calling thread every few milliseconds while
// it waits for other workers. Its error counts as that of a last task; it does
// not end tasks that are running.
absl::Status ParallelFor(
    int threads, uint64_t tasks,
    const std::function<absl::Status(int worker, uint64_t i)>& task,
    const std::function<absl::Status()>& poll = nullptr);

}  // namespace ckptdb::internal

#endif  // CKPTDB_DB_BASE_PARALLEL_H_
