// Adapters from a trainer's own containers to TableState, so that a trainer
// needs no classes of its own.
//
//   struct User {
//     std::array<float, 16> embedding;
//     std::array<float, 16> adagrad_sum;
//     int64_t last_step;
//   };
//   std::unordered_map<int64_t, User> users;
//   MapTable user_table(&users, {Field("embedding", &User::embedding),
//                                Field("adagrad_sum", &User::adagrad_sum),
//                                Field("last_step", &User::last_step)});
//   CKPTDB_RETURN_IF_ERROR(model.AddTable("user", &user_table));
//   ...
//   users[17].last_step = 1;
//   user_table.MarkUpserted({17});
//   users.erase(18);
//   user_table.MarkErased({18});
//
// | adapter | the rows are | their changes are marked by |
// |---|---|---|
// | MapTable | in a hash map of the trainer's, a struct each | the trainer |
// | ColumnTable | in the adapter: an index, and an array for each slot | it |
// | VectorTable | in arrays of the trainer's, by row number | the trainer |
// | TableView | those of another table | as that table's |
//
// Rules of all adapters
// 1. An adapter is registered by ModelState::AddTable, which returns
//    InvalidArgument for what is wrong with how it was made: a null pointer, no
//    field or more than kMaxSlots, a name that is empty or there twice, a
//    dimension that is not that of the type. Until then nothing is checked, and
//    nothing crashes.
// 2. An adapter, and the container that it points to, outlive the manager: the
//    manager releases the tracker when it is closed or destroyed. Neither
//    moves.
// 3. A save reads the rows while the call of the manager that begins it runs
//    (Step, StepTo, Save, StartTraining, FinishTraining), and nothing may
//    change them meanwhile. Marks may be made at any time, from any thread.
// 4. A row that changes has to be marked before the next save, or that save,
//    and each one after it, leaves its change out:
//    ManagerOptions::save.audit_deltas finds a place that forgets it.
// 5. A save that fails keeps its marks for the next one. A restore inserts,
//    overwrites and erases rows, and with LiveTable::RestoreMode::kClear clears
//    the table first. It marks nothing, as the rows are those of the step.
//    After one that fails the table has some of the step's rows.
// 6. Slots that a restore leaves out, such as those of the optimizer, keep
//    their values; in new rows they are zero.
// 7. With several ranks a rank has the rows that are its own by the sharding
//    that AddTable is given.
#ifndef CKPTDB_MANAGER_TABLES_H_
#define CKPTDB_MANAGER_TABLES_H_

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "ckptdb/db/row_tracker.h"
#include "ckptdb/db/state.h"
#include "ckptdb/manager/model_state.h"
#include "ckptdb/schema/status.h"

namespace ckptdb {

struct TableOptions {
  // Options of a field of a MapTable.
  struct Field {
    // The number of elements of a std::vector, which is the same in each row:
    // else the save is FailedPrecondition naming the row. If 0, it is that of
    // the type.
    uint32_t dim = 0;
    Codec codec = Codec::kNone;
  };

  // Options of an array of a VectorTable.
  struct Array {
    // The bytes from one row to the next. If 0, the rows are adjacent.
    uint64_t stride_bytes = 0;
    Codec codec = Codec::kNone;
  };

  // See TableSharding::BySlices. Default: kModulo.
  SliceHash slice_hash = SliceHash::kModulo;
  // Names of the slots that a model does not need for inference. Default: none.
  std::vector<std::string> optimizer_slots = {};
  // Options of the tracker. A VectorTable, which has a RowBitmap, ignores them.
  RowTracker::Options tracker = {};
  // The number of threads that look for the rows of a save. At least 1.
  // Default: 4, as ManagerOptions::save.copy_threads.
  int threads = 4;
};

namespace internal {

// The base class of the adapters.
class AdaptedTable : public TableState {
 public:
  std::vector<Slot> slots() const final { return slots_; }
  SliceHash slice_hash() const final { return options_.slice_hash; }
  std::vector<std::string> optimizer_slots() const final {
    return options_.optimizer_slots;
  }
  absl::Status status() const final { return status_; }

 protected:
  // `made` is the error of making it other than those of slots and options, and
  // is reported first.
  AdaptedTable(absl::Status made, std::vector<Slot> slots,
               TableOptions options);

  const TableOptions& options() const { return options_; }
  // Returns the numbers of the slots of these names, or nothing if one is
  // unknown or the table is invalid.
  std::optional<std::vector<size_t>> FindSlots(
      absl::Span<const std::string> names) const;

