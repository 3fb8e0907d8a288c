// DeviceTable: a TableState of rows in the memory of a GPU. manager/tables.h
// says what all adapters have in common.
//
//   CKPTDB_ASSIGN_OR_RETURN(const std::unique_ptr<CudaDevice> gpu,
//                           CudaDevice::Open({.required = true}));
//   DeviceTable::Options options;
//   options.stream = stream;  // cudaStream_t, on which the trainer works
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
// The arrays are the trainer's, one for each slot, by row number, in device
// memory: an embedding table and its optimizer state, or views into the one
// array in which a trainer keeps several of them.
//
// Ids
// 1. Without Options::ids the id of a row is first_id + row * id_step, all rows
//    exist, and none is erased: as of a VectorTable.
// 2. With Options::ids it is in an array in device memory, and rows whose id is
//    free_id hold nothing: as of a hash table, whose keys these are. The table
//    keeps no index from ids to rows. A restore writes `ids` and gives rows
//    that hold nothing to new ids, in no order; the trainer builds its index
//    anew then. No other row has the id free_id, and no two the same id, which
//    a save refuses.
//
// A save
// 1. takes the rows as the work that is queued on the stream leaves them. The
//    call of the manager waits for that work, as it needs the ids of the rows.
// 2. gathers the rows that changed into staging memory of the device. Work that
//    is queued on the stream later waits for that, and for nothing else.
// 3. copies them to host memory on the thread of saves, while the trainer goes
//    on, and compares digests of what was gathered with those of what has
//    arrived: bytes that have changed on the way are DataLoss.
//
// A slot whose codec is bf16 or int8 is encoded by the gather, and its codes
// alone are staged and copied; what is stored are the bytes of a table in host
// memory with the same rows. The call of the manager then waits for the gather
// as well: if a number has no code, such as a NaN under int8, the slot is
// gathered as it is. A restore writes f32, widened on the host.
//
// Rows that do not fit into CudaDevice::Options::staging_bytes pass through a
// window while the call of the manager waits, as tensors do.
//
// Device memory: an eighth of a byte a row for the marks and for each consumer
// of them; during a save as much again, 4 bytes for each row of it, 8 while
// their ids are read, and the staging memory. Host memory during a save: the
// rows of it, each slot or its codes padded to a multiple of 16 bytes, 8 bytes
// for each row of a slot under int8, and 8 bytes for each id; during a restore
// of a table with ids about 20 bytes for each of its rows.
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
#include "ckptdb/cuda/cuda_device.h"
#include "ckptdb/manager/model_state.h"
#include "ckptdb/manager/tables.h"

namespace ckptdb {

// Calls that a manager makes are its own thread's; marks may be made at any
// time, from any thread. It outlives the manager, and the device outlives it.
class DeviceTable : public internal::AdaptedTable {
 public:
  // The most rows, 2^32 - 1.
  static constexpr uint64_t kMaxRows = (uint64_t{1} << 32) - 1;

  // The values of one slot.
  struct Array {
    Slot slot;
    void* data = nullptr;  // device memory
    // The bytes from one row to the next. If 0, the rows are adjacent. Rows and
    // arrays that begin at multiples of 16 bytes are copied fastest.
    uint64_t stride_bytes = 0;
  };

  struct Options {
    // See TableOptions; `threads` is ignored, and `tracker` is of erased ids.
    TableOptions table = {};
    // The stream on which the trainer writes the rows, a cudaStream_t, which
    // outlives the table; cuda_device.h says what null is. The end of the table
    // waits for it, and is no part of a capture.
    void* stream = nullptr;
    // The ids of the rows in device memory. If null, they follow from the row
    // numbers.
    int64_t* ids = nullptr;
    // The id of rows that hold nothing, if there are ids. Default: -1.
    int64_t free_id = -1;
    // The id of row 0 and from one row to the next, if there are no ids: a rank
    // that has every n-th row has the others between. id_step is at least 1.
    int64_t first_id = 0;
    int64_t id_step = 1;
  };

  // Returns FailedPrecondition if host memory takes the place of the device
  // (CudaDevice::Open), InvalidArgument for what is wrong with rows, arrays or
  // options, and ResourceExhausted if the device has no memory for the marks.
  static absl::StatusOr<std::unique_ptr<DeviceTable>> Make(
      CudaDevice* device, uint64_t rows, const std::vector<Array>& arrays,
      Options options);
  static absl::StatusOr<std::unique_ptr<DeviceTable>> Make(
      CudaDevice* device, uint64_t rows, const std::vector<Array>& arrays);
  ~DeviceTable() override;

  // Mark the rows of a batch, whose numbers are in device memory, on the stream
  // of the table: behind the work that changes them, if it was queued before.
  // A row may be there any number of times. `rows` stays until the stream has
  // come so far. A number that is no row is reported by the next save, which
  // fails with OutOfRange; the save after that is whole. After an error of the
  // call the next save is whole, too.
  //
  // In a CUDA graph: if the stream is captured, each launch of the graph marks
  // the rows whose numbers `rows` has at that time; `rows` and the table
  // outlive the graph. The graph is captured and launched on Options::stream.
  // Marks of a graph that was captured on another stream, as torch.cuda.graph
  // does by default, are made once, during the capture, and not by its
  // launches: mark after each launch then.
  absl::Status MarkUpserted(const int32_t* rows, uint64_t count);
  absl::Status MarkUpserted(const int64_t* rows, uint64_t count);
  // Marks ids as erased, which are in host memory. Their rows hold nothing from
  // then on, or something else, and an id that comes back is marked in its new
  // row. Returns FailedPrecondition for a table without ids.
  absl::Status MarkErased(absl::Span<const int64_t> ids);

  ChangeTracker* tracker() override;
  absl::StatusOr<std::unique_ptr<Captured>> Capture(
      const absl::Span<const int64_t>* ids) const override;
  absl::StatusOr<std::unique_ptr<RowSource>> AllRows() const override;
  absl::StatusOr<std::unique_ptr<RowSource>> RowsOf(
      absl::Span<const int64_t> ids) const override;
  std::optional<Capacity> capacity() const override;
  LiveTable* Live(absl::Span<const std::string> slots) override;

 private:
  struct Parts;

  DeviceTable(std::vector<Slot> slots, TableOptions options,
              std::unique_ptr<Parts> parts);

  const std::unique_ptr<Parts> parts_;
};

}  // namespace ckptdb

#endif  // CKPTDB_CUDA_DEVICE_TABLE_H_
