// SPDX-License-Identifier: Apache-2.0
// Adapters from a trainer's containers to TableState.
//
//   struct User {
//     std::array<float, 16> embedding;
//     int64_t last_step;
//   };
//   std::unordered_map<int64_t, User> users;
//   MapTable user_table(&users, {Field("embedding", &User::embedding),
//                                Field("last_step", &User::last_step)});
//   CKPTDB_RETURN_IF_ERROR(model.AddTable("user", &user_table));
//   ...
//   users[17].last_step = 1;
//   user_table.MarkUpserted({17});
//   users.erase(18);
//   user_table.MarkErased({18});
//
// | adapter | its rows | who marks changes |
// |---|---|---|
// | MapTable | a hash map of the trainer, one struct per row | the trainer |
// | ColumnTable | in the adapter: an index, and an array per slot | the table |
// | VectorTable | arrays of the trainer, by row number | the trainer |
// | TableView | another table's rows, some slots | as for that table |
//
// Rules of all adapters
// 1. ModelState::AddTable returns InvalidArgument for a mistake in how an
//    adapter was made, such as a null pointer or a repeated name.
// 2. An adapter, and its container, outlive the manager and stay in place. One
//    adapter is registered in one ModelState per store.
// 3. Nothing may change the rows during a manager's call that begins a save:
//    Step, StepTo, Save, StartTraining, FinishTraining. Any thread may mark
//    rows at any time.
// 4. Mark a changed row before the next save, or that save and all later ones
//    miss the change. ManagerOptions::Saving::audit_deltas finds missing marks.
// 5. The marks of a failed save are part of the next one. A restore marks
//    nothing; a failed one leaves some of the step's rows.
// 6. Slots that a restore does not load keep their values, and are zero in new
//    rows.
// 7. With several ranks, each holds the rows that the sharding assigns to it.
#ifndef CKPTDB_MANAGER_TABLES_H_
#define CKPTDB_MANAGER_TABLES_H_

#include <cstddef>
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
#include "db/row_tracker.h"
#include "db/state.h"
#include "manager/internal/adapted_table.h"
#include "manager/model_state.h"
#include "schema/status.h"

namespace ckptdb {

struct TableOptions {
  // Options of a field of a MapTable, or of an array of a VectorTable.
  struct Field {
    // The number of elements of a std::vector in a MapTable. If a row has
    // another number, the save returns FailedPrecondition naming it.
    uint32_t dim = 0;
    // Bytes from one row to the next of an array. 0: adjacent.
    uint64_t stride_bytes = 0;
    Codec codec = Codec::kNone;
    // For an array with some columns of its slot, the others of which other
    // ranks have: the first one, and the columns of the whole slot. 0: all.
    uint32_t first_column = 0;
    uint32_t all_columns = 0;
  };

  // See TableSharding::BySlices.
  SliceHash slice_hash = SliceHash::kModulo;
  // Slots that inference does not need.
  std::vector<std::string> optimizer_slots = {};
  // The memory of marks: see RowTracker. Ignored by VectorTable.
  uint64_t tracker_bytes = uint64_t{1} << 30;
  // Threads that look up the rows of a save. At least 1.
  int threads = 4;
};

// A table that grows and shrinks: an index from id to row, and an array per
// slot.
//
//   ColumnTable users({{"embedding", DType::kF32, 16},
//                      {"last_step", DType::kI64, 1}});
//   CKPTDB_RETURN_IF_ERROR(model.AddTable("user", &users));
//   CKPTDB_ASSIGN_OR_RETURN(const ColumnTable::Column<float> embedding,
//                           users.column<float>("embedding"));
//   CKPTDB_ASSIGN_OR_RETURN(const ColumnTable::Inserted user,
//                           users.Insert(17));  // which marks it
//   embedding[user.row][0] = 0.5f;
//   users.Erase(18);
//
// Insert marks the rows it returns, new or not: use Insert for rows that a
// batch changes, and Find for rows that it only reads. Mark rows changed in
// other ways with MarkUpserted.
//
// An id keeps its row number until it is erased; later Inserts reuse the
// number. A restore numbers rows in the order of arrival, so no result may
// depend on numbers. A row takes its values, 8 bytes and a bit for the id, and
// about 19 to 38 bytes of index. Memory of erased rows is reused; Clear frees
// all of it.
//
// Calls that change the table must not run concurrently with other calls. Find,
// IdOf, ForEach, and the values of different rows may be used concurrently, and
// marks may be made at any time. Nothing throws.
class ColumnTable : public internal::AdaptedTable {
 public:
  // The values of one slot. As thread-safe as an array.
  template <typename T>
  class Column {
   public:
    // Must not be indexed.
    Column() = default;