 private:
  const std::vector<Slot> slots_;
  const TableOptions options_;
  absl::Status status_;
};

template <typename T>
concept Element = requires {
  internal::DTypeOf<T>::kValue;
};

}  // namespace internal

// A table that grows and shrinks: an index from id to row, and an array for
// each slot.
//
//   ColumnTable users({{"embedding", DType::kF32, 16},
//                      {"last_step", DType::kI64, 1}});
//   CKPTDB_RETURN_IF_ERROR(model.AddTable("user", &users));
//   CKPTDB_ASSIGN_OR_RETURN(const ColumnTable::Column<float> embedding,
//                           users.column<float>("embedding"));
//
//   CKPTDB_ASSIGN_OR_RETURN(const ColumnTable::Inserted user,
//                           users.Insert(17));  // which marks it
//   embedding[user.row][0] = 0.5f;
//   users.Erase(18);
//
// The table marks rows by itself. A row that Insert returns is assumed to
// change before the next save, so Insert what a batch will change, whether or
// not it exists, and Find what is only read. Mark a row that was found in
// another way and changes (MarkUpserted).
//
// The row number of an id is the same until it is erased; a later Insert then
// gets that number first. The same calls give the same numbers. After a restore
// they are in the order in which the rows arrived, so nothing that a trainer
// computes may depend on them. A row takes the memory of its values, 8 bytes
// and a bit for the id, and about 19 to 38 bytes for the index. Memory of
// erased rows is used again, and Clear frees all of it.
//
// Calls that change the table must not run beside other calls. Find, IdOf,
// ForEach and the values of different rows may be used by several threads at
// once, and marks may be made at any time. Nothing throws.
class ColumnTable : public internal::AdaptedTable {
 public:
  // The values of one slot. Thread-safe as an array is.
  template <typename T>
  class Column {
   public:
    // Makes a column of no table.
    Column() = default;

    // Returns the elements() values of a row of the table. They stay where they
    // are until the row is erased.
    T* operator[](uint64_t row) const;
    uint32_t elements() const { return elements_; }

   private:
    friend class ColumnTable;
    Column(const std::vector<char*>* chunks, uint32_t elements)
        : chunks_(chunks), elements_(elements) {}

    const std::vector<char*>* chunks_ = nullptr;
    uint32_t elements_ = 0;
  };

  using Row = uint64_t;
  static constexpr Row kRowsPerChunk = 16384;

  struct Inserted {
    Row row = 0;
    bool is_new = false;  // its values are zero
  };

  // Slots of bytes are of kU8.
  explicit ColumnTable(std::vector<Slot> slots, TableOptions options = {});
  ~ColumnTable() override;

  // Returns the column of a slot, which is valid as long as the table lives.
  // Returns NotFound if there is no such slot, and InvalidArgument if it has
  // another type.
  template <typename T>
  absl::StatusOr<Column<T>> column(absl::string_view slot) const {
    CKPTDB_ASSIGN_OR_RETURN(const size_t number,
                            FindColumn(slot, internal::DTypeOf<T>::kValue));
    return Column<T>(Chunks(number), Elements(number));
  }

  uint64_t size() const;
  // Returns the row of the id, or nothing if there is none.
  std::optional<Row> Find(int64_t id) const;
  // Returns the id of a row that exists.
  int64_t IdOf(Row row) const;
  // Visits all rows in the order of their numbers.
  void ForEach(const std::function<void(int64_t id, Row row)>& visit) const;

  // Returns the row of the id, which is made if there is none, and marks it as
  // upserted. Inserting many at once takes less time. Returns ResourceExhausted
  // if there is no memory; the ids before the one that has no room are then in
  // *rows and in the table. Returns InvalidArgument if rows is null.
  absl::StatusOr<Inserted> Insert(int64_t id);
  absl::Status Insert(absl::Span<const int64_t> ids,
                      std::vector<Inserted>* rows);
  // Erases rows and marks all of the ids as erased. Returns how many of the ids
  // had a row.
  uint64_t Erase(absl::Span<const int64_t> ids);
  bool Erase(int64_t id) { return Erase(absl::MakeConstSpan(&id, 1)) == 1; }
  // Erases all rows.
  void Clear();
  // Marks ids. It may run beside any call.
  void MarkUpserted(absl::Span<const int64_t> ids);
  // Returns the tracker that has the marks, which consumers other than the
  // manager may use, too.
  RowTracker* tracker() override;

  absl::StatusOr<std::unique_ptr<RowSource>> AllRows() const override;
  absl::StatusOr<std::unique_ptr<RowSource>> RowsOf(
      absl::Span<const int64_t> ids) const override;
  LiveTable* Live(absl::Span<const std::string> slots) override;

 private:
  class Columns;
  class LiveRows;

  absl::StatusOr<size_t> FindColumn(absl::string_view slot, DType dtype) const;
  const std::vector<char*>* Chunks(size_t slot) const;
  uint32_t Elements(size_t slot) const;

