// The state that a rank saves: tensors, tables and blobs under names, in the
// caller's own memory.
//
//   std::vector<float> weights(12);
//   RankState state;
//   state.AddTensor("mlp.0.weight",
//                   TensorView::Of(weights.data(), {3, 4}));
//   state.AddBlob("reader", position_bytes);
//   RowSource::Arrays rows(ids, {{embeddings.data(), 16 * 4},
//                             {adagrad.data(), 16 * 4}});
//   state.AddTable("user", {{"embedding", DType::kF32, 16},
//                           {"adagrad_sum", DType::kF32, 16}}, &rows);
//
// Nothing is copied and nothing is checked here: staging does both, and says
// what is wrong. The memory must stay as it is until staging returns.
#ifndef CKPTDB_DB_STATE_H_
#define CKPTDB_DB_STATE_H_

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
#include "ckptdb/db/options.h"
#include "ckptdb/schema/types.h"

namespace ckptdb {
namespace internal {
struct EncodedRows;

template <typename T>
struct DTypeOf;
template <>
struct DTypeOf<double> {
  static constexpr DType kValue = DType::kF64;
};
template <>
struct DTypeOf<float> {
  static constexpr DType kValue = DType::kF32;
};
template <>
struct DTypeOf<int64_t> {
  static constexpr DType kValue = DType::kI64;
};
template <>
struct DTypeOf<int32_t> {
  static constexpr DType kValue = DType::kI32;
};
template <>
struct DTypeOf<int16_t> {
  static constexpr DType kValue = DType::kI16;
};
template <>
struct DTypeOf<int8_t> {
  static constexpr DType kValue = DType::kI8;
};
template <>
struct DTypeOf<uint64_t> {
  static constexpr DType kValue = DType::kU64;
};
template <>
struct DTypeOf<uint32_t> {
  static constexpr DType kValue = DType::kU32;
};
template <>
struct DTypeOf<uint16_t> {
  static constexpr DType kValue = DType::kU16;
};
template <>
struct DTypeOf<uint8_t> {
  static constexpr DType kValue = DType::kU8;
};
template <>
struct DTypeOf<bool> {
  static constexpr DType kValue = DType::kBool;
};
}  // namespace internal

// A dense tensor, row-major and contiguous, in host memory. `data` may be null
// if it has no elements.
struct TensorView {
  DType dtype = DType::kF32;
  Shape shape;
  const void* data = nullptr;
  // The shape of the tensor of which this is a shard, and the position of the
  // shard in it. Both are empty if the tensor is whole.
  Shape global_shape;
  Shape offset;

  template <typename T>
  static TensorView Of(const T* data, Shape shape) {
    return {internal::DTypeOf<T>::kValue, std::move(shape), data, {}, {}};
  }
};

// Some rows of a table: ids.size() of them, at most kMaxBlockRows, and one
// Column for each slot.
struct RowBlock {
  // The values of one slot for the rows of a block: the first is at data, each
  // next one stride_bytes after it.
  struct Column {
    const void* data = nullptr;
    uint64_t stride_bytes = 0;
    // Addresses of rows that are not in one array, such as the nodes of a hash
    // map: the values of ids[i] are at places[i] + offset_bytes, and `data` and
    // `stride_bytes` are not read. There is one for each id of the block, and
    // none is null. If it is empty, `data` is used.
    absl::Span<const void* const> places = {};
    uint64_t offset_bytes = 0;
    // Rows that a device of this library has put under the lossy codec of the
    // slot already, in all blocks of the source or in none; nothing else of the
    // column is read then. Null for a trainer's own source.
    const internal::EncodedRows* encoded = nullptr;

    // Returns the values of the row at `row`, which RowBlock::RowAt returns.
    const char* At(uint64_t row) const {
      return places.empty()
                 ? static_cast<const char*>(data) + row * stride_bytes
                 : static_cast<const char*>(places[row]) + offset_bytes;
    }
  };