    // Returns the elements() values of a row, valid until the row is erased.
    T* operator[](uint64_t row) const;
    uint32_t elements() const { return elements_; }

   private:
    friend class ColumnTable;
    Column(const std::vector<char*>* chunks, uint32_t elements)
        : chunks_(chunks), elements_(elements) {}

    const std::vector<char*>* chunks_ = nullptr;
    uint32_t elements_ = 0;
  };

  static constexpr uint64_t kRowsPerChunk = 16384;

  struct Inserted {
    uint64_t row = 0;
    bool is_new = false;  // its values are zero
  };

  explicit ColumnTable(std::vector<Slot> slots, TableOptions options = {});
  ~ColumnTable() override;

  // Returns the column of a slot, valid as long as the table. Returns NotFound
  // for an unknown slot, and InvalidArgument if its dtype is not T's; uint8_t
  // is for slots of bytes.
  template <typename T>
  absl::StatusOr<Column<T>> column(absl::string_view slot) const {
    CKPTDB_ASSIGN_OR_RETURN(const size_t number,
                            FindColumn(slot, internal::DTypeOf<T>::kValue));
    return Column<T>(Chunks(number), Elements(number));
  }

  uint64_t size() const;
  // The row of the id, if it exists.
  std::optional<uint64_t> Find(int64_t id) const;
  // The id of an existing row.
  int64_t IdOf(uint64_t row) const;
  // Ordered by row number.
  void ForEach(
      const std::function<void(int64_t id, uint64_t row)>& visit) const;

  // Return the rows of ids, inserted if they were missing, and mark them as
  // upserted. Many ids at once are faster. If memory runs out, they return
  // ResourceExhausted; *rows then holds the rows inserted so far.
  absl::StatusOr<Inserted> Insert(int64_t id);
  absl::Status Insert(absl::Span<const int64_t> ids,
                      std::vector<Inserted>* rows);
  // Look up and copy many rows at once, for callers that do not know T.
  // FindRows sets rows[i] to the row of ids[i], or to -1. Gather copies the
  // values of these rows to `values`, adjacent and in order; Put copies them
  // back, and marks the rows. Both return NotFound for an unknown slot, and
  // OutOfRange, having copied nothing, naming the first number that is no row.
  void FindRows(absl::Span<const int64_t> ids, absl::Span<int64_t> rows) const;
  absl::Status Gather(absl::string_view slot, absl::Span<const int64_t> rows,
                      void* values) const;
  absl::Status Put(absl::string_view slot, absl::Span<const int64_t> rows,
                   const void* values);
  // Erases rows and marks all ids as erased. Returns the number of rows erased.
  uint64_t Erase(absl::Span<const int64_t> ids);
  bool Erase(int64_t id) { return Erase(absl::MakeConstSpan(&id, 1)) == 1; }
  void Clear();
  // May run concurrently with any call.
  void MarkUpserted(absl::Span<const int64_t> ids);
  // Returns the tracker that holds the marks; other consumers may use it too.
  RowTracker* tracker() override;

  absl::StatusOr<std::unique_ptr<RowSource>> AllRows() const override;
  absl::StatusOr<std::unique_ptr<RowSource>> RowsOf(
      absl::Span<const int64_t> ids) const override;
  LiveTable* Live(absl::Span<const std::string> slots) override;

 private:
  class Columns;
  class LiveRows;

  absl::StatusOr<size_t> FindSlot(absl::string_view slot) const;
  absl::StatusOr<size_t> FindColumn(absl::string_view slot, DType dtype) const;
  absl::Status CheckRows(absl::Span<const int64_t> rows) const;
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

// Declares a row-major array of the trainer as the slot `name` with `dim`
// elements per row.
template <typename T>
internal::AnyArray Array(absl::string_view name, T* data, uint32_t dim,
                         TableOptions::Field options = {}) {
  static_assert(internal::Element<T>, "an array has elements of a dtype");
  return {
      Slot{std::string(name), internal::DTypeOf<T>::kValue,
           options.all_columns == 0 ? dim : options.all_columns, options.codec},
      reinterpret_cast<char*>(data),
      options.stride_bytes == 0 ? uint64_t{dim} * sizeof(T)
                                : options.stride_bytes,
      options.first_column, dim};
}

// A table of fixed size over arrays of the trainer. Its ids are the row
// numbers, from 0 or from `first_id`, for a rank whose arrays are adjacent rows
// of a larger table: see TableSharding::ByRange.
//
//   std::vector<float> embedding(1000 * 16);
//   VectorTable items(1000, {Array("embedding", embedding.data(), 16)});
//   CKPTDB_RETURN_IF_ERROR(model.AddTable("item", &items));
//   CKPTDB_RETURN_IF_ERROR(items.MarkUpserted({17, 900}));
//
// All rows always exist: LiveTable::RestoreMode::kClear, and restoring an
// erased id, set rows to zero. Restoring a row beyond the arrays, or before
// `first_id`, returns OutOfRange and changes nothing. Several threads restore
// rows at once.
//
// Where ranks have different columns, each has them of all rows:
//
//   VectorTable items(
//       1000, {Array("embedding", half.data(), 8,
//                    {.first_column = rank * 8, .all_columns = 16})});
//   CKPTDB_RETURN_IF_ERROR(
//       model.AddTable("item", &items, TableSharding::ByRange(1000)));
//
// Such a table is saved as whole rows, and restored by any division: see
// TableState::columns. A row is saved if any rank has marked it.
//
// `holds` returns whether this rank holds a row, in agreement with the table's
// sharding; several threads call it. If empty, the rank holds all rows. Other
// rows are not saved, and their marks are ignored.
class VectorTable : public internal::AdaptedTable {
 public:
  VectorTable(uint64_t rows, std::vector<internal::AnyArray> arrays,
              TableOptions options = {},
              std::function<bool(int64_t id)> holds = {}, int64_t first_id = 0);
  ~VectorTable() override;

