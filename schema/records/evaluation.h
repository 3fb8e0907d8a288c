// SPDX-License-Identifier: Apache-2.0
// The record of an evaluation in progress: the results of one rank so far and
// its position in the input. It has the envelope and the checks of records.h.
#ifndef CKPTDB_SCHEMA_RECORDS_EVALUATION_H_
#define CKPTDB_SCHEMA_RECORDS_EVALUATION_H_

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "schema/types.h"

namespace ckptdb {

absl::StatusOr<std::string> EncodeEvaluationRecord(
    const StepRecord::Evaluation& record);
absl::StatusOr<StepRecord::Evaluation> DecodeEvaluationRecord(
    absl::string_view bytes);

}  // namespace ckptdb

#endif  // CKPTDB_SCHEMA_RECORDS_EVALUATION_H_
