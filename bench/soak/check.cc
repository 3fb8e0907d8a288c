// SPDX-License-Identifier: Apache-2.0
#include "bench/soak/check.h"

#include <optional>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "bench/soak/held_rows.h"
#include "manager/model_state.h"
#include "schema/status.h"

namespace ckptdb::soak {
namespace {

std::string NameOf(const StepReader& step) {
  return ToString(step.record().version);
}

template <typename T>
absl::Status CompareTensor(const StepReader& step, absl::string_view name,
                           const std::vector<T>& expected) {
  std::vector<T> found(expected.size());
  CKPTDB_RETURN_IF_ERROR(
      step.ReadTensor(name, found.data(), found.size() * sizeof(T)));
  if (found == expected) return absl::OkStatus();
  size_t at = 0;
  while (found[at] == expected[at]) ++at;
  return absl::DataLossError(absl::StrCat(NameOf(step), ": tensor \"", name,
                                          "\", element ", at, ": ", found[at],
                                          " instead of ", expected[at]));
}

absl::Status CheckRows(const StepReader& step, const Content& content) {
  HeldRows held;
  CKPTDB_RETURN_IF_ERROR(step.ScanTable(kTable, {}, &held));
  const Rows expected = content.RowsAt(step.record().version.step);
  return CompareRows(held.rows(), expected, NameOf(step));
}

absl::Status CheckPositions(const StepReader& step, const Content& content) {
  const StepRecord& record = step.record();
  for (uint32_t rank = 0; rank < record.world_size; ++rank) {
    CKPTDB_ASSIGN_OR_RETURN(const std::string found,
                            step.ReadBlob(rank, IoStateBlob(kReader)));
    const std::string expected = content.Position(record.version.step, rank);
    if (found != expected) {
      return absl::DataLossError(absl::StrCat(NameOf(step), ": io state \"",
                                              found, "\" instead of \"",
                                              expected, "\""));
    }
  }
  return absl::OkStatus();
}

absl::Status CheckPart(const StepRecord::Evaluation& found, int64_t step,
                       const Content& content) {
  const StepRecord::Evaluation::Part& part = found.part;
  const std::string expected = content.Meters(step, part.processed, found.rank);
  if (part.meters == expected && part.loader == expected) {
    return absl::OkStatus();
  }
  return absl::DataLossError(absl::StrCat(
      "evaluation of step ", step, ": meters \"", part.meters,
      "\" and loader \"", part.loader, "\" instead of \"", expected, "\""));
}

}  // namespace

absl::Status CheckTensor(const StepReader& step, const Content& content,
                         absl::string_view name) {
  const int64_t number = step.record().version.step;
  if (name == kFrozenTensor) {
    return CompareTensor(step, name, content.Frozen(number));
  }
  return CompareTensor(step, name, content.Dense(number));
}

absl::Status CheckStep(const StepReader& step, const Content& content) {
  CKPTDB_RETURN_IF_ERROR(CheckRows(step, content));
  CKPTDB_RETURN_IF_ERROR(CheckTensor(step, content, kDenseTensor));
  CKPTDB_RETURN_IF_ERROR(CheckTensor(step, content, kFrozenTensor));
  return CheckPositions(step, content);
}

absl::StatusOr<uint64_t> CheckEvaluation(const Reader& reader, int64_t step,
                                         const Content& content) {
  CKPTDB_ASSIGN_OR_RETURN(const auto stored, reader.ListEvaluations(step));
  std::optional<uint64_t> processed;
  for (const StepRecord::Evaluation::Key& one : stored) {
    CKPTDB_ASSIGN_OR_RETURN(
        const auto found,
        reader.FindEvaluation(step, one.evaluation, one.rank));
    if (!found) {
      return absl::DataLossError(absl::StrCat(
          "evaluation of step ", step, ": rank ", one.rank, " is missing"));
    }
    CKPTDB_RETURN_IF_ERROR(CheckPart(*found, step, content));
    if (processed.value_or(found->part.processed) != found->part.processed) {
      return absl::DataLossError(
          absl::StrCat("evaluation of step ", step, ": ranks have done ",
                       *processed, " and ", found->part.processed, " batches"));
    }
    processed = found->part.processed;
  }
  return processed.value_or(0);
}

absl::StatusOr<std::map<int64_t, uint64_t>> CheckAllSteps(
    Reader* reader, const Content& content) {
  std::map<int64_t, uint64_t> evaluated;
  for (const StepRecord& record : reader->Steps()) {
    const int64_t number = record.version.step;
    CKPTDB_ASSIGN_OR_RETURN(const auto step, reader->OpenStep(number));
    CKPTDB_RETURN_IF_ERROR(CheckStep(*step, content));
    CKPTDB_ASSIGN_OR_RETURN(evaluated[number],
                            CheckEvaluation(*reader, number, content));
  }
  return evaluated;
}

}  // namespace ckptdb::soak
