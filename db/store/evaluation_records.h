// Evaluations of steps that are not over yet, as they are stored; internal to
// db/.
//
// They lie at the version that made the state of their step: a fold makes no
// other state, so that they stay; whatever else takes the version away takes
// them, too.
#ifndef CKPTDB_DB_STORE_EVALUATION_RECORDS_H_
#define CKPTDB_DB_STORE_EVALUATION_RECORDS_H_

#include <cstdint>
#include <optional>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "ckptdb/db/rocks/database.h"
#include "ckptdb/schema/evaluation.h"
#include "ckptdb/schema/records.h"

namespace ckptdb::internal {

// DataLoss for a record that is damaged, or of another place than it lies at.
absl::StatusOr<std::optional<EvaluationRecord>> LoadEvaluation(
    const Database& database, const StepRecord& step,
    absl::string_view evaluation, uint32_t rank);

// By name and rank.
absl::StatusOr<std::vector<StoredEvaluation>> ListEvaluations(
    const Database& database, const StepRecord& step);

}  // namespace ckptdb::internal

#endif  // CKPTDB_DB_STORE_EVALUATION_RECORDS_H_