  // May run concurrently with any call. Returns OutOfRange naming the first id
  // that is not a row, and marks nothing.
  absl::Status MarkUpserted(absl::Span<const int64_t> ids);
  // Replaces the arrays by others with the same slots, when the trainer has
  // moved them; a provider of ModelState may call it. Returns InvalidArgument,
  // and changes nothing, for other slots and for the mistakes of construction.
  absl::Status SetArrays(std::vector<internal::AnyArray> arrays);
  // Null for more rows than kMaxBitmapRows.
  RowBitmap* tracker() override;

  absl::StatusOr<std::unique_ptr<RowSource>> AllRows() const override;
  absl::StatusOr<std::unique_ptr<RowSource>> RowsOf(
      absl::Span<const int64_t> ids) const override;
  std::optional<uint64_t> capacity() const override;
  absl::Status CheckId(int64_t id) const override;
  LiveTable* Live(absl::Span<const std::string> slots) override;
  std::optional<std::vector<Columns>> columns() const override;

 private:
  class Rows;
  class LiveRows;

  // The number of an id's row, not below rows_ for an id without one.
  uint64_t RowOf(int64_t id) const {
    return static_cast<uint64_t>(id) - static_cast<uint64_t>(first_id_);
  }

  const uint64_t rows_;
  const int64_t first_id_;
  std::vector<internal::AnyArray> arrays_;
  const std::function<bool(int64_t id)> holds_;
  std::unique_ptr<RowBitmap> marks_;
  std::unique_ptr<LiveRows> live_;
};

// Some slots of another table, with other codecs, for a second manager with a
// separate store: for example, embeddings as int8 for servers, next to the
// lossless store of the training.
//
//   TableView served(&user_table, {{"embedding", Codec::kInt8}});
//   ModelState serving;
//   CKPTDB_RETURN_IF_ERROR(serving.AddTable("user", &served));
//
// The view shares the table's rows, marks and tracker: a mark made once reaches
// each manager. A restore through the view writes these slots of the table.
// Rows in device memory pass through host memory, and the save waits.
class TableView : public TableState {
 public:
  // `table` outlives the view. `slots` lists names and codecs. AddTable returns
  // InvalidArgument if the table is null or lacks one of the slots.
  TableView(TableState* table,
            const std::vector<std::pair<std::string, Codec>>& slots);

  std::vector<Slot> slots() const override { return slots_; }
  SliceHash slice_hash() const override;
  std::vector<std::string> optimizer_slots() const override;
  ChangeTracker* tracker() override;
  absl::Status status() const override { return status_; }

  absl::StatusOr<std::unique_ptr<RowSource>> AllRows() const override;
  absl::StatusOr<std::unique_ptr<RowSource>> RowsOf(
      absl::Span<const int64_t> ids) const override;
  std::optional<uint64_t> capacity() const override;
  absl::Status CheckId(int64_t id) const override;
  LiveTable* Live(absl::Span<const std::string> slots) override;

 private:
  absl::Status Choose(const std::vector<std::pair<std::string, Codec>>& slots);
  absl::StatusOr<std::unique_ptr<RowSource>> View(
      std::unique_ptr<RowSource> rows) const;

  TableState* const table_;
  std::vector<Slot> slots_;
  std::vector<size_t> places_;  // of the slots among those of the table
  absl::Status status_;
};

}  // namespace ckptdb

#endif  // CKPTDB_MANAGER_TABLES_H_
