// SPDX-License-Identifier: Apache-2.0
// The records of evaluations in progress, for owners and readers; internal to
// db/.
//
// Their keys contain the version that made the step's state. A fold makes no
// new state, so it keeps them; anything else that removes the version removes
// them, too.
#ifndef CKPTDB_DB_STORE_EVALUATION_RECORDS_H_
#define CKPTDB_DB_STORE_EVALUATION_RECORDS_H_

#include <cstdint>
#include <optional>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "db/rocks/database.h"
#include "schema/types.h"

namespace ckptdb::internal {

// Returns nothing if the record does not exist, and DataLoss if it is damaged
// or does not match its key.
absl::StatusOr<std::optional<StepRecord::Evaluation>> LoadEvaluation(
    const Database& database, const StepRecord& step,
    absl::string_view evaluation, uint32_t rank);

// Lists the evaluations of a step, by name and rank.
absl::StatusOr<std::vector<std::pair<std::string, uint32_t>>> ListEvaluations(
    const Database& database, const StepRecord& step);

}  // namespace ckptdb::internal

#endif  // CKPTDB_DB_STORE_EVALUATION_RECORDS_H_
