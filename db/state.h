// SPDX-License-Identifier: Apache-2.0
// The state that a rank saves: tensors, tables and blobs under names, in the
// caller's memory, which stays unchanged until staging returns. Nothing is
// copied or checked here: staging does both.
//
//   std::vector<float> weights(12);
//   RankState state;
//   state.AddTensor("mlp.0.weight",
//                   TensorView::Of(weights.data(), {3, 4}));
//   state.AddBlob("reader", position_bytes);
//   RowSource::Arrays rows(ids, {{embeddings.data(), 16 * 4},
//                                {adagrad.data(), 16 * 4}});
//   state.AddTable("user", {{"embedding", DType::kF32, 16},
//                           {"adagrad_sum", DType::kF32, 16}}, &rows);
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
#include "db/internal/dtype_of.h"
#include "db/options.h"
#include "schema/types.h"

namespace ckptdb {

namespace internal {
struct StagedRecord;
struct StateBlob;
struct StateTensor;
struct TicketRecord;
}  // namespace internal

// A dense, row-major tensor in host memory. If it is empty `data` may be null.
struct TensorView {
  DType dtype = DType::kF32;
  Shape shape;
  const void* data = nullptr;
  // The whole tensor's shape and the shard's offset in it. Empty if this is the
  // whole tensor.
  Shape global_shape;
  Shape offset;
  template <typename T>
  static TensorView Of(const T* data, Shape shape) {
    return {internal::DTypeOf<T>::kValue, std::move(shape), data, {}, {}};
  }
};

// Rows of a table: at most kMaxBlockRows ids, and their values of each slot.
struct RowBlock {
  // The values of one slot: the first at `data`, the next `stride_bytes` apart.
  struct SlotValues {
    const void* data = nullptr;
    uint64_t stride_bytes = 0;
    // Addresses of rows that are not in one array, such as nodes of a hash map:
    // the values of ids[i] are at places[i] + offset_bytes, and the fields
    // above are not used. Empty, or one for each id, none null.
    absl::Span<const void* const> places = {};
    uint64_t offset_bytes = 0;
    // The values of the row with this number, from RowAt.
    const char* At(uint64_t row) const {
      return places.empty()
                 ? static_cast<const char*>(data) + row * stride_bytes
                 : static_cast<const char*>(places[row]) + offset_bytes;
    }
  };

  absl::Span<const int64_t> ids;
  absl::Span<const SlotValues> slots;
  // The values of ids[i] are at data + rows[i] * stride_bytes, so that
  // scattered rows of an array form one block, which is faster than one block
  // each. If empty, as it must be with `places`, ids[i] is at number i.
  absl::Span<const uint32_t> rows = {};
  uint64_t RowAt(uint64_t i) const { return rows.empty() ? i : rows[i]; }
};
inline constexpr uint64_t kMaxBlockRows = uint64_t{1} << 32;
inline constexpr uint64_t kMaxBlocks = uint64_t{1} << 32;

// The rows of a table in the trainer's memory: blocks in any order, each id at
// most once. Staging keeps 16 bytes per row, and copies values page by page.
class RowSource {
 public:
  class Arrays;

  virtual ~RowSource() = default;
  virtual uint64_t block_count() const = 0;
  // Called several times and by several threads. The memory stays unchanged
  // until staging returns.
  virtual absl::StatusOr<RowBlock> Block(uint64_t block) const = 0;
};

// One block, in arrays of the caller.
class RowSource::Arrays : public RowSource {
 public:
  Arrays(absl::Span<const int64_t> ids, std::vector<RowBlock::SlotValues> slots,
         absl::Span<const uint32_t> rows = {})
      : ids_(ids), slots_(std::move(slots)), rows_(rows) {}
  uint64_t block_count() const override { return 1; }
  absl::StatusOr<RowBlock> Block(uint64_t) const override {
    return RowBlock{ids_, slots_, rows_};
  }

 private:
  absl::Span<const int64_t> ids_;
  std::vector<RowBlock::SlotValues> slots_;
  absl::Span<const uint32_t> rows_;
};

// Which rank holds which rows of a table. Declared where the table is added,
// checked for every row when it is staged, recorded in the step, and used by
// restores. Prefer BySlices: a restoring rank reads only the bytes of its
// slices, on any number of ranks. Otherwise it reads all ids, and the pages
// with its rows.
//
//   state.AddTable({.name = "user", .slots = slots, .rows = &rows,
//                   .sharding = TableSharding::ByModulo()});
class TableSharding {
 public:
  // Declares nothing, which is enough for one rank. With several,
  // SaveSpec::slice_bounds apply, or staging refuses the table.
  TableSharding() = default;

