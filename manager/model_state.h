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
// name that is taken, and InvalidArgument for one that is reserved, is that of
// a category of load rules such as "dense", or cannot be stored. What is
// registered stays where it is as long as the manager lives.
//
// Not thread-safe.
#ifndef CKPTDB_MANAGER_MODEL_STATE_H_
#define CKPTDB_MANAGER_MODEL_STATE_H_

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "ckptdb/db/reader.h"
#include "ckptdb/db/row_tracker.h"
#include "ckptdb/db/state.h"

namespace ckptdb {

// A dense tensor, row-major and contiguous: in host memory, or in that of a
// device, where its rows may lie apart.
//
//   // ckptdb::cuda, cuda/cuda_device.h
//   CKPTDB_ASSIGN_OR_RETURN(auto gpu, OpenCudaDevice());
//   TensorState weights = TensorState::Of(device_pointer, {3, 4});
//   weights.device = gpu.get();
//   weights.stream = stream;
//   CKPTDB_RETURN_IF_ERROR(model.AddTensor("mlp.0.weight", weights));
struct TensorState {
  class Device;

  DType dtype = DType::kF32;
  Shape shape;
  void* data = nullptr;
  // The shape of the tensor of which this is this rank's shard, and the
  // position of the shard in it. If empty, the tensor is replicated: whole, and
  // the same on all ranks, of which one saves it. See ModelState::Replication.
  Shape global_shape = {};
  Shape offset = {};
  Codec codec = Codec::kNone;

  // The device in whose memory `data` is. It outlives the manager. If null,
  // the tensor is in host memory, and what follows is not set.
  Device* device = nullptr;
  // The stream of the device that writes the tensor, such as a cudaStream_t;
  // null is the default stream. A save takes the tensor as the work leaves it
  // that was queued on the stream before the call of the manager; work that is
  // queued later waits, on the device, until the tensor is set aside. A restore
  // writes the tensor after the work that was queued before.
  void* stream = nullptr;
  // An event of the device, such as a cudaEvent_t, that a save and a restore
  // wait for as well; it was recorded before the call. Null: there is none.
  void* event = nullptr;
  // The bytes from one index of the first dimension to the next one. If 0, they
  // are adjacent.
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

// Memory of a device, such as a GPU, that has tensors of a model. Libraries
// beside this one implement it, such as ckptdb::cuda (cuda/cuda_device.h).
//
// Thread-safe, as long as a tensor is in one call at a time.
class TensorState::Device {
 public:
  // A tensor that is to be saved.
  struct Item {
    absl::string_view name;
    const TensorState* state = nullptr;
    uint64_t bytes = 0;
    // The place of its bytes in the memory of the save, a multiple of
    // kAlignment. Places rise from item to item and do not overlap.
    uint64_t at = 0;
  };
  static constexpr uint64_t kAlignment = 64;

  // Tensors that are set aside for a save, whose own memory may change.
  class Capture {
   public:
    // Waits until the device uses neither the tensors nor the memory of the
    // save any more on behalf of this capture.
    virtual ~Capture() = default;
    // Copies the tensors to their places in the memory of the save, and returns
    // when they are there. Called once, by any thread. Returns DataLoss naming
    // the tensor whose bytes the copy has changed; after an error the memory
    // has any bytes.
    virtual absl::Status Fetch() = 0;
  };

  // A tensor that is being restored.
  class Upload {
   public:
    // Waits until the device does not write the tensor any more on behalf of
    // this upload.
    virtual ~Upload() = default;
    // Writes bytes of the tensor, row-major and contiguous, the first of which
    // is its byte `first`, a multiple of kAlignment. `bytes` may change when it
    // returns.
    virtual absl::Status Write(uint64_t first,
                               absl::Span<const char> bytes) = 0;
    // Returns when everything is in the tensor. Returns DataLoss naming the
    // tensor if the copy has changed bytes. After an error of Write or Finish
    // the tensor has any bytes.
    virtual absl::Status Finish() = 0;
  };

  virtual ~Device() = default;

  // Returns InvalidArgument for a tensor that is not in the memory of this
  // device, or whose rows overlap.
  virtual absl::Status Check(const TensorState& tensor) const = 0;

  // Sets the tensors aside, and returns without waiting for the device: their
  // streams wait for it, and for it alone. `memory` is that of the save, and
  // stays as long as the capture. What there is no memory for on the device to
  // set it aside in is copied to its place before it returns, so that it waits
  // for the device then; nothing is allocated for it.
  virtual absl::StatusOr<std::unique_ptr<Capture>> SetAside(
      absl::Span<const Item> items, char* memory) = 0;

  // Begins to restore a tensor of so many bytes.
  virtual absl::StatusOr<std::unique_ptr<Upload>> BeginUpload(
      absl::string_view name, const TensorState& tensor, uint64_t bytes) = 0;

  // Registers host memory, so that the device copies to it directly. Without
  // it, or if it fails, copies take a way over memory of the device's own.
  virtual absl::Status Pin(char* memory, uint64_t bytes) = 0;
  // Ends that. The memory is in no copy.
  virtual void Unpin(char* memory) = 0;
};

// A sparse table of the trainer: see manager/tables.h for ready ones, in maps
// and arrays. The thread that calls the manager calls it.
class TableState {
 public:
  // Rows of a table in the memory of a device that are set aside for a save,
  // while the table itself may change.
  class Captured : public RowSource {
   public:
    // Copies the rows to host memory, and returns when they are there. Called
    // once, by any thread, before anything else of the source is. Returns
    // DataLoss naming the slot whose bytes the copy has changed.
    virtual absl::Status Fetch() = 0;
  };

  virtual ~TableState() = default;

  virtual std::vector<Slot> slots() const = 0;
  virtual SliceHash slice_hash() const { return SliceHash::kModulo; }

