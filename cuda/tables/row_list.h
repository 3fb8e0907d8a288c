// SPDX-License-Identifier: Apache-2.0
// Sets of rows in device memory, their lists of row numbers there, and their
// ids on the host; internal to cuda/.
#ifndef CKPTDB_CUDA_TABLES_ROW_LIST_H_
#define CKPTDB_CUDA_TABLES_ROW_LIST_H_

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "cuda/rows/row_marks.h"
#include "cuda/rows/row_operations.h"
#include "cuda/runtime/device_context.h"
#include "cuda/tables/table_rows.h"

namespace ckptdb::internal {

// Row numbers in device memory, uint32_t, ascending. Copies share the memory.
struct RowList {
  std::shared_ptr<DevicePool::Loan> rows;  // null: rows 0 to count - 1
  uint64_t count = 0;

  const uint32_t* get() const {
    return rows == nullptr ? nullptr
                           : reinterpret_cast<const uint32_t*>(rows->get());
  }
};

// The ids of rows: owned, or owned by the caller of a save.
class RowIds {
 public:
  explicit RowIds(absl::Span<const int64_t> kept) : all_(kept) {}
  explicit RowIds(std::vector<int64_t> own)
      : own_(std::move(own)), all_(own_) {}
  RowIds(RowIds&&) = default;  // moving a vector does not move its ids
  RowIds& operator=(RowIds&&) = delete;

  uint64_t size() const { return all_.size(); }
  bool empty() const { return all_.empty(); }
  absl::Span<const int64_t> all() const { return all_; }

 private:
  std::vector<int64_t> own_;
  absl::Span<const int64_t> all_;
};

// Returns a digest of the ids and their order.
uint64_t DigestOfIds(absl::Span<const int64_t> ids);

// Makes lists on the context's side stream. Its queued work has ended, or runs
// before all work queued there later. Used by one thread at a time.
class RowLister {
 public:
  // A set of rows.
  struct Set {
    DevicePool::Loan words;  // MarkWords of the table
    uint64_t count = 0;
  };

  // The context and the table must outlive it.
  static absl::StatusOr<std::unique_ptr<RowLister>> Make(
      DeviceContext* context, const TableRows* table);
  // Waits for the queued work.
  ~RowLister();
  RowLister(const RowLister&) = delete;
  RowLister& operator=(const RowLister&) = delete;

  // Makes an empty set.
  absl::StatusOr<Set> NewSet();
  // Moves the table's marks to the pending sets of the other consumers, and to
  // `set` together with this consumer's pending rows. Queued work may run even
  // if the call fails.
  absl::Status Take(TakeMarks marks, Set* set);
  // Returns the rows and ids of the set that was taken last.
  absl::StatusOr<RowList> List(const Set& set, std::vector<int64_t>* ids);
  // Returns all rows that are not empty, and their ids.
  absl::StatusOr<RowList> ListAll(std::vector<int64_t>* ids);
  // Copies row numbers from the host to a list.
  absl::StatusOr<RowList> Upload(absl::Span<const uint32_t> rows);
  // Reads the ids of all rows.
  absl::Status ReadIds(std::vector<int64_t>* ids);

  // Returns where kernels report marks out of range, in device memory.
  MarkReport* report() const;
  // Returns the report as the last Take found it.
  const MarkReport& reported() const;
  // Begins a new report.
  absl::Status ClearReport();

 private:
  // In device memory, with a copy in host memory.
  struct Control {
    uint64_t count = 0;
    MarkReport report;
  };

  RowLister(DeviceContext* context, const TableRows* table,
            DeviceBuffer device_control, PinnedBuffer control,
            DeviceBuffer tiles);

  Control* device_control() const {
    return reinterpret_cast<Control*>(device_control_.get());
  }
  uint32_t* tiles() const { return reinterpret_cast<uint32_t*>(tiles_.get()); }
  absl::Status AwaitSide() const;
  absl::Status ReadCount(Set* set);
  absl::Status CopyIds(const int64_t* from, uint64_t count,
                       std::vector<int64_t>* ids);

  DeviceContext* const context_;
  const TableRows& table_;
  const DeviceBuffer device_control_;
  const PinnedBuffer control_;
  const DeviceBuffer tiles_;
  // Sets, lists and ids, which exist only during a save.
  DevicePool lists_;
};

}  // namespace ckptdb::internal

#endif  // CKPTDB_CUDA_TABLES_ROW_LIST_H_