  // Rank r holds the ids of slices [bounds[r], bounds[r + 1]): see SliceOf. The
  // same for all tables of a step. Without bounds a manager uses
  // EvenSliceBounds, and staging requires SaveSpec::slice_bounds.
  static TableSharding BySlices(std::vector<uint32_t> bounds = {});

  // Rank uint64(id) % world_size holds the id, also a negative one.
  static TableSharding ByModulo();

  // Rank r holds the ids [bounds[r], bounds[r + 1]), or of ids 0 to rows - 1
  // the r-th part, each of which has rows / world_size rows, rounded up, and
  // the last ones fewer or none. Other ids are no rank's, and InvalidArgument.
  static TableSharding ByRange(std::vector<int64_t> bounds);
  static TableSharding ByRange(int64_t rows);

  // Rank rank_of(id, world_size) holds the id: below world_size and the same in
  // every process. Several threads call it. The name is recorded; a manager
  // whose function has another name does not restore the step, so rename a
  // function that changes.
  static TableSharding ByFunction(
      std::string name,
      std::function<uint32_t(int64_t id, uint32_t world_size)> rank_of);

  // The same for a function whose calls are expensive, such as one of another
  // language: it sets ranks[i] to the rank of ids[i], for thousands of ids.
  static TableSharding ByBatchFunction(
      std::string name,
      std::function<void(absl::Span<const int64_t> ids, uint32_t world_size,
                         absl::Span<uint32_t> ranks)>
          ranks_of);

  // All ranks hold the same rows. Rank 0 saves them, and all restore them.
  static TableSharding Replicated();

  // Each id is on one rank and may move: the new rank upserts it in the save in
  // which the old one erases it. Not checked by staging, but by
  // StepReader::Verify. Recorded as undeclared, and refused by managers, which
  // could not restore it.
  static TableSharding Unchecked();

  // False for a default-constructed value.
  bool declared() const { return declared_; }
  Item::Sharding kind() const { return kind_; }
  const std::string& name() const { return name_; }
  const std::vector<uint32_t>& bounds() const { return bounds_; }
  // Set by ByRange. Without bounds, `rows` are split evenly.
  const std::vector<int64_t>& id_bounds() const { return id_bounds_; }
  int64_t rows() const { return rows_; }
  // The first id of a rank's range, and the one after its last.
  std::pair<int64_t, int64_t> RangeOf(uint32_t rank, uint32_t world_size) const;
  const std::function<uint32_t(int64_t id, uint32_t world_size)>& rank_of()
      const {
    return rank_of_;
  }
  // Both are set for either kind of function, and for ranges.
  const auto& ranks_of() const { return ranks_of_; }

 private:
  explicit TableSharding(Item::Sharding kind, std::string name = {},
                         std::vector<uint32_t> bounds = {});
  void SetRankOf(std::function<uint32_t(int64_t, uint32_t)> rank_of);

  bool declared_ = false;
  Item::Sharding kind_ = Item::Sharding::kUndeclared;
  std::string name_;
  std::vector<uint32_t> bounds_;
  std::vector<int64_t> id_bounds_;
  int64_t rows_ = 0;
  std::function<uint32_t(int64_t id, uint32_t world_size)> rank_of_;
  std::function<void(absl::Span<const int64_t>, uint32_t, absl::Span<uint32_t>)>
      ranks_of_;
};

class RankState {
 public:
  // The changes of a table since the parent of a save: whole rows that are new
  // or changed, and erased ids, which the parent may lack. No id is in both.
  struct Changes {
    const RowSource* upserted = nullptr;  // null: no rows
    absl::Span<const int64_t> erased = {};
  };

  struct Table {
    std::string name;
    std::vector<Slot> slots;
    // All rows. May be null if `changes` are given, which must then fit.
    const RowSource* rows = nullptr;
    SliceHash slice_hash = SliceHash::kModulo;
    std::optional<Changes> changes = std::nullopt;
    // Why to write all rows although `changes` are given. Empty otherwise.
    std::string base_reason = {};
    // Required for several ranks unless SaveSpec::slice_bounds is set.
    TableSharding sharding = {};
  };

  RankState();
  ~RankState();
  RankState(const RankState&);
  RankState& operator=(const RankState&);
  RankState(RankState&&) noexcept;
  RankState& operator=(RankState&&) noexcept;

