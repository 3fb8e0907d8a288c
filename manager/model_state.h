// What a rank saves and restores, registered once.
//
//   ModelState model;
//   CKPTDB_RETURN_IF_ERROR(
//       model.AddTensor("mlp.0.weight", TensorState::Of(weights, {3, 4})));
//   CKPTDB_RETURN_IF_ERROR(
//       model.AddTable("user", &user_table, TableSharding::BySlices()));
//   CKPTDB_RETURN_IF_ERROR(model.AddIoState("reader", &reader));
//   CKPTDB_RETURN_IF_ERROR(model.AddValue("epoch", &epoch));
//
// All ranks register the same names. Errors of registration: AlreadyExists for
// a name that is there, InvalidArgument for one that is reserved or cannot be
// stored. What is registered stays where it is as long as the manager lives.
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

// A dense tensor, row-major and contiguous, in host memory.
struct TensorState {
  DType dtype = DType::kF32;
  Shape shape;
  void* data = nullptr;
  // The tensor of which this is this rank's shard, and where it begins; empty:
  // the tensor is whole, the same on all ranks, and the owner saves it.
  Shape global_shape = {};
  Shape offset = {};
  Codec codec = Codec::kNone;

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

// A sparse table of the trainer: see manager/tables.h for ready ones, in maps
// and arrays. Called from the thread that calls the manager.
class TableState {
 public:
  virtual ~TableState() = default;

  virtual std::vector<Slot> slots() const = 0;
  virtual SliceHash slice_hash() const { return SliceHash::kModulo; }

  // All rows of this rank, or those of `ids`, where the table has them. The
  // source is used until the table may change again, and `ids` stay as long.
  // Rows of one array are best given as one block that says where they lie, in
  // the order of memory. Internal when a row of `ids` is not there: somebody
  // marked it without making it.
  virtual absl::StatusOr<std::unique_ptr<RowSource>> AllRows() const = 0;
  virtual absl::StatusOr<std::unique_ptr<RowSource>> RowsOf(
      absl::Span<const int64_t> ids) const = 0;

  // Those of slots() that are the optimizer's: a model that is only used can do
  // without them.
  virtual std::vector<std::string> optimizer_slots() const { return {}; }

  // Takes the rows of a restore, with these of the slots, in this order; values
  // of the others stay, and are the trainer's to choose in new rows. Null when
  // the table cannot take them so.
  virtual LiveTable* Live(absl::Span<const std::string> slots) = 0;

  // Where changed rows are marked; null: every save of it is whole.
  virtual ChangeTracker* tracker() { return nullptr; }

  // What is wrong with how the table was made; ModelState::AddTable returns it.
  virtual absl::Status status() const { return absl::OkStatus(); }
};

// The position of a rank in its input, or the like.
class IoState {
 public:
  virtual ~IoState() = default;
  virtual absl::StatusOr<std::string> Dump() = 0;
  // What this rank dumped, in a world of the same size.
  virtual absl::Status Load(absl::string_view bytes) = 0;
  // What all ranks of a world of another size dumped, by rank. Default:
  // Unimplemented.
  virtual absl::Status Redistribute(absl::Span<const std::string> parts);
};

class ModelState {
 public:
  // Anything that turns into bytes; the owner's is saved, and all ranks load
  // it.
  class Object {
   public:
    virtual ~Object() = default;
    virtual absl::StatusOr<std::string> Save() = 0;
    virtual absl::Status Load(absl::string_view bytes) = 0;
  };

  absl::Status AddTensor(std::string name, TensorState tensor);
  // `sharding` says which rank has which rows: in a world of several ranks it,
  // or ManagerOptions::sharding for all tables, has to be declared.
  absl::Status AddTable(std::string name, TableState* table,
                        TableSharding sharding = {});
  absl::Status AddIoState(std::string name, IoState* io);
  absl::Status AddObject(std::string name, Object* object);
  // The owner's is saved, and all ranks load it. NaN and all bytes of a string
  // come back as they were.
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

// The blobs in which a step holds them.
std::string IoStateBlob(absl::string_view name);
std::string ExtraBlob(absl::string_view name);

// What to load from where: several stores laid over one another.
//
//   [{"path": "base", "load": ["sparse", "dense"], "exclude": ["head.*"]},
//    {"path": "tuned", "step": 7000, "load": ["user"],
//     "oname": {"user": "member"}, "hashtable_clear": false}]
//
//   CKPTDB_ASSIGN_OR_RETURN(std::vector<LoadRule> rules, ParseLoadSpec(json));
//   CKPTDB_ASSIGN_OR_RETURN(LoadSummary dry, manager->Load(rules,
//                                                          /*dry_run=*/true));
//
// A rule takes from one step what its patterns choose of what is registered;
// later rules load over earlier ones. A pattern is a category, or a glob over
// names in which "*" stands for any characters and "?" for one.
//
// | category | what |
// |---|---|
// | sparse | tables; their slots but those of the optimizer |
// | sparse_opt | the slots of the optimizer, of the tables that are loaded |
// | dense | tensors |
// | extra | objects and values |
// | io_state | io states |
// | * | everything |
//
// A name chooses a table with all its slots.
//
// What has another dtype in the step than registered does not fit, unless the
// rule says `cast`: then a tensor of the same shape, and a slot of the same
// name and number of elements, is converted as CastElements has it. Floats
// become no integers; that does not fit. A number that an integer dtype does
// not have is OutOfRange naming it and its place, found while it is loaded:
// what was loaded before it stays, and as after any error of a load the model
// must not be used before one has succeeded. A cast takes memory besides the
// model's: of a tensor up to 8 MiB, and of a table the rows of a batch in the
// new dtype, for each of ReadOptions::threads.
struct LoadRule {
  std::string path = {};                       // empty: the manager's own store
  std::optional<int64_t> step = std::nullopt;  // none: the one saved last
  std::vector<std::string> load = {"*"};
  std::vector<std::string> exclude = {};  // of what `load` chooses
  // By registered name, the name in the step.
  std::map<std::string, std::string> oname = {};
  // What is missing or does not fit is an error, and so is a pattern of `load`
  // that is no category, and matches nothing registered.
  bool strict = true;
  bool hashtable_clear = true;  // else rows are merged into the tables
  bool cast = false;            // another dtype is converted, where it can be
  bool is_dynamic = true;       // off: only while the own store has no step
  bool ignore_error = false;    // an error stands in the summary alone
  bool skip = false;            // the rule does nothing
};

// InvalidArgument naming the rule, the key, what is wrong with it, line and
// column; for an unknown key, with the one that may have been meant.
absl::StatusOr<std::vector<LoadRule>> ParseLoadSpec(absl::string_view json);

}  // namespace ckptdb

#endif  // CKPTDB_MANAGER_MODEL_STATE_H_
