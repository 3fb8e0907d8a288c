// The record of an evaluation of a step in progress: what each rank has
// measured so far, and its position in the input. It has the envelope of
// records.h and is checked in the same way.
#ifndef CKPTDB_SCHEMA_RECORDS_EVALUATION_H_
#define CKPTDB_SCHEMA_RECORDS_EVALUATION_H_

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "ckptdb/schema/types.h"

namespace ckptdb {

absl::StatusOr<std::string> EncodeEvaluationRecord(
    const StepRecord::Evaluation& record);
absl::StatusOr<StepRecord::Evaluation> DecodeEvaluationRecord(
    absl::string_view bytes);

}  // namespace ckptdb

#endif  // CKPTDB_SCHEMA_RECORDS_EVALUATION_H_