  // Return a source of all rows of this rank, or of those of `ids`, at their
  // places in the table. The source is used until the table may change again,
  // and `ids` stay as long. Rows of one array are best given as one block with
  // their row numbers, in the order of memory. RowsOf returns Internal if a row
  // of `ids` does not exist: it was marked without being made.
  virtual absl::StatusOr<std::unique_ptr<RowSource>> AllRows() const = 0;
  virtual absl::StatusOr<std::unique_ptr<RowSource>> RowsOf(
      absl::Span<const int64_t> ids) const = 0;

  // Sets aside, on the device that has them, all rows, or those of `ids` unless
  // it is null, and returns without waiting for the copy of the values. The
  // table may change then; `ids` stay as they are as long as what it returns.
  // Returns null for a table in host memory: a save then calls AllRows or
  // RowsOf.
  virtual absl::StatusOr<std::unique_ptr<Captured>> Capture(
      const absl::Span<const int64_t>* ids) const;

  // Returns those of slots() that are the optimizer's, which a model does not
  // need for inference.
  virtual std::vector<std::string> optimizer_slots() const { return {}; }

  // The rows that a table of fixed size can take.
  struct Capacity {
    uint64_t rows = 0;  // of this rank
    // Returns OK if the table can have a row of this id, and an error that
    // names both otherwise. Several threads call it. Null: any id may come.
    std::function<absl::Status(int64_t id)> check_id = nullptr;
  };
  // Returns what the table can take; unset if it grows. A restore reads the ids
  // of the step and compares them with it before it changes anything of the
  // model, and returns the error of check_id, or ResourceExhausted.
  virtual std::optional<Capacity> capacity() const { return std::nullopt; }

  // Returns the receiver of the rows of a restore, which have these slots in
  // this order. Values of the other slots stay, and the trainer chooses them in
  // new rows. Returns null if the table cannot receive such rows.
  virtual LiveTable* Live(absl::Span<const std::string> slots) = 0;

  // Returns the tracker in which changed rows are marked. If it is null, every
  // save of the table is whole.
  virtual ChangeTracker* tracker() { return nullptr; }

  // Returns the error with which the table was constructed, if there is one.
  // ModelState::AddTable returns it.
  virtual absl::Status status() const { return absl::OkStatus(); }
};

// The position of a rank in its input, or similar state.
class IoState {
 public:
  virtual ~IoState() = default;
  virtual absl::StatusOr<std::string> Dump() = 0;
  // Loads what this rank dumped, in a world of the same size.
  virtual absl::Status Load(absl::string_view bytes) = 0;
  // Loads what all ranks of a world of another size dumped, by rank. By default
  // it returns Unimplemented.
  virtual absl::Status Redistribute(absl::Span<const std::string> parts);
};

class ModelState {
 public:
  // Any state that can be saved as bytes. The owner's is saved, and all ranks
  // load it.
  class Object {
   public:
    virtual ~Object() = default;
    virtual absl::StatusOr<std::string> Save() = 0;
    virtual absl::Status Load(absl::string_view bytes) = 0;
  };

  // Says how replicated tensors are saved and restored. All ranks say the same.
  struct Replication {
    enum class Saver {
      kBalanced,  // each by one rank, so that ranks save about the same bytes
      kOwner,     // all by the owner
    };
    Saver saver = Saver::kBalanced;
    // The owner reads them and broadcasts them to the others, for a file system
    // that is slower than the ranks' network. If false, each rank reads them.
    // Those that a load casts are always read by each rank.
    bool broadcast = false;
  };

  // A rank of a world of so many, whose part of a step a model has.
  struct Shard {
    uint32_t rank = 0;
    uint32_t world_size = 1;
  };

  absl::Status AddTensor(std::string name, TensorState tensor);
  // Adds a table. `sharding` says which rank has which rows: a world of several
  // ranks requires it, or ManagerOptions::ranks.sharding for all tables.
  absl::Status AddTable(std::string name, TableState* table,
                        TableSharding sharding = {});
  absl::Status AddIoState(std::string name, IoState* io);
  absl::Status AddObject(std::string name, Object* object);
  // Add a value. The owner's is saved, and all ranks load it, bit for bit.
  absl::Status AddValue(std::string name, int64_t* value);
  absl::Status AddValue(std::string name, double* value);
  absl::Status AddValue(std::string name, std::string* value);

  struct Tensor {
    std::string name;
    TensorState state;
  };
  struct Table {
    std::string name;
    TableState* state = nullptr;
    TableSharding sharding = {};
  };
  struct Io {
    std::string name;
    IoState* state = nullptr;
  };
  // An object or a value.
  struct Extra {
    std::string name;
    std::function<absl::StatusOr<std::string>()> save;
    std::function<absl::Status(absl::string_view)> load;
  };
  const std::vector<Tensor>& tensors() const { return tensors_; }
  const std::vector<Table>& tables() const { return tables_; }
  const std::vector<Io>& io_states() const { return io_states_; }
  const std::vector<Extra>& extras() const { return extras_; }

 private:
  absl::Status Register(const std::string& name, bool is_null);
  absl::Status AddExtra(std::string name, bool is_null,
                        std::function<absl::StatusOr<std::string>()> save,
                        std::function<absl::Status(absl::string_view)> load);

  std::set<std::string> names_;
  std::vector<Tensor> tensors_;
  std::vector<Table> tables_;
  std::vector<Io> io_states_;
  std::vector<Extra> extras_;
};

// Return the names of the blobs in which a step holds them.
std::string IoStateBlob(absl::string_view name);
std::string ExtraBlob(absl::string_view name);

}  // namespace ckptdb

#endif  // CKPTDB_MANAGER_MODEL_STATE_H_
