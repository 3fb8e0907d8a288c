// The record of an evaluation of a step that is not over yet: what each rank
// has measured so far, and where it is in its input.
//
// In the envelope of records.h, and checked in the same way.
#ifndef CKPTDB_SCHEMA_EVALUATION_H_
#define CKPTDB_SCHEMA_EVALUATION_H_

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "ckptdb/schema/keys.h"

namespace ckptdb {

// What one rank has of it. Meters and loader are opaque, and together at most
// kMaxEvaluationBytes.
struct EvaluationPart {
  uint64_t processed = 0;  // batches, or whatever the trainer counts
  std::string meters;
  std::string loader;

  bool operator==(const EvaluationPart&) const = default;
};

struct EvaluationRecord {
  Version version;         // that made the state of the step: see StateOf
  std::string evaluation;  // its name
  std::string group;       // of metrics
  uint32_t rank = 0;
  uint32_t world_size = 1;
  EvaluationPart part;

  bool operator==(const EvaluationRecord&) const = default;
};

// A part that is stored, without its bytes.
struct StoredEvaluation {
  std::string evaluation;
  uint32_t rank = 0;

  bool operator==(const StoredEvaluation&) const = default;
};

absl::StatusOr<std::string> EncodeEvaluationRecord(
    const EvaluationRecord& record);
absl::StatusOr<EvaluationRecord> DecodeEvaluationRecord(
    absl::string_view bytes);

}  // namespace ckptdb

#endif  // CKPTDB_SCHEMA_EVALUATION_H_
