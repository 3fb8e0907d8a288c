// SPDX-License-Identifier: Apache-2.0
// DeviceTable: a TableState whose rows are in GPU memory. manager/tables.h
// describes what all adapters have in common.
//
//   CKPTDB_ASSIGN_OR_RETURN(const std::unique_ptr<CudaDevice> gpu,
//                           CudaDevice::Open({.required = true}));
//   DeviceTable::Options options;
//   options.stream = stream;  // the trainer's cudaStream_t
//   CKPTDB_ASSIGN_OR_RETURN(
//       const std::unique_ptr<DeviceTable> items,
//       DeviceTable::Make(gpu.get(), rows,
//                         {{{"embedding", DType::kF32, 64}, weights},
//                          {{"adagrad_sum", DType::kF32, 64}, sums}},
//                         options));
//   CKPTDB_RETURN_IF_ERROR(model.AddTable("item", items.get()));
//   ...
//   train(stream);  // changes the rows whose numbers are in rows_on_device
//   CKPTDB_RETURN_IF_ERROR(items->MarkUpserted(rows_on_device, count));
//   CKPTDB_RETURN_IF_ERROR(manager->Step().status());
//
// The trainer owns the arrays: one for each slot, indexed by row number, in
// device memory. They may be an embedding table and its optimizer state, or
// views into one array that stores several slots.
//
// Ids
// 1. Without Options::ids, a row's id is first_id + row * id_step. All rows
//    exist and none is erased, as in a VectorTable.
// 2. With Options::ids, row ids are in an array in device memory, such as the
//    keys of a hash table, and rows whose id is free_id are empty. The
//    DeviceTable has no index from ids to rows. A restore writes `ids` and
//    assigns new ids to empty rows in no particular order; the trainer then
//    rebuilds its index. Ids other than free_id must be unique; a save fails
//    otherwise.
//
// A save
// 1. captures the rows as they are after the work already queued on the stream.
//    The manager's call waits for that work, because it needs the ids of the
//    rows.
// 2. gathers the changed rows into staging memory on the device. Work queued on
//    the stream later waits only for this gather.
// 3. copies them to host memory on the save thread while the trainer continues,
//    and compares digests of the gathered bytes with digests of the bytes that
//    arrived. A mismatch is DataLoss.
//
// The gather encodes slots whose codec is bf16 or int8, and only their codes
// are staged and copied. The stored bytes equal those of a host table with the
// same rows. The manager's call then waits for the gather too: if a value
// cannot be encoded, such as a NaN with int8, the slot is gathered unencoded. A
// restore writes f32, widened on the host.
//
// Rows that do not fit in CudaDevice::Options::staging_bytes pass through a
// window while the manager's call waits, as tensors do.
//
// Device memory: one bit per row for the marks and for each of their consumers;
// during a save, the same amount again, 4 bytes for each saved row (8 while
// their ids are read), and the staging memory. Host memory during a save: the
// saved rows, each slot or its codes padded to a multiple of 16 bytes, 8 bytes
// per row for an int8 slot, and 8 bytes per id; during a restore of a table
// with ids, about 20 bytes for each of its rows.
#ifndef CKPTDB_CUDA_DEVICE_TABLE_H_
#define CKPTDB_CUDA_DEVICE_TABLE_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "cuda/cuda_device.h"
#include "manager/model_state.h"
#include "manager/tables.h"

namespace ckptdb {

// The manager calls it on the manager's own thread; any thread may mark rows at
// any time. Must outlive the manager; the device must outlive the table.
class DeviceTable : public internal::AdaptedTable {
 public:
  // The maximum number of rows, 2^32 - 1.
  static constexpr uint64_t kMaxRows = (uint64_t{1} << 32) - 1;

  // The values of one slot.
  struct Array {
    Slot slot;
    void* data = nullptr;  // device memory
    // Bytes from one row to the next. 0: rows are adjacent. Rows and arrays
    // aligned to 16 bytes are copied fastest.
    uint64_t stride_bytes = 0;
  };

  struct Options {
    // See TableOptions. `threads` is ignored; `tracker_bytes` applies to erased
    // ids.
    TableOptions table = {};
    // The cudaStream_t on which the trainer writes the rows; null is described
    // in cuda_device.h. It must outlive the table. The destructor waits for it,
    // and must not run during a capture.
    void* stream = nullptr;
    // The ids of the rows, in device memory. If null, they follow from the row
    // numbers.
    int64_t* ids = nullptr;
    // The id of empty rows, if `ids` is set. Default: -1.
    int64_t free_id = -1;
    // Without `ids`: the id of row 0, and the difference between the ids of
    // consecutive rows, at least 1. A rank that owns every n-th row sets
    // id_step to n.
    int64_t first_id = 0;
    int64_t id_step = 1;
  };

  // Returns FailedPrecondition if `device` works in host memory (see
  // CudaDevice::Open), InvalidArgument for invalid rows, arrays or options, and
  // ResourceExhausted if the marks do not fit in device memory.
  static absl::StatusOr<std::unique_ptr<DeviceTable>> Make(
      CudaDevice* device, uint64_t rows, const std::vector<Array>& arrays,
      Options options);
  static absl::StatusOr<std::unique_ptr<DeviceTable>> Make(
      CudaDevice* device, uint64_t rows, const std::vector<Array>& arrays);
  ~DeviceTable() override;

  // Mark the rows of a batch as changed. `rows` holds their numbers in device
  // memory. The marks are queued on the table's stream, so call this after
  // queueing the work that changes the rows. Duplicates are allowed. `rows`
  // must stay valid until the stream has run the marks. A row number out of
  // range makes the next save fail with OutOfRange, and the save after that is
  // full. If the call itself fails, the next save is full too.
  //
  // In a CUDA graph: if the stream is being captured, each launch of the graph
  // marks the rows that `rows` holds at that time; `rows` and the table must
  // outlive the graph. Capture and launch the graph on Options::stream. If it
  // is captured on another stream, as torch.cuda.graph does by default, the
  // marks are made once, during the capture, and not by its launches: then call
  // MarkUpserted after each launch.
  absl::Status MarkUpserted(const int32_t* rows, uint64_t count);
  absl::Status MarkUpserted(const int64_t* rows, uint64_t count);
  // Marks ids as erased; `ids` is in host memory. Their rows are empty from
  // then on, or hold other ids. If an id is inserted again, mark its new row
  // with MarkUpserted. Returns FailedPrecondition for a table without
  // Options::ids.
  absl::Status MarkErased(absl::Span<const int64_t> ids);

  ChangeTracker* tracker() override;
  absl::StatusOr<std::unique_ptr<Captured>> Capture(
      const absl::Span<const int64_t>* ids) const override;
  absl::StatusOr<std::unique_ptr<RowSource>> AllRows() const override;
  absl::StatusOr<std::unique_ptr<RowSource>> RowsOf(
      absl::Span<const int64_t> ids) const override;
  std::optional<uint64_t> capacity() const override;
  absl::Status CheckId(int64_t id) const override;
  LiveTable* Live(absl::Span<const std::string> slots) override;

 private:
  struct Parts;

  DeviceTable(std::vector<Slot> slots, TableOptions options,
              std::unique_ptr<Parts> parts);

  const std::unique_ptr<Parts> parts_;
};

}  // namespace ckptdb

#endif  // CKPTDB_CUDA_DEVICE_TABLE_H_