  const std::unique_ptr<Columns> columns_;
  RowTracker tracker_;
  std::unique_ptr<LiveRows> live_;
};

template <typename T>
T* ColumnTable::Column<T>::operator[](uint64_t row) const {
  return reinterpret_cast<T*>((*chunks_)[row / ColumnTable::kRowsPerChunk]) +
         row % ColumnTable::kRowsPerChunk * elements_;
}

namespace internal {

struct AnyArray {
  Slot slot;
  char* data = nullptr;
  uint64_t stride_bytes = 0;
};

}  // namespace internal

// Declares an array of the trainer's, row-major, as a slot of that name with
// `dim` elements a row.
template <typename T>
internal::AnyArray Array(absl::string_view name, T* data, uint32_t dim,
                         TableOptions::Array options = {}) {
  static_assert(internal::Element<T>, "an array has elements of a dtype");
  return {
      Slot{std::string(name), internal::DTypeOf<T>::kValue, dim, options.codec},
      reinterpret_cast<char*>(data),
      options.stride_bytes == 0 ? uint64_t{dim} * sizeof(T)
                                : options.stride_bytes};
}

// A table of fixed size in arrays of the trainer's. Its ids are the row
// numbers, 0 to rows - 1.
//
//   std::vector<float> embedding(1000 * 16);
//   std::vector<float> adagrad_sum(1000 * 16);
//   VectorTable items(1000, {Array("embedding", embedding.data(), 16),
//                            Array("adagrad_sum", adagrad_sum.data(), 16)});
//   CKPTDB_RETURN_IF_ERROR(model.AddTable("item", &items));
//   CKPTDB_RETURN_IF_ERROR(items.MarkUpserted({17, 900}));
//
// The arrays stay where they are. All rows exist at all times, with zeros where
// nothing else was written: LiveTable::RestoreMode::kClear, and an id that a
// restore erases, set them to zero. A restore of a row beyond the arrays is
// OutOfRange, and nothing is changed. After a restore of a step that does not
// have all rows, such as that of a MapTable, ManagerOptions::save.audit_deltas
// would report the others. Rows are restored by several threads at once.
//
// `holds` says which rows are this rank's, the same as the sharding of
// AddTable, and is called from several threads. If it is empty, all are, as on
// one rank and by TableSharding::Replicated. Rows of other ranks are not saved,
// and their marks are ignored.
class VectorTable : public internal::AdaptedTable {
 public:
  VectorTable(uint64_t rows, std::vector<internal::AnyArray> arrays,
              TableOptions options = {},
              std::function<bool(int64_t id)> holds = {});
  ~VectorTable() override;

  // Marks ids. It may run beside any call. Returns OutOfRange naming the first
  // id that is no row; then nothing is marked.
  absl::Status MarkUpserted(absl::Span<const int64_t> ids);
  // Returns null for more rows than kMaxBitmapRows.
  RowBitmap* tracker() override;

  absl::StatusOr<std::unique_ptr<RowSource>> AllRows() const override;
  absl::StatusOr<std::unique_ptr<RowSource>> RowsOf(
      absl::Span<const int64_t> ids) const override;
  std::optional<Capacity> capacity() const override;
  LiveTable* Live(absl::Span<const std::string> slots) override;

 private:
  class Rows;
  class LiveRows;

  const uint64_t rows_;
  const std::vector<internal::AnyArray> arrays_;
  const std::function<bool(int64_t id)> holds_;
  std::unique_ptr<RowBitmap> marks_;
  std::unique_ptr<LiveRows> live_;
};

// The rows of another table with some of its slots, under other codecs: for a
// manager that saves them to a store of its own beside the manager of the
// table, such as embeddings under int8 for servers beside the lossless store
// that the training goes on from.
//
//   TableView served(&user_table, {{"embedding", Codec::kInt8}});
//   ModelState serving;
//   CKPTDB_RETURN_IF_ERROR(serving.AddTable("user", &served));
//
// The rows, their marks and their tracker are those of the table: a row is
// marked once, and each manager sees the mark. A restore through the view
// writes these slots of the table. A view of a table in the memory of a device
// reads its rows by way of host memory, and the save waits for them.
class TableView : public TableState {
 public:
  struct ViewedSlot {
    std::string name;
    Codec codec = Codec::kNone;
  };

  // `table` outlives the view. AddTable returns InvalidArgument if it is null,
  // or has no slot of a name.
  TableView(TableState* table, const std::vector<ViewedSlot>& slots);

  std::vector<Slot> slots() const override { return slots_; }
  SliceHash slice_hash() const override;
  std::vector<std::string> optimizer_slots() const override;
  ChangeTracker* tracker() override;
  absl::Status status() const override { return status_; }

  absl::StatusOr<std::unique_ptr<RowSource>> AllRows() const override;
  absl::StatusOr<std::unique_ptr<RowSource>> RowsOf(
      absl::Span<const int64_t> ids) const override;
  std::optional<Capacity> capacity() const override;
  LiveTable* Live(absl::Span<const std::string> slots) override;

 private:
  absl::Status Choose(const std::vector<ViewedSlot>& slots);
  absl::StatusOr<std::unique_ptr<RowSource>> View(
      std::unique_ptr<RowSource> rows) const;

  TableState* const table_;
  std::vector<Slot> slots_;
  std::vector<size_t> places_;  // of the slots among those of the table
  absl::Status status_;
};

}  // namespace ckptdb

#endif  // CKPTDB_MANAGER_TABLES_H_
