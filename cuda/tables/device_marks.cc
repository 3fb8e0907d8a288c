// SPDX-License-Identifier: Apache-2.0
#include "cuda/tables/device_marks.h"

#include <algorithm>
#include <utility>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "cuda/kernels/row_kernels.h"
#include "cuda/runtime/status.h"
#include "schema/status.h"

namespace ckptdb::internal {
namespace {

absl::Status Zero(const DeviceBuffer& buffer, uint64_t bytes,
                  cudaStream_t stream) {
  return CudaStatus(cudaMemsetAsync(buffer.get(), 0, bytes, stream),
                    "cudaMemsetAsync of the marks of a table");
}

// An id that was erased and then inserted again is reported only as upserted.
void DropUpserted(ChangeTracker::Changes* changes) {
  if (changes->erased.empty()) return;
  const absl::flat_hash_set<int64_t> erased(changes->erased.begin(),
                                            changes->erased.end());
  absl::flat_hash_set<int64_t> again;
  for (const int64_t id : changes->upserted) {
    if (erased.contains(id)) again.insert(id);
  }
  if (again.empty()) return;
  std::erase_if(changes->erased,
                [&](int64_t id) { return again.contains(id); });
}

}  // namespace

absl::StatusOr<std::unique_ptr<DeviceMarks>> DeviceMarks::Make(
    DeviceContext* context, const TableRows* table, uint64_t erased_bytes) {
  CKPTDB_ASSIGN_OR_RETURN(const DeviceScope scope, context->Enter());
  const uint64_t bytes = MarkWords(table->rows) * sizeof(uint32_t);
  CKPTDB_ASSIGN_OR_RETURN(DeviceBuffer marked,
                          DeviceBuffer::Allocate(std::max<uint64_t>(bytes, 1),
                                                 "the marks of a table"));
  CKPTDB_ASSIGN_OR_RETURN(std::unique_ptr<RowLister> lister,
                          RowLister::Make(context, table));
  CKPTDB_ASSIGN_OR_RETURN(CudaEvent ready, CudaEvent::Create());
  CKPTDB_RETURN_IF_ERROR(Zero(marked, bytes, context->side()));
  // The first mark runs on the trainer's stream, which does not wait for the
  // side stream.
  CKPTDB_RETURN_IF_ERROR(context->Synchronize());
  return std::unique_ptr<DeviceMarks>(
      new DeviceMarks(context, table, erased_bytes, std::move(marked),
                      std::move(lister), std::move(ready)));
}

DeviceMarks::DeviceMarks(DeviceContext* context, const TableRows* table,
                         uint64_t erased_bytes, DeviceBuffer marked,
                         std::unique_ptr<RowLister> lister, CudaEvent ready)
    : context_(context),
      table_(*table),
      erased_(erased_bytes),
      marked_(std::move(marked)),
      report_(lister->report()),
      lister_(std::move(lister)),
      ready_(std::move(ready)) {}

DeviceMarks::~DeviceMarks() {
  // Marks may still be queued on the trainer's stream, and work after them on
  // the context's streams.
  const absl::StatusOr<DeviceScope> scope = context_->Enter();
  const WaitForStream wait(table_.stream);
  context_->Synchronize().IgnoreError();
}

uint64_t DeviceMarks::set_bytes() const {
  return MarkWords(table_.rows) * sizeof(uint32_t);
}

MarkWordsView DeviceMarks::view() const {
  return {reinterpret_cast<uint32_t*>(marked_.get()), table_.rows};
}

// Takes no lock, so it does not wait for a save that is taking the marks.
template <typename Row>
absl::Status DeviceMarks::Mark(const Row* rows, uint64_t count) {
  const auto launch = [&]() -> absl::Status {
    CKPTDB_ASSIGN_OR_RETURN(const DeviceScope scope, context_->Enter());
    const MarkRows<Row> marks = {view(), rows, count, report_};
    return CudaStatus(LaunchMarkRows(marks, table_.stream),
                      absl::StrCat("the kernel that marks ", count, " rows"));
  };
  absl::Status launched = launch();
  if (launched.ok()) return launched;
  const MutexLock lock(&mutex_);
  MarkAllIncomplete("marking rows failed");
  return launched;
}

absl::Status DeviceMarks::MarkUpserted(const int32_t* rows, uint64_t count) {
  return Mark(rows, count);
}

absl::Status DeviceMarks::MarkUpserted(const int64_t* rows, uint64_t count) {
  return Mark(rows, count);
}

absl::StatusOr<ChangeTracker::Consumer> DeviceMarks::AddConsumer(
    absl::string_view name) {
  const MutexLock lock(&mutex_);
  if (waiting_.size() == kMaxConsumers) {
    return absl::ResourceExhaustedError(
        absl::StrCat("a table in device memory has ", kMaxConsumers,
                     " consumers of its changes, and \"", name,
                     "\" cannot be added; remove one first"));
  }
  CKPTDB_ASSIGN_OR_RETURN(const DeviceScope scope, context_->Enter());
  Waiting waiting;
  CKPTDB_ASSIGN_OR_RETURN(
      waiting.rows,
      DeviceBuffer::Allocate(std::max<uint64_t>(set_bytes(), 1),
                             "the changes for a consumer of a table"));
  CKPTDB_RETURN_IF_ERROR(Zero(waiting.rows, set_bytes(), context_->side()));
  CKPTDB_RETURN_IF_ERROR(context_->Synchronize());
  CKPTDB_ASSIGN_OR_RETURN(const Consumer consumer, erased_.AddConsumer(name));
  waiting_.emplace(consumer.value, std::move(waiting));
  return consumer;
}

absl::Status DeviceMarks::RemoveConsumer(Consumer consumer) {
  const MutexLock lock(&mutex_);
  CKPTDB_RETURN_IF_ERROR(erased_.RemoveConsumer(consumer));
  // Another consumer's queued work may still use its memory.
  context_->Synchronize().IgnoreError();
  waiting_.erase(consumer.value);
  return absl::OkStatus();
}

absl::StatusOr<ChangeTracker::Changes> DeviceMarks::Take(Consumer consumer) {
  const MutexLock lock(&mutex_);
  CKPTDB_ASSIGN_OR_RETURN(Changes changes, erased_.Take(consumer));
  absl::Status taken = TakeRows(consumer, &changes);
  if (taken.ok()) return changes;
  changes.upserted.clear();
  taken.Update(erased_.Return(consumer, std::move(changes)));
  return taken;
}

// Makes work queued on the side stream from now on wait for the work queued on
// the trainer's stream so far.
absl::Status DeviceMarks::AwaitTrainerLocked() {
  return AwaitStream(context_->side(), table_.stream, ready_);
}

absl::Status DeviceMarks::AwaitTrainer() {
  const MutexLock lock(&mutex_);
  return AwaitTrainerLocked();
}

absl::Status DeviceMarks::TakeRows(Consumer consumer, Changes* changes) {
  DropSavedSets();
  Waiting& waiting = waiting_.at(consumer.value);
  CKPTDB_ASSIGN_OR_RETURN(const DeviceScope scope, context_->Enter());
  Taken taken;
  CKPTDB_ASSIGN_OR_RETURN(taken.set, lister_->NewSet());
  CKPTDB_RETURN_IF_ERROR(AwaitTrainerLocked());
  TakeMarks marks;
  marks.marks = view();
  marks.ids = table_.ids_view();
  marks.pending = reinterpret_cast<uint32_t*>(waiting.rows.get());
  for (auto& [id, other] : waiting_) {
    if (id == consumer.value) continue;
    marks.others[marks.other_count++] =
        reinterpret_cast<uint32_t*>(other.rows.get());
  }
  absl::Status listed = lister_->Take(marks, &taken.set);
  if (listed.ok()) listed = CheckReport();
  if (listed.ok()) listed = ListTaken(&waiting, &taken, changes);
  if (!listed.ok()) {
    ReturnMarksOf(taken.set, &waiting);
    return listed;
  }
  taken.key = changes->taken();
  taken_.push_back(std::move(taken));
  return absl::OkStatus();
}

absl::Status DeviceMarks::ListTaken(Waiting* waiting, Taken* taken,
                                    Changes* changes) {
  if (changes->complete && !waiting->lost.empty()) {
    changes->complete = false;
    changes->reason = waiting->lost;
    changes->erased.clear();
  }
  taken->lost = std::exchange(waiting->lost, {});
  if (!changes->complete) return absl::OkStatus();
  absl::StatusOr<RowList> list = lister_->List(taken->set, &changes->upserted);
  CKPTDB_RETURN_IF_ERROR(list.status());
  taken->list = *std::move(list);
  taken->ids = changes->upserted.data();
  taken->ids_digest = DigestOfIds(changes->upserted);
  DropUpserted(changes);
  return absl::OkStatus();
}

absl::Status DeviceMarks::CheckReport() {
  const MarkReport report = lister_->reported();
  if (report.out_of_range == 0) return absl::OkStatus();
  MarkAllIncomplete("row numbers out of range were marked");
  CKPTDB_RETURN_IF_ERROR(lister_->ClearReport());
  return absl::OutOfRangeError(absl::StrCat(
      report.out_of_range, " marked row numbers are out of range, such as ",
      static_cast<int64_t>(report.example), "; the table has ", table_.rows,
      " rows. The intended rows may be unmarked, so the table's next save is "
      "full"));
}

void DeviceMarks::ReturnMarksOf(const RowLister::Set& set, Waiting* waiting) {
  const ReturnMarks marks = {reinterpret_cast<uint32_t*>(waiting->rows.get()),
                             reinterpret_cast<const uint32_t*>(set.words.get()),
                             MarkWords(table_.rows)};
  const absl::Status given =
      CudaStatus(LaunchReturnMarks(marks, context_->side()),
                 "the kernel that returns marks");
  if (given.ok()) return;
  waiting->lost = absl::StrCat("returning marks failed: ", given.ToString());
}

void DeviceMarks::MarkAllIncomplete(absl::string_view reason) {
  for (auto& [id, waiting] : waiting_) waiting.lost = std::string(reason);
}

// A set whose key has expired was saved.
void DeviceMarks::DropSavedSets() {
  std::erase_if(taken_, [](const Taken& each) { return each.key.expired(); });
}

absl::Status DeviceMarks::Return(Consumer consumer, Changes&& changes) {
  const MutexLock lock(&mutex_);
  const std::shared_ptr<const TakenSet> key = changes.taken();
  std::vector<int64_t> upserted = std::move(changes.upserted);
  changes.upserted.clear();
  absl::Status returned = erased_.Return(consumer, std::move(changes));
  if (!returned.ok()) {
    // A rejected set stays with the caller.
    changes.upserted = std::move(upserted);  // NOLINT(bugprone-use-after-move)
    return returned;
  }
  const auto taken =
      std::find_if(taken_.begin(), taken_.end(),
                   [&](const Taken& each) { return each.key.lock() == key; });
  if (taken == taken_.end()) return absl::OkStatus();
  Waiting& waiting = waiting_.at(consumer.value);
  const absl::StatusOr<DeviceScope> scope = context_->Enter();
  if (scope.ok()) {
    ReturnMarksOf(taken->set, &waiting);
  } else {
    waiting.lost = "returning marks failed";
  }
  if (!taken->lost.empty()) waiting.lost = taken->lost;
  taken_.erase(taken);
  return absl::OkStatus();
}

std::optional<RowList> DeviceMarks::FindTaken(absl::Span<const int64_t> ids) {
  const MutexLock lock(&mutex_);
  for (const Taken& each : taken_) {
    if (each.key.expired() || each.ids != ids.data() ||
        each.list.count != ids.size() || each.list.rows == nullptr) {
      continue;
    }
    if (DigestOfIds(ids) == each.ids_digest) return each.list;
  }
  return std::nullopt;
}

absl::StatusOr<RowList> DeviceMarks::ListAll(std::vector<int64_t>* ids) {
  const MutexLock lock(&mutex_);
  return lister_->ListAll(ids);
}

absl::StatusOr<RowList> DeviceMarks::Upload(absl::Span<const uint32_t> rows) {
  const MutexLock lock(&mutex_);
  return lister_->Upload(rows);
}

absl::Status DeviceMarks::ReadIds(std::vector<int64_t>* ids) {
  const MutexLock lock(&mutex_);
  return lister_->ReadIds(ids);
}

}  // namespace ckptdb::internal
