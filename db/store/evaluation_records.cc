// SPDX-License-Identifier: Apache-2.0
#include "db/store/evaluation_records.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "schema/bytes/annotate.h"
#include "schema/bytes/keys.h"
#include "schema/records/evaluation.h"
#include "schema/status.h"

namespace ckptdb::internal {
namespace {

// Describes a record by its key, whose fields the record repeats.
std::string Place(const Version& version, absl::string_view evaluation,
                  uint32_t rank) {
  return absl::StrCat("evaluation \"", evaluation, "\" of ", ToString(version),
                      " rank ", rank);
}

}  // namespace

absl::StatusOr<std::optional<StepRecord::Evaluation>> LoadEvaluation(
    const Database& database, const StepRecord& step,
    absl::string_view evaluation, uint32_t rank) {
  // Evaluations are stored under the version that made the state. A fold
  // changes the version but not the state, and so keeps them.
  const Version& version = StateOf(step);
  const std::string place = Place(version, evaluation, rank);
  const absl::StatusOr<std::string> bytes =
      database.Get(Family::kMeta, EvaluationKey(version, evaluation, rank));
  if (absl::IsNotFound(bytes.status())) return std::nullopt;
  CKPTDB_RETURN_IF_ERROR(Annotate(bytes.status(), place));
  const absl::StatusOr<StepRecord::Evaluation> record =
      DecodeEvaluationRecord(*bytes);
  CKPTDB_RETURN_IF_ERROR(Annotate(record.status(), place));
  // A valid record under another record's key would resume an evaluation at the
  // wrong position.
  const std::string got =
      Place(record->version, record->evaluation, record->rank);
  if (got == place) return *record;
  return absl::DataLossError(
      absl::StrCat("evaluation record: expected ", place, ", got ", got));
}

absl::StatusOr<std::vector<std::pair<std::string, uint32_t>>> ListEvaluations(
    const Database& database, const StepRecord& step) {
  std::vector<std::pair<std::string, uint32_t>> stored;
  CKPTDB_RETURN_IF_ERROR(database.ForEach(
      Family::kMeta, EvaluationKeyPrefix(StateOf(step)),
      [&](absl::string_view key, absl::string_view) -> absl::Status {
        // The key holds the name and the rank, so the values, up to 8 MiB each,
        // are not decoded.
        CKPTDB_ASSIGN_OR_RETURN(const MetaKey parsed, ParseMetaKey(key));
        stored.emplace_back(parsed.name, parsed.rank);
        return absl::OkStatus();
      }));
  return stored;
}

}  // namespace ckptdb::internal
