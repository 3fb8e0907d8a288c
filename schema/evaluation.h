// The record of an evaluation of a step in progress: what each rank has
// measured so far, and its position in the input. It has the envelope of
// records.h and is checked in the same way.
#ifndef CKPTDB_SCHEMA_EVALUATION_H_
#define CKPTDB_SCHEMA_EVALUATION_H_

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "ckptdb/schema/keys.h"

namespace ckptdb {

// The part of one rank. Meters and loader are opaque, and together have at most
// kMaxEvaluationBytes.
struct EvaluationPart {
  uint64_t processed = 0;  // batches, or whatever the trainer counts
  std::string meters;
  std::string loader;

  bool operator==(const EvaluationPart&) const = default;
};

struct EvaluationRecord {
  Version version;         // the version that made the state: see StateOf
  std::string evaluation;  // name of the evaluation
  std::string group;       // name of the group of metrics
  uint32_t rank = 0;
  uint32_t world_size = 1;
  EvaluationPart part;

  bool operator==(const EvaluationRecord&) const = default;
};

// Names a stored part, without its bytes.
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
