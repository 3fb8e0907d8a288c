// SPDX-License-Identifier: Apache-2.0
#include "db/store/evaluations.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "db/disk/rocks_status.h"
#include "db/store/committer.h"
#include "db/store/evaluation_records.h"
#include "db/store/step_catalog.h"
#include "db/store/store_folder.h"
#include "schema/bytes/keys.h"
#include "schema/bytes/names.h"
#include "schema/records/evaluation.h"
#include "schema/status.h"
#include "schema/types.h"

namespace ckptdb::internal {
namespace {

// Checks the number of ranks and the sizes of their parts before taking
// Committer::changes().
absl::Status CheckParts(absl::Span<const StepRecord::Evaluation> ranks) {
  if (ranks.empty() || ranks.size() > kMaxWorldSize) {
    return absl::InvalidArgumentError(
        absl::StrCat("evaluation has ", ranks.size(),
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

// Adds the records of all ranks to the batch. They replace the existing ones,
// which may be for more ranks.
absl::Status PutRecords(rocksdb::ColumnFamilyHandle* meta,
                        StepRecord::Evaluation record,
                        absl::Span<const StepRecord::Evaluation> ranks,
                        ChangeBatch* batch) {
  const std::string all =
      EvaluationKeyPrefix(record.version, record.evaluation);
  // Later entries of a batch win, so the records that follow survive this
  // removal.
  rocksdb::Status status = batch->DeleteRange(meta, all, PrefixEnd(all));
  for (uint32_t rank = 0; rank < record.world_size; ++rank) {
    record.rank = rank;
    record.processed = ranks[rank].processed;
    record.meters = ranks[rank].meters;
    record.loader = ranks[rank].loader;
    if (!status.ok()) break;
    CKPTDB_ASSIGN_OR_RETURN(const std::string bytes,
                            EncodeEvaluationRecord(record));
    status = batch->Put(
        meta, EvaluationKey(record.version, record.evaluation, rank), bytes);
  }
  return FromRocks(status, "evaluation batch");
}

}  // namespace

absl::Status SaveEvaluation(const StoreComponents& store, int64_t step,
                            absl::string_view evaluation,
                            absl::string_view group,
                            absl::Span<const StepRecord::Evaluation> ranks) {
  CKPTDB_RETURN_IF_ERROR(CheckName("evaluation", evaluation));
  CKPTDB_RETURN_IF_ERROR(CheckName("metrics group", group));
  CKPTDB_RETURN_IF_ERROR(CheckParts(ranks));
  // Holding changes() keeps the step from being overwritten between the lookup
  // and the write, which would attach the records to a version that is not a
  // step.
  const MutexLock turn(store.committer->changes());
  CKPTDB_ASSIGN_OR_RETURN(const StepRecord found,
                          store.catalog->FindStep(step));
  StepRecord::Evaluation record;
  record.version = StateOf(found);
  record.evaluation = std::string(evaluation);
  record.group = std::string(group);
  record.world_size = static_cast<uint32_t>(ranks.size());
  ChangeBatch batch;
  CKPTDB_RETURN_IF_ERROR(
      PutRecords(store.folder->database().family(Family::kMeta),
                 std::move(record), ranks, &batch));
  // Each byte is written twice: to the write-ahead log and to an SST file.
  CKPTDB_RETURN_IF_ERROR(
      store.folder->CheckSaveSpace(2 * batch.bytes() + kBatchOverhead));
  // All ranks are in one batch, flushed before it is acknowledged: an
  // evaluation resumes at the same position on all ranks, and a damaged log
  // does not lose it.
  return store.folder->WriteDurably(&batch);
}

absl::StatusOr<std::optional<StepRecord::Evaluation>> FindEvaluation(
    const StoreComponents& store, int64_t step, absl::string_view evaluation,
    uint32_t rank) {
  // The record is read without a lock; the hold keeps a sweep from removing it.
  CKPTDB_ASSIGN_OR_RETURN(const HeldStep held, store.catalog->HoldStep(step));
  return LoadEvaluation(store.folder->database(), held.record, evaluation,
                        rank);
}

absl::StatusOr<std::vector<std::pair<std::string, uint32_t>>> ListEvaluations(
    const StoreComponents& store, int64_t step) {
  CKPTDB_ASSIGN_OR_RETURN(const HeldStep held, store.catalog->HoldStep(step));
  return ListEvaluations(store.folder->database(), held.record);
}

absl::Status DeleteEvaluations(const StoreComponents& store,
                               absl::Span<const int64_t> steps) {
  const MutexLock turn(store.committer->changes());
  Database& database = store.folder->database();
  ChangeBatch batch;
  for (const int64_t step : steps) {
    const absl::StatusOr<StepRecord> record = store.catalog->FindStep(step);
    if (!record.ok()) continue;  // deleted with the step
    CKPTDB_ASSIGN_OR_RETURN(const auto stored,
                            ListEvaluations(database, *record));
    if (stored.empty()) continue;
    const std::string all = EvaluationKeyPrefix(StateOf(*record));
    CKPTDB_RETURN_IF_ERROR(FromRocks(
        batch.DeleteRange(database.family(Family::kMeta), all, PrefixEnd(all)),
        "evaluation batch"));
  }
  if (batch.count() == 0) return absl::OkStatus();
  CKPTDB_RETURN_IF_ERROR(store.folder->CheckDiskSpaceFor(batch, Spare::kUse));
  return store.folder->WriteDurably(&batch);
}

}  // namespace ckptdb::internal
