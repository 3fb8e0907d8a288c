// SPDX-License-Identifier: Apache-2.0
// Checks of whether a store holds what was saved.
#ifndef CKPTDB_BENCH_SOAK_CHECK_H_
#define CKPTDB_BENCH_SOAK_CHECK_H_

#include <cstdint>
#include <map>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "bench/soak/content.h"
#include "db/reader.h"

namespace ckptdb::soak {

// Compares rows, tensors and io states of all ranks, each element. DataLoss
// that names the step and the first difference.
absl::Status CheckStep(const StepReader& step, const Content& content);
// Compares one tensor in the same way.
absl::Status CheckTensor(const StepReader& step, const Content& content,
                         absl::string_view name);

// Compares all parts of the evaluations of a step. Returns how many batches
// kEvaluation has done; 0 if the step has no evaluation.
absl::StatusOr<uint64_t> CheckEvaluation(const Reader& reader, int64_t step,
                                         const Content& content);

// Checks all steps of a store with their evaluations. Returns what
// CheckEvaluation returns by step.
absl::StatusOr<std::map<int64_t, uint64_t>> CheckAllSteps(
    Reader* reader, const Content& content);

}  // namespace ckptdb::soak

#endif  // CKPTDB_BENCH_SOAK_CHECK_H_
