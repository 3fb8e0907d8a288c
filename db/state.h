// What a rank saves: tensors, tables and blobs under names, in the caller's
// own memory.
//
//   std::vector<float> weights(12);
//   RankState state;
//   state.AddTensor("mlp.0.weight",
//                   TensorView::Of(weights.data(), {3, 4}));
//   state.AddBlob("reader", position_bytes);
//   ArrayRowSource rows(ids, {{embeddings.data(), 16 * 4},
//                             {adagrad.data(), 16 * 4}});
//   state.AddTable("user", {{"embedding", DType::kF32, 16},
//                           {"adagrad_sum", DType::kF32, 16}}, &rows);
//
// Nothing is copied and nothing is checked here: staging does both, and says
// what is wrong. The memory must stay as it is until staging returns.
#ifndef CKPTDB_DB_STATE_H_
#define CKPTDB_DB_STATE_H_

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "ckptdb/db/sharding.h"
#include "ckptdb/schema/codec.h"
#include "ckptdb/schema/dtype.h"
#include "ckptdb/schema/records.h"
#include "ckptdb/schema/shape.h"
#include "ckptdb/schema/slice.h"

namespace ckptdb {

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
    return {DTypeOf<T>::kValue, std::move(shape), data, {}, {}};
  }
};

// The values of one slot for the rows of a block: one is at data, each next one
// stride_bytes on.
struct SlotRows {
  const void* data = nullptr;
  uint64_t stride_bytes = 0;
  // For rows that lie anywhere, such as the nodes of a hash map: the values of
  // ids[i] are at places[i] + offset_bytes, and `data` and `stride_bytes` are
  // not read. Has a place for each id of the block, none of them null. Empty:
  // `data` counts.
  absl::Span<const void* const> places = {};
  uint64_t offset_bytes = 0;

  // The values of the row at `row`, as RowBlock::RowAt has it.
  const char* At(uint64_t row) const {
    return places.empty()
               ? static_cast<const char*>(data) + row * stride_bytes
               : static_cast<const char*>(places[row]) + offset_bytes;
  }
};

// Some rows of a table: ids.size() of them, at most kMaxBlockRows, and one
// SlotRows for each slot.
struct RowBlock {
  absl::Span<const int64_t> ids;
  absl::Span<const SlotRows> slots;
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
  virtual ~RowSource() = default;
  virtual uint64_t block_count() const = 0;
  // `block` is below block_count(). Asked for several times and from several
  // threads; what the answer points to stays, unchanged, until staging
  // returns.
  virtual absl::StatusOr<RowBlock> Block(uint64_t block) const = 0;
};

// Rows in one array of ids and one of values for each slot; `rows` as in
// RowBlock. The arrays of ids and rows stay the caller's.
class ArrayRowSource : public RowSource {
 public:
  ArrayRowSource(absl::Span<const int64_t> ids, std::vector<SlotRows> slots,
                 absl::Span<const uint32_t> rows = {})
      : ids_(ids), slots_(std::move(slots)), rows_(rows) {}
  uint64_t block_count() const override { return 1; }
  absl::StatusOr<RowBlock> Block(uint64_t) const override {
    return RowBlock{ids_, slots_, rows_};
  }

 private:
  absl::Span<const int64_t> ids_;
  std::vector<SlotRows> slots_;
  absl::Span<const uint32_t> rows_;
};

struct TensorItem {
  std::string name;
  TensorView view;
  Codec codec = Codec::kNone;
};

// What became of a table since the step that a save goes on from: the rows
// that are new or have changed, each whole, and the ids that are gone. No id
// is in both. An id that the parent does not have may be erased all the same.
struct TableChanges {
  const RowSource* upserted = nullptr;  // null: no rows
  absl::Span<const int64_t> erased = {};
};

struct TableItem {
  std::string name;
  std::vector<Slot> slots;
  // All rows; may be null when `changes` are given.
  const RowSource* rows = nullptr;
  SliceHash slice_hash = SliceHash::kModulo;
  std::optional<TableChanges> changes = std::nullopt;
  // Why `changes` will not do although they are given, such as a tracker that
  // ran over its bound; empty: they do.
  std::string base_reason = {};
  // How its rows are divided among ranks, which staging checks row by row. To
  // be declared in a save of several ranks, unless SaveSpec::slice_bounds do.
  TableSharding sharding = {};
};
struct BlobItem {
  std::string name;
  absl::string_view bytes;
  Codec codec = Codec::kNone;
};

class RankState {
 public:
  void AddTensor(std::string name, TensorView view,
                 Codec codec = Codec::kNone) {
    tensors_.push_back({std::move(name), std::move(view), codec});
  }
  // A slot's codec counts for its pages; ids are stored under kAuto.
  void AddTable(std::string name, std::vector<Slot> slots,
                const RowSource* rows,
                SliceHash slice_hash = SliceHash::kModulo,
                TableSharding sharding = {}) {
    TableItem table{std::move(name), std::move(slots), rows, slice_hash};
    table.sharding = std::move(sharding);
    tables_.push_back(std::move(table));
  }
  // Of a table with the changes since SaveSpec::parent, only those are written:
  // a delta run. Where they do not do, because the save has no parent, or the
  // parent has no such table or other slots, or `base_reason` says so, all of
  // `rows` are, and the reason is kept in the item. FailedPrecondition then
  // when `rows` is null. All ranks must come to the same.
  void AddTable(TableItem table) { tables_.push_back(std::move(table)); }
  void AddBlob(std::string name, absl::string_view bytes,
               Codec codec = Codec::kNone) {
    blobs_.push_back({std::move(name), bytes, codec});
  }

  const std::vector<TensorItem>& tensors() const { return tensors_; }
  const std::vector<TableItem>& tables() const { return tables_; }
  const std::vector<BlobItem>& blobs() const { return blobs_; }

 private:
  std::vector<TensorItem> tensors_;
  std::vector<TableItem> tables_;
  std::vector<BlobItem> blobs_;
};

}  // namespace ckptdb

#endif  // CKPTDB_DB_STATE_H_
