// Sets of rows in device memory and what is made of them: a list of rows there,
// and their ids on the host; internal to cuda/.
#ifndef CKPTDB_CUDA_TABLES_ROW_LIST_H_
#define CKPTDB_CUDA_TABLES_ROW_LIST_H_

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "ckptdb/cuda/rows/row_marks.h"
#include "ckptdb/cuda/rows/row_operations.h"
#include "ckptdb/cuda/runtime/device_context.h"
#include "ckptdb/cuda/tables/table_rows.h"

namespace ckptdb::internal {

// Rows in device memory, uint32_t each, in ascending order. Copies share them.
struct RowList {
  std::shared_ptr<DevicePool::Loan> rows;  // null: those from 0 on
  uint64_t count = 0;

  const uint32_t* get() const {
    return rows == nullptr ? nullptr
                           : reinterpret_cast<const uint32_t*>(rows->get());
  }
};

// The ids of rows, which the caller of a save keeps, or which are its own.
class RowIds {
 public:
  explicit RowIds(absl::Span<const int64_t> kept) : all_(kept) {}
  explicit RowIds(std::vector<int64_t> own)
      : own_(std::move(own)), all_(own_) {}
  RowIds(RowIds&&) = default;  // the ids of a vector stay where they are
  RowIds& operator=(RowIds&&) = delete;

  uint64_t size() const { return all_.size(); }
  bool empty() const { return all_.empty(); }
  absl::Span<const int64_t> all() const { return all_; }

 private:
  std::vector<int64_t> own_;
  absl::Span<const int64_t> all_;
};

// Returns a number that other ids, or the same ones in another order, do not
// have.
uint64_t DigestOfIds(absl::Span<const int64_t> ids);

// Makes lists, on the side stream of the context. What it queues has ended, or
// is before all that is queued there later. Used by one thread at a time.
class RowLister {
 public:
  // A set of rows and how it is divided into tiles.
  struct Set {
    DevicePool::Loan words;  // MarkWords of them
    uint64_t count = 0;
  };

  // The context and the table outlive it.
  static absl::StatusOr<std::unique_ptr<RowLister>> Make(
      DeviceContext* context, const TableRows* table);
  // Waits for what is queued.
  ~RowLister();
  RowLister(const RowLister&) = delete;
  RowLister& operator=(const RowLister&) = delete;

  // Makes a set that is empty.
  absl::StatusOr<Set> NewSet();
  // Moves the marks of the table to the sets that wait for other consumers, and
  // those that waited for this one to `set`. What it queued may run although it
  // has failed.
  absl::Status Take(TakeMarks marks, Set* set);
  // Returns the rows of the set that was taken last, and their ids.
  absl::StatusOr<RowList> List(const Set& set, std::vector<int64_t>* ids);
  // Returns a list of all rows that hold something, and their ids.
  absl::StatusOr<RowList> ListAll(std::vector<int64_t>* ids);
  // Returns a list of these rows, which are on the host.
  absl::StatusOr<RowList> Upload(absl::Span<const uint32_t> rows);
  // Reads the ids of all rows.
  absl::Status ReadIds(std::vector<int64_t>* ids);

  // Where marks that are no rows are reported, in device memory.
  MarkReport* report() const;
  // Returns the report as the last Take found it.
  const MarkReport& reported() const;
  // Begins a new report.
  absl::Status ClearReport();

 private:
  // In device memory and in a copy in host memory.
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
  // Sets, lists and ids, which come and go with each save.
  DevicePool lists_;
};

}  // namespace ckptdb::internal

#endif  // CKPTDB_CUDA_TABLES_ROW_LIST_H_
