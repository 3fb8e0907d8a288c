// What a rank saves: tensors, tables and blobs under names, in the caller's
// own memory.
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
// when it has no elements.
struct TensorView {
  DType dtype = DType::kF32;
  Shape shape;
  const void* data = nullptr;
  // The tensor of which this is a shard, and where the shard begins in it;
  // empty: the tensor is whole.
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
  // The values of one slot for the rows of a block: one is at data, each next
  // one stride_bytes on.
  struct Column {
    const void* data = nullptr;
    uint64_t stride_bytes = 0;
    // For rows that lie anywhere, such as the nodes of a hash map: the values
    // of ids[i] are at places[i] + offset_bytes, and `data` and `stride_bytes`
    // are not read. Has a place for each id of the block, none of them null.
    // Empty: `data` counts.
    absl::Span<const void* const> places = {};
    uint64_t offset_bytes = 0;

    // The values of the row at `row`, as RowBlock::RowAt has it.
    const char* At(uint64_t row) const {
      return places.empty()
                 ? static_cast<const char*>(data) + row * stride_bytes
                 : static_cast<const char*>(places[row]) + offset_bytes;
    }
  };

  absl::Span<const int64_t> ids;
  absl::Span<const Column> slots;
  // Where they lie: the values of ids[i] are at data + rows[i] * stride_bytes.
  // Empty: one after the other, at data + i * stride_bytes. Some rows of a
  // large array are one block like this, and copied faster than as a block
  // each. Empty, too, where a slot has places.
  absl::Span<const uint32_t> rows = {};

  uint64_t RowAt(uint64_t i) const { return rows.empty() ? i : rows[i]; }
};
inline constexpr uint64_t kMaxBlockRows = uint64_t{1} << 32;
inline constexpr uint64_t kMaxBlocks = uint64_t{1} << 32;

// The rows of a table as the trainer holds them: in blocks, in any order, no
// id twice in all. Staging never copies the values as a whole: it keeps 16
// bytes a row, and gathers from the blocks page by page.
class RowSource {
 public:
  class Arrays;

  virtual ~RowSource() = default;
  virtual uint64_t block_count() const = 0;
  // `block` is below block_count(). Asked for several times and from several
  // threads; what the answer points to stays, unchanged, until staging
  // returns.
  virtual absl::StatusOr<RowBlock> Block(uint64_t block) const = 0;
};

// Rows in one array of ids and one of values for each slot; `rows` as in
// RowBlock. The arrays of ids and rows stay the caller's.
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

// How the rows of a table are divided among the ranks of a training: declared
// where the table is added, checked for every row when it is staged, recorded
// in the step, and used by restores.
//
//   state.AddTable({.name = "user", .slots = slots, .rows = &rows,
//                   .sharding = TableSharding::ByModulo()});
//
// Choose BySlices where you can: a rank that restores reads the bytes of its
// own slices, on any number of ranks. By any other rule it reads the ids of all
// rows, and the pages that have any of its own.
class TableSharding {
 public:
  // The rank that has an id in a world of so many: below `world_size`, and the
  // same in every process. Called from several threads at once.
  using RankOf = std::function<uint32_t(int64_t id, uint32_t world_size)>;

  // Nothing is declared. A save of one rank needs nothing; of several ranks
  // SaveSpec::slice_bounds declare slices, and without them staging refuses
  // the table.
  TableSharding() = default;

  // Rank r has the ids of slices [bounds[r], bounds[r + 1]): see SliceOf, with
  // the table's SliceHash. Without bounds a manager takes EvenSliceBounds, and
  // a stager those of SaveSpec::slice_bounds, which a save by slices of several
  // ranks has to have. The tables of one step have the same bounds.
  static TableSharding BySlices(std::vector<uint32_t> bounds = {});

  // Rank uint64(id) % world_size has an id. That is also so for negative ids:
  // of 3 ranks, rank 0 has -1, as 2^64 - 1 is a multiple of 3, where the
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
  // an id that two ranks upsert is found by StepReader::Verify alone. Recorded
  // as undeclared. Managers refuse it, as they could not restore it.
  static TableSharding Unchecked();

  // False of what the default constructor makes.
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

// What to declare, for messages about a table that declares nothing.
inline constexpr char kShardingChoices[] =
    "TableSharding::BySlices(), ByModulo(), ByFunction(name, rank_of) or "
    "Replicated()";

namespace internal {

// InvalidArgument: a function without a name or a name that cannot be stored, a
// function that is null, bounds that do not rise from 0 to kSlices in
// `world_size` ranges.
absl::Status CheckSharding(const TableSharding& sharding, uint32_t world_size);

}  // namespace internal

class RankState {
 public:
  struct Tensor {
    std::string name;
    TensorView view;
    Codec codec = Codec::kNone;
  };

