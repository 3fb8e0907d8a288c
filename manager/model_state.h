// SPDX-License-Identifier: Apache-2.0
// The state that a rank saves and restores, registered once.
//
//   ModelState model;
//   CKPTDB_RETURN_IF_ERROR(
//       model.AddTensor("mlp.0.weight", TensorState::Of(weights, {3, 4})));
//   CKPTDB_RETURN_IF_ERROR(
//       model.AddTable("user", &user_table, TableSharding::BySlices()));
//   CKPTDB_RETURN_IF_ERROR(model.AddIoState("reader", &reader));
//   CKPTDB_RETURN_IF_ERROR(model.AddValue("epoch", &epoch));
//
// All ranks register the same names. Registration returns AlreadyExists for a
// name that is taken, and InvalidArgument for one that is reserved, a category
// of load rules such as "dense", or not storable. Registered state must not
// move while the manager exists, except tensors of a provider. Not thread-safe.
#ifndef CKPTDB_MANAGER_MODEL_STATE_H_
#define CKPTDB_MANAGER_MODEL_STATE_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "db/internal/dtype_of.h"
#include "db/reader.h"
#include "db/row_tracker.h"
#include "db/state.h"

namespace ckptdb {

namespace internal {
struct RegisteredTensor;
struct RegisteredTable;
struct RegisteredIo;
struct RegisteredExtra;
}  // namespace internal

// A dense, row-major tensor in host memory, or in device memory, where rows may
// have gaps between them.
//
//   CKPTDB_ASSIGN_OR_RETURN(auto device, CudaDevice::Open());
//   TensorState weights = TensorState::Of(device_pointer, {3, 4});
//   weights.device = device.get();
//   weights.stream = stream;
//   CKPTDB_RETURN_IF_ERROR(model.AddTensor("mlp.0.weight", weights));
struct TensorState {
  // Memory of a device: see cuda/cuda_device.h.
  class Device;
  DType dtype = DType::kF32;
  Shape shape;
  void* data = nullptr;
  // The whole tensor's shape and the shard's offset in it. Empty for a
  // replicated tensor, which is the same on all ranks; one of them saves it.
  Shape global_shape = {};
  Shape offset = {};
  Codec codec = Codec::kNone;
  // The device of `data`, which outlives the manager. If null, the tensor is in
  // host memory, and the fields below are unset.
  Device* device = nullptr;
  // The stream that writes the tensor, such as a cudaStream_t; null is the
  // default stream. A save captures the tensor, and a restore writes it, after
  // all work queued before the call; later work waits on the device.
  void* stream = nullptr;
  // An event, such as a cudaEvent_t, that saves and restores also wait for.
  void* event = nullptr;
  // Bytes between indexes of the first dimension. 0: adjacent.
  uint64_t stride_bytes = 0;
  bool sharded() const { return !global_shape.empty(); }

  template <typename T>
  static TensorState Of(T* data, Shape shape) {
    TensorState state;
    state.dtype = internal::DTypeOf<T>::kValue;
    state.shape = std::move(shape);
    state.data = data;
    return state;
  }
};

// A sparse table of the trainer; manager/tables.h provides adapters for maps
// and arrays. Called on the thread that calls the manager.
class TableState {
 public:
  // Rows of a table in device memory that are set aside for a save.
  class Captured;

  virtual ~TableState() = default;

  virtual std::vector<Slot> slots() const = 0;
  virtual SliceHash slice_hash() const { return SliceHash::kModulo; }

  // Return all rows of this rank, or the rows of `ids`, in place. The source is
  // used until the table may change again; `ids` stays valid as long. Pass the
  // rows of one array as one block with row numbers, in memory order. RowsOf
  // returns Internal for an id without a row: it was marked without being
  // inserted.
  virtual absl::StatusOr<std::unique_ptr<RowSource>> AllRows() const = 0;
  virtual absl::StatusOr<std::unique_ptr<RowSource>> RowsOf(
      absl::Span<const int64_t> ids) const = 0;

  // For tables in device memory: sets aside all rows, or those of `ids` unless
  // it is null, without waiting for the copy. The table may change afterwards;
  // `ids` stays valid as long as the result. The default returns null, for
  // tables in host memory.
  virtual absl::StatusOr<std::unique_ptr<Captured>> Capture(
      const absl::Span<const int64_t>* ids) const;

  // The slots of the optimizer, which inference does not need.
  virtual std::vector<std::string> optimizer_slots() const { return {}; }

  // The number of rows of a table of fixed size, or nothing if it grows. Before
  // it changes the model, a restore returns ResourceExhausted if the step has
  // more rows, and the error of CheckId for an id that the table cannot hold.
  // Several threads call CheckId.
  virtual std::optional<uint64_t> capacity() const { return std::nullopt; }
  virtual absl::Status CheckId(int64_t /*id*/) const {
    return absl::OkStatus();
  }

  // Returns the receiver of restored rows with these slots in this order, or
  // null if the table cannot receive them. Other slots keep their values; in
  // new rows the table initializes them.
  virtual LiveTable* Live(absl::Span<const std::string> slots) = 0;

