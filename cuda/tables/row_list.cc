// SPDX-License-Identifier: Apache-2.0
#include "cuda/tables/row_list.h"

#include <xxhash.h>

#include <algorithm>
#include <cstring>
#include <limits>
#include <utility>

#include "cuda/kernels/row_kernels.h"
#include "cuda/runtime/status.h"
#include "schema/status.h"

namespace ckptdb::internal {
namespace {

// The size of one copy of ids or rows to or from the host.
constexpr uint64_t kCopyBytes = uint64_t{8} << 20;
// Lists are not limited: the list of a table with 2^32 rows has 16 GiB.
constexpr uint64_t kMaxListBytes = std::numeric_limits<int64_t>::max();

}  // namespace

uint64_t DigestOfIds(absl::Span<const int64_t> ids) {
  return XXH3_64bits(ids.data(), ids.size() * sizeof(int64_t));
}

absl::StatusOr<std::unique_ptr<RowLister>> RowLister::Make(
    DeviceContext* context, const TableRows* table) {
  CKPTDB_ASSIGN_OR_RETURN(
      DeviceBuffer device_control,
      DeviceBuffer::Allocate(sizeof(Control), "the counts of a table"));
  CKPTDB_ASSIGN_OR_RETURN(
      PinnedBuffer control,
      PinnedBuffer::Allocate(sizeof(Control), "the counts of a table"));
  CKPTDB_ASSIGN_OR_RETURN(
      DeviceBuffer tiles,
      DeviceBuffer::Allocate(
          std::max<uint64_t>(MarkTiles(table->rows), 1) * sizeof(uint32_t),
          "the tiles of a table"));
  std::unique_ptr<RowLister> lister(
      new RowLister(context, table, std::move(device_control),
                    std::move(control), std::move(tiles)));
  CKPTDB_RETURN_IF_ERROR(lister->ClearReport());
  return lister;
}

RowLister::RowLister(DeviceContext* context, const TableRows* table,
                     DeviceBuffer device_control, PinnedBuffer control,
                     DeviceBuffer tiles)
    : context_(context),
      table_(*table),
      device_control_(std::move(device_control)),
      control_(std::move(control)),
      tiles_(std::move(tiles)),
      lists_("the rows of a save", kMaxListBytes) {}

RowLister::~RowLister() { context_->Synchronize().IgnoreError(); }

MarkReport* RowLister::report() const { return &device_control()->report; }

const MarkReport& RowLister::reported() const {
  return reinterpret_cast<const Control*>(control_.get())->report;
}

absl::Status RowLister::ClearReport() {
  return CudaStatus(
      cudaMemsetAsync(report(), 0, sizeof(MarkReport), context_->side()),
      "cudaMemsetAsync of the report of marks");
}

absl::StatusOr<RowLister::Set> RowLister::NewSet() {
  const uint64_t bytes = MarkWords(table_.rows) * sizeof(uint32_t);
  Set set;
  CKPTDB_ASSIGN_OR_RETURN(set.words, lists_.Take(std::max<uint64_t>(bytes, 1)));
  CKPTDB_RETURN_IF_ERROR(
      CudaStatus(cudaMemsetAsync(set.words.get(), 0, bytes, context_->side()),
                 "cudaMemsetAsync of a set of rows"));
  return set;
}

absl::Status RowLister::AwaitSide() const {
  return CudaStatus(cudaStreamSynchronize(context_->side()),
                    "cudaStreamSynchronize for rows of a table");
}

absl::Status RowLister::ReadCount(Set* set) {
  CKPTDB_RETURN_IF_ERROR(CopyToHost(control_.get(), device_control_.get(),
                                    sizeof(Control), context_->side()));
  CKPTDB_RETURN_IF_ERROR(AwaitSide());
  set->count = reinterpret_cast<const Control*>(control_.get())->count;
  return absl::OkStatus();
}

absl::Status RowLister::Take(TakeMarks marks, Set* set) {
  marks.taken = reinterpret_cast<uint32_t*>(set->words.get());
  CKPTDB_RETURN_IF_ERROR(
      CudaStatus(LaunchTakeMarks(marks, tiles(), &device_control()->count,
                                 context_->side()),
                 "the kernel that takes marks"));
  return ReadCount(set);
}

absl::StatusOr<RowList> RowLister::List(const Set& set,
                                        std::vector<int64_t>* ids) {
  RowList list;
  list.count = set.count;
  ids->clear();
  CKPTDB_ASSIGN_OR_RETURN(
      DevicePool::Loan rows,
      lists_.Take(std::max<uint64_t>(set.count, 1) * sizeof(uint32_t)));
  list.rows = std::make_shared<DevicePool::Loan>(std::move(rows));
  if (set.count == 0) return list;
  auto* const listed = reinterpret_cast<uint32_t*>(list.rows->get());
  CKPTDB_RETURN_IF_ERROR(CudaStatus(
      LaunchListRows(reinterpret_cast<const uint32_t*>(set.words.get()),
                     table_.rows, tiles(), listed, context_->side()),
      "the kernel that lists rows"));
  CKPTDB_ASSIGN_OR_RETURN(const DevicePool::Loan all,
                          lists_.Take(set.count * sizeof(int64_t)));
  ListIds list_ids = {listed,         set.count,
                      table_.ids,     table_.first_id,
                      table_.id_step, reinterpret_cast<int64_t*>(all.get())};
  CKPTDB_RETURN_IF_ERROR(CudaStatus(LaunchListIds(list_ids, context_->side()),
                                    "the kernel that lists ids"));
  CKPTDB_RETURN_IF_ERROR(CopyIds(list_ids.listed, set.count, ids));
  return list;
}

// Copies ids in parts to limit pinned memory.
absl::Status RowLister::CopyIds(const int64_t* from, uint64_t count,
                                std::vector<int64_t>* ids) {
  constexpr uint64_t kMost = kCopyBytes / sizeof(int64_t);
  CKPTDB_ASSIGN_OR_RETURN(
      const PinnedPool::Loan buffer,
      context_->pinned().Take(std::min(count, kMost) * sizeof(int64_t)));
  // Returns the buffer only when no copy writes to it.
  WaitForStream wait(context_->side());
  ids->reserve(count);
  for (uint64_t first = 0; first < count; first += kMost) {
    const uint64_t some = std::min(kMost, count - first);
    CKPTDB_RETURN_IF_ERROR(
        CopyToHost(buffer.get(), reinterpret_cast<const char*>(from + first),
                   some * sizeof(int64_t), context_->side()));
    CKPTDB_RETURN_IF_ERROR(AwaitSide());
    const auto* const copy = reinterpret_cast<const int64_t*>(buffer.get());
    ids->insert(ids->end(), copy, copy + some);
  }
  wait.Dismiss();
  return absl::OkStatus();
}

absl::StatusOr<RowList> RowLister::ListAll(std::vector<int64_t>* ids) {
  if (table_.ids == nullptr) {
    ids->resize(table_.rows);
    auto id = static_cast<uint64_t>(table_.first_id);
    for (int64_t& each : *ids) {
      each = static_cast<int64_t>(id);
      id += static_cast<uint64_t>(table_.id_step);
    }
    return RowList{nullptr, table_.rows};
  }
  CKPTDB_ASSIGN_OR_RETURN(Set set, NewSet());
  const TakeAll all = {table_.rows, table_.ids_view(),
                       reinterpret_cast<uint32_t*>(set.words.get())};
  CKPTDB_RETURN_IF_ERROR(CudaStatus(
      LaunchTakeAll(all, tiles(), &device_control()->count, context_->side()),
      "the kernel that takes all rows"));
  CKPTDB_RETURN_IF_ERROR(ReadCount(&set));
  return List(set, ids);
}

absl::StatusOr<RowList> RowLister::Upload(absl::Span<const uint32_t> rows) {
  constexpr uint64_t kMost = kCopyBytes / sizeof(uint32_t);
  RowList list;
  list.count = rows.size();
  CKPTDB_ASSIGN_OR_RETURN(
      DevicePool::Loan loan,
      lists_.Take(std::max<uint64_t>(rows.size(), 1) * sizeof(uint32_t)));
  list.rows = std::make_shared<DevicePool::Loan>(std::move(loan));
  if (rows.empty()) return list;
  CKPTDB_ASSIGN_OR_RETURN(
      const PinnedPool::Loan buffer,
      context_->pinned().Take(std::min<uint64_t>(rows.size(), kMost) *
                              sizeof(uint32_t)));
  WaitForStream wait(context_->side());
  for (uint64_t first = 0; first < rows.size(); first += kMost) {
    const uint64_t bytes =
        std::min<uint64_t>(kMost, rows.size() - first) * sizeof(uint32_t);
    std::memcpy(buffer.get(), rows.data() + first, bytes);
    CKPTDB_RETURN_IF_ERROR(
        CopyToDevice(list.rows->get() + first * sizeof(uint32_t), buffer.get(),
                     bytes, context_->side()));
    CKPTDB_RETURN_IF_ERROR(AwaitSide());
  }
  wait.Dismiss();
  return list;
}

absl::Status RowLister::ReadIds(std::vector<int64_t>* ids) {
  ids->clear();
  if (table_.rows == 0) return absl::OkStatus();
  return CopyIds(table_.ids, table_.rows, ids);
}

}  // namespace ckptdb::internal