  // What became of a table since the step that a save goes on from: the rows
  // that are new or have changed, each whole, and the ids that are gone. No id
  // is in both. An id that the parent does not have may be erased all the same.
  struct Changes {
    const RowSource* upserted = nullptr;  // null: no rows
    absl::Span<const int64_t> erased = {};
  };

  struct Table {
    std::string name;
    std::vector<Slot> slots;
    // All rows; may be null when `changes` are given.
    const RowSource* rows = nullptr;
    SliceHash slice_hash = SliceHash::kModulo;
    std::optional<Changes> changes = std::nullopt;
    // Why `changes` will not do although they are given, such as a tracker that
    // ran over its bound; empty: they do.
    std::string base_reason = {};
    // How its rows are divided among ranks, which staging checks row by row. To
    // be declared in a save of several ranks, unless SaveSpec::slice_bounds do.
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
  // A slot's codec counts for its pages; ids are stored under kAuto.
  void AddTable(std::string name, std::vector<Slot> slots,
                const RowSource* rows,
                SliceHash slice_hash = SliceHash::kModulo,
                TableSharding sharding = {}) {
    Table table{std::move(name), std::move(slots), rows, slice_hash};
    table.sharding = std::move(sharding);
    tables_.push_back(std::move(table));
  }
  // Of a table with the changes since SaveSpec::parent, only those are written:
  // a delta run. Where they do not do, because the save has no parent, or the
  // parent has no such table or other slots, or `base_reason` says so, all of
  // `rows` are, and the reason is kept in the item. FailedPrecondition then
  // when `rows` is null. All ranks must come to the same.
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

// The right of one rank to stage its part of one attempt: from Store::Begin, as
// an object within the process, or as bytes to another one.
class Ticket {
 public:
  // A ticket of no store, which Stage refuses.
  Ticket();
  explicit Ticket(internal::TicketRecord record);

  // DataLoss for bytes that are no ticket, or a damaged one;
  // FailedPrecondition for one of a newer format.
  static absl::StatusOr<Ticket> Decode(absl::string_view bytes);
  absl::StatusOr<std::string> Encode() const;

  const Version& version() const;
  uint32_t rank() const;
  uint32_t world_size() const;
  // The slices of this rank; none when any rank may have any row.
  std::optional<SliceRange> slices() const;
  // For the library alone. To change a record that copies share copies it.
  const internal::TicketRecord& record() const { return *record_; }
  internal::TicketRecord& record();

 private:
  std::shared_ptr<internal::TicketRecord> record_;
};

// All that one rank contributes to a save, as Stage returns it: its files, or
// the entries of a small save, and their record. Goes to Store::Publish, as an
// object within the process, or as bytes from another one. Copies are cheap.
class StagedRank {
 public:
  // A part of no save, which Publish refuses.
  StagedRank();
  explicit StagedRank(internal::StagedRecord record);

  // As those of Ticket.
  static absl::StatusOr<StagedRank> Decode(absl::string_view bytes);
  absl::StatusOr<std::string> Encode() const;

  const Version& version() const;
  uint32_t rank() const;
  bool operator==(const StagedRank& other) const;
  // For the library alone. To change a record that copies share copies it.
  const internal::StagedRecord& record() const { return *record_; }
  internal::StagedRecord& record();

 private:
  std::shared_ptr<internal::StagedRecord> record_;
};

// Staging: a rank writes its part of a save, from any thread of any process
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
// Memory beyond the caller's: 16 bytes a row of all tables, plus about 6 MiB
// a worker, plus at most InlineShareBytes.
//
// Errors: InvalidArgument for anything wrong with `state` (a name, a shape, a
// limit, an id that is there twice, a table of several ranks that declares no
// sharding, an id that belongs to another rank by the declared one);
// ResourceExhausted, with bytes needed and free, when the disk has no room;
// Unavailable for other I/O errors. After an error the files of this rank are
// gone or will be with the attempt: see Store::Abandon.
absl::StatusOr<StagedRank> Stage(absl::string_view store_path,
                                 const Ticket& ticket, const RankState& state,
                                 const StageOptions& options = {});

namespace internal {

// Memory for copies of the last part of a state, with which the caller's memory
// may change before all of it is written.
struct StageCopies {
  char* memory = nullptr;
  uint64_t bytes = 0;
  // Called once, by some thread, when the values of tensors, rows and blobs
  // that were not copied have been read for the last time; not when staging
  // fails before that.
  std::function<void(uint64_t copied_bytes)> on_read = {};
};

// As Stage: the last entries in the order of writing are copied first, as many
// as there is memory for.
absl::StatusOr<StagedRank> StageWithCopies(absl::string_view store_path,
                                           const Ticket& ticket,
                                           const RankState& state,
                                           const StageOptions& options,
                                           const StageCopies& copies);

}  // namespace internal

}  // namespace ckptdb

#endif  // CKPTDB_DB_STATE_H_