  absl::Span<const int64_t> ids;
  absl::Span<const Column> slots;
  // Row numbers: the values of ids[i] are at data + rows[i] * stride_bytes. If
  // it is empty, they are one after the other, at data + i * stride_bytes. Some
  // rows of a large array can so be one block, which is copied faster than a
  // block for each. It is also empty if a slot has places.
  absl::Span<const uint32_t> rows = {};

  uint64_t RowAt(uint64_t i) const { return rows.empty() ? i : rows[i]; }
};
inline constexpr uint64_t kMaxBlockRows = uint64_t{1} << 32;
inline constexpr uint64_t kMaxBlocks = uint64_t{1} << 32;

// The rows of a table as the trainer holds them: in blocks, in any order, each
// id at most once. Staging never copies the values as a whole: it keeps 16
// bytes a row, and gathers from the blocks page by page.
class RowSource {
 public:
  class Arrays;

  virtual ~RowSource() = default;
  virtual uint64_t block_count() const = 0;
  // Returns a block; `block` is below block_count(). It is called several times
  // and by several threads. What the block points to stays unchanged until
  // staging returns.
  virtual absl::StatusOr<RowBlock> Block(uint64_t block) const = 0;
};

// A source of rows in one array of ids and one of values for each slot; `rows`
// is that of RowBlock. The arrays of ids and rows stay the caller's.
class RowSource::Arrays : public RowSource {
 public:
  Arrays(absl::Span<const int64_t> ids, std::vector<RowBlock::Column> slots,
         absl::Span<const uint32_t> rows = {})
      : ids_(ids), slots_(std::move(slots)), rows_(rows) {}
  uint64_t block_count() const override { return 1; }
  absl::StatusOr<RowBlock> Block(uint64_t) const override {
    return RowBlock{ids_, slots_, rows_};
  }

 private:
  absl::Span<const int64_t> ids_;
  std::vector<RowBlock::Column> slots_;
  absl::Span<const uint32_t> rows_;
};

// The rule by which the rows of a table are divided among the ranks of a
// training. It is declared where the table is added, checked for every row when
// it is staged, recorded in the step, and used by restores.
//
//   state.AddTable({.name = "user", .slots = slots, .rows = &rows,
//                   .sharding = TableSharding::ByModulo()});
//
// Choose BySlices where you can: a rank that restores reads the bytes of its
// own slices, on any number of ranks. By any other rule it reads the ids of all
// rows, and the pages that have any of its own.
class TableSharding {
 public:
  // Returns the rank that has an id, below `world_size` and the same in every
  // process. Several threads call it at once.
  using RankOf = std::function<uint32_t(int64_t id, uint32_t world_size)>;

  // Declares nothing. A save of one rank needs nothing. In a save of several
  // ranks SaveSpec::slice_bounds declare slices, and without them staging
  // refuses the table.
  TableSharding() = default;

  // Rank r has the ids of slices [bounds[r], bounds[r + 1]): see SliceOf, with
  // the table's SliceHash. Without bounds a manager takes EvenSliceBounds, and
  // a stager those of SaveSpec::slice_bounds, which a save by slices of several
  // ranks has to have. The tables of one step have the same bounds.
  static TableSharding BySlices(std::vector<uint32_t> bounds = {});

  // Rank uint64(id) % world_size has an id. That also holds for negative ids:
  // with 3 ranks, rank 0 has -1, as 2^64 - 1 is a multiple of 3, while the
  // remainder of the signed number would be -1.
  static TableSharding ByModulo();

  // Rank rank_of(id, world_size) has an id. The name is recorded: a manager
  // whose function has another name does not restore the step. Give a function
  // that places ids otherwise another name.
  static TableSharding ByFunction(std::string name, RankOf rank_of);

  // All ranks have the same rows. Rank 0 saves them, the rows of others are not
  // read, and each rank restores all.
  static TableSharding Replicated();

  // An id is on any one rank, and may move: its new rank upserts it in the save
  // in which its old rank erases it. Nothing is checked when it is saved, and
  // only StepReader::Verify finds an id that two ranks upsert. It is recorded
  // as undeclared. Managers refuse it, as they could not restore it.
  static TableSharding Unchecked();

