// SPDX-License-Identifier: Apache-2.0
// Saves a step of one store in another one.
#ifndef CKPTDB_TOOLS_STEP_COPY_H_
#define CKPTDB_TOOLS_STEP_COPY_H_

#include <cstdint>
#include <functional>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "db/reader.h"
#include "db/store.h"

namespace ckptdb::tool {

// Saves the step as a full step, with its ranks, metrics, metadata and time.
// Values under a lossy codec are stored as they are read, without further loss.
// Rows of a table that is divided by a trainer's function, or undeclared, go to
// rank 0, as after a fold. Takes disk space for one rank's state in the folder
// of `to`, which is freed on return, but no memory for it.
//
// Returns AlreadyExists if `to` contains a step of this number.
absl::StatusOr<SaveResult> CopyStep(const StepReader& from, Store* to,
                                    const std::function<bool()>& cancelled);

// Reads both steps, and returns DataLoss naming the first item whose contents
// differ.
absl::Status CompareContents(const StepReader& a, const StepReader& b,
                             const std::function<bool()>& cancelled);

}  // namespace ckptdb::tool

#endif  // CKPTDB_TOOLS_STEP_COPY_H_