  // The tracker of changed rows. If null, every save of the table is full.
  virtual ChangeTracker* tracker() { return nullptr; }

  // Some elements of a slot, by its index in slots().
  struct Columns {
    uint32_t slot = 0;
    uint32_t first = 0;
    uint32_t elements = 0;
  };
  // For a table whose columns are divided among ranks: the elements that this
  // rank has, which then are the slots of the blocks of AllRows and RowsOf;
  // slots() are whole. On all ranks together the elements of a row are on one
  // rank each. Empty for a rank without rows.
  //
  // Before a save the ranks send each other their columns, so that the rank to
  // which the sharding gives a row saves all of it; each holds its share of the
  // rows, whole, until the save ends. If any rank has marked a row, RowsOf is
  // called on each rank that has columns, with ids that this one may not have,
  // which it leaves out. A restore passes whole rows, and all of them, to each
  // rank that has columns, which keeps its own.
  // ManagerOptions::Saving::audit_deltas omits such tables.
  virtual std::optional<std::vector<Columns>> columns() const {
    return std::nullopt;
  }

  // Returns a function, such as those of EvolvePolicy::Table::convert, by which
  // restores read the slot `from` of a step as `to`, whose elements or dtype
  // differ; null if there is no such function.
  using SlotConverter = std::function<absl::Status(
      const Slot& from, absl::Span<const int64_t> ids, const char* rows,
      char* converted)>;
  virtual SlotConverter Converter(const Slot& /*from*/,
                                  const Slot& /*to*/) const {
    return nullptr;
  }

  // The error of construction, which ModelState::AddTable returns.
  virtual absl::Status status() const { return absl::OkStatus(); }
};

// State that is saved as bytes: a rank's position in its input, or an object.
class BlobState {
 public:
  virtual ~BlobState() = default;
  virtual absl::StatusOr<std::string> Dump() = 0;
  virtual absl::Status Load(absl::string_view bytes) = 0;
  // For io states: loads what all ranks of a world of another size dumped. The
  // default returns Unimplemented.
  virtual absl::Status Redistribute(absl::Span<const std::string> parts);
};

class ModelState {
 public:
  // Selects one rank's part of a step to restore.
  struct Shard {
    uint32_t rank = 0;
    uint32_t world_size = 1;
  };

  ModelState();
  ~ModelState();
  ModelState(const ModelState&);
  ModelState& operator=(const ModelState&);

  // Called again with a name, adds a shard: see RankState::AddTensor.
  absl::Status AddTensor(std::string name, TensorState tensor);
  // With several ranks, declare which rank holds which rows here or, for all
  // tables, with ManagerOptions::Ranks::sharding.
  absl::Status AddTable(std::string name, TableState* table,
                        TableSharding sharding = {});
  // Adds state of which each rank saves and loads its own bytes.
  absl::Status AddIoState(std::string name, BlobState* io);
  // Add an object or a value: the owner's is saved, and all ranks load it.
  absl::Status AddObject(std::string name, BlobState* object);
  absl::Status AddValue(std::string name, int64_t* value);
  absl::Status AddValue(std::string name, double* value);
  absl::Status AddValue(std::string name, std::string* value);

  // For tensors that move or that a trainer makes late, such as an optimizer's.
  // The manager calls `provider` on its thread before each save, with null, and
  // before each restore and load, with the step that is open. There it may call
  // RemoveTensorsAndObjects and add them again; tables and io states stay as
  // they were when the manager was opened. An error ends the call.
  //
  //   model.SetProvider([&](const StepReader*) {
  //     model.RemoveTensorsAndObjects();
  //     return model.AddTensor("w", TensorState::Of(weights.data(), {3, 4}));
  //   });
  void SetProvider(
      std::function<absl::Status(const StepReader* step)> provider);
  // Values are objects here.
  void RemoveTensorsAndObjects();

  // For the library.
  absl::Status Provide(const StepReader* step) const;
  // Extras are objects and values.
  const std::vector<internal::RegisteredTensor>& tensors() const;
  const std::vector<internal::RegisteredTable>& tables() const;
  const std::vector<internal::RegisteredIo>& io_states() const;
  const std::vector<internal::RegisteredExtra>& extras() const;

 private:
  absl::Status Register(const std::string& name, bool is_null);
  absl::Status CheckShard(const std::string& name, const TensorState& tensor);
  absl::Status AddExtra(internal::RegisteredExtra extra, bool is_null);

  std::map<std::string, std::vector<size_t>> names_;  // and tensors' indexes
  std::vector<internal::RegisteredTensor> tensors_;
  std::vector<internal::RegisteredTable> tables_;
  std::vector<internal::RegisteredIo> io_states_;
  std::vector<internal::RegisteredExtra> extras_;
  std::function<absl::Status(const StepReader* step)> provider_;
};

// The names under which a step stores them as blobs.
std::string IoStateBlob(absl::string_view name);
std::string ExtraBlob(absl::string_view name);

}  // namespace ckptdb

#endif  // CKPTDB_MANAGER_MODEL_STATE_H_