  // Returns false for a value of the default constructor.
  bool declared() const { return declared_; }
  Item::Sharding kind() const { return kind_; }
  const std::string& name() const { return name_; }
  const std::vector<uint32_t>& bounds() const { return bounds_; }
  const RankOf& rank_of() const { return rank_of_; }

 private:
  explicit TableSharding(Item::Sharding kind, std::string name = {},
                         std::vector<uint32_t> bounds = {},
                         RankOf rank_of = {});

  bool declared_ = false;
  Item::Sharding kind_ = Item::Sharding::kUndeclared;
  std::string name_;
  std::vector<uint32_t> bounds_;
  RankOf rank_of_;
};

// The choices that messages about a table without a declaration name.
inline constexpr char kShardingChoices[] =
    "TableSharding::BySlices(), ByModulo(), ByFunction(name, rank_of) or "
    "Replicated()";

namespace internal {

// Returns InvalidArgument for a function without a name or with one that cannot
// be stored, for a function that is null, and for bounds that do not rise from
// 0 to kSlices in `world_size` ranges.
absl::Status CheckSharding(const TableSharding& sharding, uint32_t world_size);

}  // namespace internal

class RankState {
 public:
  struct Tensor {
    std::string name;
    TensorView view;
    Codec codec = Codec::kNone;
  };

  // The changes of a table since the parent of a save: the rows that are new or
  // have changed, each whole, and the ids that are gone. No id is in both. An
  // id that the parent does not have may be erased all the same.
  struct Changes {
    const RowSource* upserted = nullptr;  // null: no rows
    absl::Span<const int64_t> erased = {};
  };

  struct Table {
    std::string name;
    std::vector<Slot> slots;
    // All rows. It may be null if `changes` are given.
    const RowSource* rows = nullptr;
    SliceHash slice_hash = SliceHash::kModulo;
    std::optional<Changes> changes = std::nullopt;
    // The reason to write a full table although `changes` are given, such as a
    // tracker that went over its bound. Empty if there is none.
    std::string base_reason = {};
    // The rule by which its rows are divided among ranks, which staging checks
    // row by row. A save of several ranks requires it, unless
    // SaveSpec::slice_bounds is set.
    TableSharding sharding = {};
  };
  struct Blob {
    std::string name;
    absl::string_view bytes;
    Codec codec = Codec::kNone;
  };

  void AddTensor(std::string name, TensorView view,
                 Codec codec = Codec::kNone) {
    tensors_.push_back({std::move(name), std::move(view), codec});
  }
  // Adds a table. The codec of a slot is used for its pages; ids are stored
  // under kAuto.
  void AddTable(std::string name, std::vector<Slot> slots,
                const RowSource* rows,
                SliceHash slice_hash = SliceHash::kModulo,
                TableSharding sharding = {}) {
    Table table{std::move(name), std::move(slots), rows, slice_hash};
    table.sharding = std::move(sharding);
    tables_.push_back(std::move(table));
  }
  // Adds a table. If it has the changes since SaveSpec::parent, only those are
  // written, as a delta run. If the save has no parent, if the parent has no
  // such table or has it with other slots, or if `base_reason` is set, all of
  // `rows` are written, and the reason is kept in the item; staging then
  // returns FailedPrecondition if `rows` is null. All ranks must make the same
  // choice.
  void AddTable(Table table) { tables_.push_back(std::move(table)); }
  void AddBlob(std::string name, absl::string_view bytes,
               Codec codec = Codec::kNone) {
    blobs_.push_back({std::move(name), bytes, codec});
  }

  const std::vector<Tensor>& tensors() const { return tensors_; }
  const std::vector<Table>& tables() const { return tables_; }
  const std::vector<Blob>& blobs() const { return blobs_; }

 private:
  std::vector<Tensor> tensors_;
  std::vector<Table> tables_;
  std::vector<Blob> blobs_;
};

namespace internal {
struct TicketRecord;
struct StagedRecord;
}  // namespace internal

// The right of one rank to stage its part of one attempt. Store::Begin returns
// it; it is passed on as an object within the process, or as bytes to another
// one.
class Ticket {
 public:
  // Makes an invalid ticket, which Stage refuses.
  Ticket();
  explicit Ticket(internal::TicketRecord record);