  // Called several times with a name, adds shards of one tensor: up to
  // kMaxShards that do not overlap, with one dtype and global_shape.
  void AddTensor(std::string name, TensorView view, Codec codec = Codec::kNone);
  // A slot's codec applies to its pages; ids use kAuto.
  void AddTable(std::string name, std::vector<Slot> slots,
                const RowSource* rows,
                SliceHash slice_hash = SliceHash::kModulo,
                TableSharding sharding = {});
  // If `changes` are given, a save writes only these, as a delta run on top of
  // SaveSpec::parent. Nevertheless it writes all `rows`, and records the reason
  // in the item, if it has no parent, if the parent lacks the table or stores
  // it with other slots, or if `base_reason` is set; staging then returns
  // FailedPrecondition if `rows` is null. All ranks must choose the same.
  void AddTable(Table table);
  void AddBlob(std::string name, absl::string_view bytes,
               Codec codec = Codec::kNone);

  // For the library.
  const std::vector<internal::StateTensor>& tensors() const;
  const std::vector<Table>& tables() const { return tables_; }
  const std::vector<internal::StateBlob>& blobs() const;

 private:
  std::vector<internal::StateTensor> tensors_;
  std::vector<Table> tables_;
  std::vector<internal::StateBlob> blobs_;
};

// The right of one rank to stage its part of an attempt, from Store::Begin.
// Passed as an object within a process, or as bytes to another.
class Ticket {
 public:
  // Invalid: Stage refuses it.
  Ticket();
  explicit Ticket(internal::TicketRecord record);

  // Returns DataLoss for damaged bytes and FailedPrecondition for a newer
  // format.
  static absl::StatusOr<Ticket> Decode(absl::string_view bytes);
  absl::StatusOr<std::string> Encode() const;

  const Version& version() const;
  uint32_t rank() const;
  uint32_t world_size() const;
  // The slices of this rank, or nothing if any rank may have any row.
  std::optional<SliceRange> slices() const;
  // For the library. Changing a record that copies share copies it first.
  const internal::TicketRecord& record() const { return *record_; }
  internal::TicketRecord& record();

 private:
  std::shared_ptr<internal::TicketRecord> record_;
};

// The staged part of one rank: its record, and its files or the entries of a
// small save. Passed to Store::Publish as an object within a process, or as
// bytes from another. Cheap to copy.
class StagedRank {
 public:
  // Invalid: Publish refuses it.
  StagedRank();
  explicit StagedRank(internal::StagedRecord record);

  // Return the errors of Ticket.
  static absl::StatusOr<StagedRank> Decode(absl::string_view bytes);
  absl::StatusOr<std::string> Encode() const;

  const Version& version() const;
  uint32_t rank() const;
  bool operator==(const StagedRank& other) const;
  // For the library. Changing a record that copies share copies it first.
  const internal::StagedRecord& record() const { return *record_; }
  internal::StagedRecord& record();

 private:
  std::shared_ptr<internal::StagedRecord> record_;
};

// Stages a rank's part of a save, from any thread of any process that sees the
// store's folder, with the options of the store.
//
//   CKPTDB_ASSIGN_OR_RETURN(Ticket ticket, Ticket::Decode(bytes_from_owner));
//   CKPTDB_ASSIGN_OR_RETURN(StagedRank staged,
//                           Stage(store_path, ticket, state));
//   CKPTDB_ASSIGN_OR_RETURN(std::string bytes, staged.Encode());
//   send_to_owner(bytes);
//
// Checks `state`, writes its files to the ticket's staging folder, and makes
// them durable; nothing is visible before the owner publishes. A small part is
// returned in the StagedRank instead. A tensor or blob with the parent's bytes
// becomes a reference to them. Uses 16 bytes of memory per row and about 6 MiB
// per thread.
//
// Returns InvalidArgument for an invalid `state` (a name, a shape, a limit, a
// duplicate id, a table of several ranks without a declared sharding, an id of
// another rank); ResourceExhausted, with the bytes needed and free, if the disk
// is full; and Unavailable for other I/O errors. After an error the files of
// this rank are deleted, at the latest with the attempt.
absl::StatusOr<StagedRank> Stage(absl::string_view store_path,
                                 const Ticket& ticket, const RankState& state,
                                 const StoreOptions& options = {});

}  // namespace ckptdb

#endif  // CKPTDB_DB_STATE_H_
