// SPDX-License-Identifier: Apache-2.0
#include "schema/records/evaluation.h"

#include "absl/strings/str_cat.h"
#include "schema/records/checks.h"
#include "schema/records/flat.h"
#include "schema/records/record_checks.h"
#include "schema/status.h"
#include "schema/types.h"

namespace ckptdb {
namespace {

using flatbuffers::FlatBufferBuilder;
using internal::AddBytes;
using internal::AddString;
using internal::BytesOf;
using internal::Opened;
using internal::RecordKind;
using internal::Seal;
using internal::SizeOf;
using internal::ToStd;

constexpr RecordKind kEvaluationKind = RecordKind::kEvaluation;

absl::Status CheckSize(uint64_t bytes) {
  if (bytes <= kMaxEvaluationBytes) return absl::OkStatus();
  return internal::BadField(
      kEvaluationKind, "meters and loader",
      absl::StrCat("have ", bytes, " bytes; the limit is ",
                   kMaxEvaluationBytes));
}

}  // namespace

absl::Status internal::Check(const StepRecord::Evaluation& record) {
  CKPTDB_RETURN_IF_ERROR(
      CheckSize(uint64_t{record.meters.size()} + record.loader.size()));
  CKPTDB_RETURN_IF_ERROR(
      internal::CheckVersion(kEvaluationKind, "version", record.version));
  CKPTDB_RETURN_IF_ERROR(internal::CheckNameField(kEvaluationKind, "evaluation",
                                                  record.evaluation));
  CKPTDB_RETURN_IF_ERROR(
      internal::CheckNameField(kEvaluationKind, "group", record.group));
  CKPTDB_RETURN_IF_ERROR(
      internal::CheckWorldSize(kEvaluationKind, record.world_size));
  return internal::CheckRank(kEvaluationKind, record.rank, record.world_size);
}

uint64_t internal::LeastBytes(const StepRecord::Evaluation& record) {
  return record.meters.size() + record.loader.size();
}

std::string internal::EncodeUnchecked(const StepRecord::Evaluation& record) {
  FlatBufferBuilder builder;
  const auto evaluation = AddString(record.evaluation, &builder);
  const auto group = AddString(record.group, &builder);
  const auto meters = AddBytes(record.meters, &builder);
  const auto loader = AddBytes(record.loader, &builder);
  builder.Finish(fbs::CreateEvaluationRecord(
      builder, record.version.step, record.version.attempt, evaluation, group,
      record.rank, record.world_size, record.processed, meters, loader));
  return Seal(kEvaluationKind, builder);
}

absl::StatusOr<std::string> EncodeEvaluationRecord(
    const StepRecord::Evaluation& record) {
  return internal::EncodeChecked(kEvaluationKind, record);
}

absl::StatusOr<StepRecord::Evaluation> DecodeEvaluationRecord(
    absl::string_view bytes) {
  CKPTDB_ASSIGN_OR_RETURN(const auto from, Opened<fbs::EvaluationRecord>::Open(
                                               kEvaluationKind, bytes));
  // The size is checked before anything is copied.
  CKPTDB_RETURN_IF_ERROR(
      CheckSize(uint64_t{SizeOf(from->meters())} + SizeOf(from->loader())));
  StepRecord::Evaluation record;
  record.version = {from->step(), from->attempt()};
  record.evaluation = ToStd(from->evaluation());
  record.group = ToStd(from->group());
  record.rank = from->rank();
  record.world_size = from->world_size();
  record.processed = from->processed();
  record.meters = BytesOf(from->meters());
  record.loader = BytesOf(from->loader());
  CKPTDB_RETURN_IF_ERROR(internal::Check(record));
  return record;
}

}  // namespace ckptdb