  // Returns DataLoss for bytes that are not a ticket or are damaged, and
  // FailedPrecondition for a ticket of a newer format.
  static absl::StatusOr<Ticket> Decode(absl::string_view bytes);
  absl::StatusOr<std::string> Encode() const;

  const Version& version() const;
  uint32_t rank() const;
  uint32_t world_size() const;
  // Returns the slices of this rank, or nothing if any rank may have any row.
  std::optional<SliceRange> slices() const;
  // These are for the library alone. Changing a record that copies share copies
  // it first.
  const internal::TicketRecord& record() const { return *record_; }
  internal::TicketRecord& record();

 private:
  std::shared_ptr<internal::TicketRecord> record_;
};

// The part of one rank in a save, as Stage returns it: its files, or the
// entries of a small save, and their record. It is passed to Store::Publish, as
// an object within the process, or as bytes from another one. Copies are cheap.
class StagedRank {
 public:
  // Makes an invalid part, which Publish refuses.
  StagedRank();
  explicit StagedRank(internal::StagedRecord record);

  // These return the errors of Ticket.
  static absl::StatusOr<StagedRank> Decode(absl::string_view bytes);
  absl::StatusOr<std::string> Encode() const;

  const Version& version() const;
  uint32_t rank() const;
  bool operator==(const StagedRank& other) const;
  // These are for the library alone. Changing a record that copies share copies
  // it first.
  const internal::StagedRecord& record() const { return *record_; }
  internal::StagedRecord& record();

 private:
  std::shared_ptr<internal::StagedRecord> record_;
};

// Stages a part of a save: a rank writes it, from any thread of any process
// that sees the store's folder.
//
//   CKPTDB_ASSIGN_OR_RETURN(Ticket ticket, Ticket::Decode(bytes_from_owner));
//   CKPTDB_ASSIGN_OR_RETURN(StagedRank staged,
//                           Stage(store_path, ticket, state));
//   CKPTDB_ASSIGN_OR_RETURN(std::string bytes, staged.Encode());
//   send_to_owner(bytes);
//
// Checks `state`, writes its data files below the ticket's staging folder, and
// makes them durable; nothing of them is visible before the owner publishes.
// A part whose entries, with keys and headers and before codecs, come to at
// most InlineShareBytes of the world size is not written to files: its bytes
// come back in the StagedRank. A tensor or blob that the parent has with the
// same bytes comes back as a reference to the parent's.
//
// Beyond the caller's memory it takes 16 bytes for each row of all tables,
// about 6 MiB for each worker, and at most InlineShareBytes.
//
// Returns InvalidArgument for an invalid `state` (a name, a shape, a limit, a
// duplicate id, a table of several ranks without a declared sharding, an id
// that belongs to another rank); ResourceExhausted, with the bytes needed and
// free, if the disk has no room; and Unavailable for other I/O errors. After an
// error the files of this rank are gone or will be with the attempt: see
// Store::Abandon.
absl::StatusOr<StagedRank> Stage(absl::string_view store_path,
                                 const Ticket& ticket, const RankState& state,
                                 const StageOptions& options = {});

namespace internal {

// Memory for copies of the last part of a state, with which the caller's memory
// may change before all of it is written.
struct StageCopies {
  char* memory = nullptr;
  uint64_t bytes = 0;
  // Called once, by some thread, after the last read of values of tensors, rows
  // and blobs that were not copied. It is not called if staging fails before
  // that.
  std::function<void(uint64_t copied_bytes)> on_read = {};
};

// Does what Stage does, but copies the last entries in the order of writing
// first, as many as there is memory for.
absl::StatusOr<StagedRank> StageWithCopies(absl::string_view store_path,
                                           const Ticket& ticket,
                                           const RankState& state,
                                           const StageOptions& options,
                                           const StageCopies& copies);

}  // namespace internal

}  // namespace ckptdb

#endif  // CKPTDB_DB_STATE_H_
