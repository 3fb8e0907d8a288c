#include "ckptdb/db/store/evaluations.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "ckptdb/db/disk/files.h"
#include "ckptdb/db/disk/rocks_status.h"
#include "ckptdb/db/store/store_impl.h"
#include "ckptdb/schema/limits.h"
#include "ckptdb/schema/names.h"
#include "ckptdb/schema/status.h"

namespace ckptdb {
namespace internal {
namespace {

std::string Place(const Version& version, absl::string_view evaluation,
                  uint32_t rank) {
  return absl::StrCat("evaluation \"", evaluation, "\" of ", ToString(version),
                      " rank ", rank);
}

}  // namespace

absl::StatusOr<std::optional<EvaluationRecord>> LoadEvaluation(
    const Database& database, const StepRecord& step,
    absl::string_view evaluation, uint32_t rank) {
  const Version& version = StateOf(step);
  const std::string place = Place(version, evaluation, rank);
  const absl::StatusOr<std::string> bytes =
      database.Get(Family::kMeta, EvaluationKey(version, evaluation, rank));
  if (absl::IsNotFound(bytes.status())) return std::nullopt;
  CKPTDB_RETURN_IF_ERROR(Annotate(bytes.status(), place));
  const absl::StatusOr<EvaluationRecord> record =
      DecodeEvaluationRecord(*bytes);
  CKPTDB_RETURN_IF_ERROR(Annotate(record.status(), place));
  const std::string got =
      Place(record->version, record->evaluation, record->rank);
  if (got == place) return *record;
  return absl::DataLossError(
      absl::StrCat("an evaluation record: expected ", place, ", got ", got));
}

absl::StatusOr<std::vector<StoredEvaluation>> ListEvaluations(
    const Database& database, const StepRecord& step) {
  std::vector<StoredEvaluation> stored;
  CKPTDB_RETURN_IF_ERROR(database.ForEach(
      Family::kMeta, EvaluationKeyPrefix(StateOf(step)),
      [&](absl::string_view key, absl::string_view) -> absl::Status {
        CKPTDB_ASSIGN_OR_RETURN(const MetaKey parsed, ParseMetaKey(key));
        stored.push_back({std::string(parsed.name), parsed.rank});
        return absl::OkStatus();
      }));
  return stored;
}

}  // namespace internal

namespace {

absl::Status CheckParts(absl::Span<const EvaluationPart> ranks) {
  if (ranks.empty() || ranks.size() > kMaxWorldSize) {
    return absl::InvalidArgumentError(
        absl::StrCat("an evaluation of ", ranks.size(),
                     " ranks; the world size is 1 to ", kMaxWorldSize));
  }
  for (size_t rank = 0; rank < ranks.size(); ++rank) {
    const uint64_t bytes =
        uint64_t{ranks[rank].meters.size()} + ranks[rank].loader.size();
    if (bytes <= kMaxEvaluationBytes) continue;
    return absl::InvalidArgumentError(absl::StrCat(
        "rank ", rank, ": meters and loader have ", bytes,
        " bytes; the limit of an evaluation is ", kMaxEvaluationBytes));
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status Store::Impl::SaveEvaluation(
    int64_t step, absl::string_view evaluation, absl::string_view group,
    absl::Span<const EvaluationPart> ranks) {
  CKPTDB_RETURN_IF_ERROR(CheckName("evaluation", evaluation));
  CKPTDB_RETURN_IF_ERROR(CheckName("metrics group", group));
  CKPTDB_RETURN_IF_ERROR(CheckParts(ranks));
  const std::lock_guard<std::mutex> change(change_mutex_);
  CKPTDB_ASSIGN_OR_RETURN(const StepRecord found, FindStep(step));
  EvaluationRecord record;
  record.version = StateOf(found);
  record.evaluation = std::string(evaluation);
  record.group = std::string(group);
  record.world_size = static_cast<uint32_t>(ranks.size());

  rocksdb::ColumnFamilyHandle* const meta =
      database_->family(internal::Family::kMeta);
  rocksdb::WriteBatch batch;
  // One of more ranks may have been there.
  const std::string all = EvaluationKeyPrefix(record.version, evaluation);
  rocksdb::Status status = batch.DeleteRange(meta, all, PrefixEnd(all));
  for (uint32_t rank = 0; rank < record.world_size; ++rank) {
    record.rank = rank;
    record.part = ranks[rank];
    if (!status.ok()) break;
    CKPTDB_ASSIGN_OR_RETURN(const std::string bytes,
                            EncodeEvaluationRecord(record));
    status =
        batch.Put(meta, EvaluationKey(record.version, evaluation, rank), bytes);
  }
  CKPTDB_RETURN_IF_ERROR(internal::FromRocks(status, "evaluation batch"));
  // In the log, and in a file.
  CKPTDB_RETURN_IF_ERROR(internal::CheckFreeBytes(
      database_->files().get(), path_,
      2 * batch.GetDataSize() + internal::kBatchOverhead,
      options_.reserve_bytes));
  return WriteDurably(&batch);
}

absl::StatusOr<std::optional<EvaluationRecord>> Store::Impl::FindEvaluation(
    int64_t step, absl::string_view evaluation, uint32_t rank) {
  CKPTDB_ASSIGN_OR_RETURN(const HeldStep held, HoldStep(step));
  return internal::LoadEvaluation(*database_, held.record, evaluation, rank);
}

absl::StatusOr<std::vector<StoredEvaluation>> Store::Impl::ListEvaluations(
    int64_t step) {
  CKPTDB_ASSIGN_OR_RETURN(const HeldStep held, HoldStep(step));
  return internal::ListEvaluations(*database_, held.record);
}

absl::Status Store::Impl::DeleteEvaluations(absl::Span<const int64_t> steps) {
  const std::lock_guard<std::mutex> change(change_mutex_);
  rocksdb::WriteBatch batch;
  for (const int64_t step : steps) {
    const absl::StatusOr<StepRecord> record = FindStep(step);
    if (!record.ok()) continue;  // they went with it
    CKPTDB_ASSIGN_OR_RETURN(const auto stored,
                            internal::ListEvaluations(*database_, *record));
    if (stored.empty()) continue;
    const std::string all = EvaluationKeyPrefix(StateOf(*record));
    CKPTDB_RETURN_IF_ERROR(internal::FromRocks(
        batch.DeleteRange(database_->family(internal::Family::kMeta), all,
                          PrefixEnd(all)),
        "evaluation batch"));
  }
  if (batch.Count() == 0) return absl::OkStatus();
  CKPTDB_RETURN_IF_ERROR(CheckRoomFor(batch, Spare::kUse));
  return WriteDurably(&batch);
}

}  // namespace ckptdb
