// SPDX-License-Identifier: Apache-2.0
// The calls of Store about evaluations; internal to db/.
#ifndef CKPTDB_DB_STORE_EVALUATIONS_H_
#define CKPTDB_DB_STORE_EVALUATIONS_H_

#include <cstdint>
#include <optional>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "db/store/store_components.h"
#include "schema/types.h"

namespace ckptdb::internal {

// They return what Store's calls return. Save and delete acquire
// Committer::changes(), so that no other call removes the step; find and list
// hold its version.
absl::Status SaveEvaluation(const StoreComponents& store, int64_t step,
                            absl::string_view evaluation,
                            absl::string_view group,
                            absl::Span<const StepRecord::Evaluation> ranks);
absl::StatusOr<std::optional<StepRecord::Evaluation>> FindEvaluation(
    const StoreComponents& store, int64_t step, absl::string_view evaluation,
    uint32_t rank);
absl::StatusOr<std::vector<std::pair<std::string, uint32_t>>> ListEvaluations(
    const StoreComponents& store, int64_t step);
absl::Status DeleteEvaluations(const StoreComponents& store,
                               absl::Span<const int64_t> steps);

}  // namespace ckptdb::internal

#endif  // CKPTDB_DB_STORE_EVALUATIONS_H_
