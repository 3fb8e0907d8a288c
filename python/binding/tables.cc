// SPDX-License-Identifier: Apache-2.0
#include "python/binding/tables.h"

#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <mutex>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "python/binding/address.h"
#include "python/binding/errors.h"

namespace ckptdb::python {
namespace {

using nb::literals::operator""_a;

// Name, dtype, elements, codec.
using SlotTuple = std::tuple<std::string, std::string, uint32_t, std::string>;

Slot SlotOf(const SlotTuple& tuple) {
  const auto& [name, dtype, elements, codec] = tuple;
  return {name, Check(ParseDType(dtype)), elements, Check(ParseCodec(codec))};
}

nb::bytes BytesOf(absl::Span<const int64_t> ids) {
  return nb::bytes(ids.data(), ids.size() * sizeof(int64_t));
}

std::vector<Slot> SlotsOf(const std::vector<SlotTuple>& tuples) {
  std::vector<Slot> slots;
  for (const SlotTuple& each : tuples) slots.push_back(SlotOf(each));
  return slots;
}

// A save or a restore holds the table for seconds; a callback of a save that
// changes rows would wait forever.
constexpr std::chrono::seconds kLongestWait(60);

template <typename Lock>
Lock Locked(std::shared_timed_mutex& mutex) {
  Lock lock(mutex, kLongestWait);
  if (!lock.owns_lock()) {
    throw StatusError(absl::FailedPreconditionError(
        "the table was in use by a save or a restore for a minute; callbacks "
        "of a save must not change rows"));
  }
  return lock;
}
using Exclusive = std::unique_lock<std::shared_timed_mutex>;
using Shared = std::shared_lock<std::shared_timed_mutex>;

// Rows kept here.
class Table : public TableHandle {
 public:
  Table(const std::vector<SlotTuple>& slots, TableOptions options)
      : table_(SlotsOf(slots), std::move(options)) {
    Check(table_.status());
  }

  TableState* state() override { return &table_; }

  uint64_t size() {
    const auto lock = Locked<Shared>(mutex());
    return table_.size();
  }
  void Insert(Address ids, uint64_t count, Address rows) {
    const ReleaseGil release;
    const auto lock = Locked<Exclusive>(mutex());
    std::vector<ColumnTable::Inserted> inserted;
    Check(table_.Insert({At<const int64_t>(ids), count}, &inserted));
    for (uint64_t i = 0; i < count; ++i) {
      At<int64_t>(rows)[i] = static_cast<int64_t>(inserted[i].row);
    }
  }
  void Find(Address ids, uint64_t count, Address rows) {
    const ReleaseGil release;
    const auto lock = Locked<Shared>(mutex());
    table_.FindRows({At<const int64_t>(ids), count},
                    {At<int64_t>(rows), count});
  }
  uint64_t Erase(Address ids, uint64_t count) {
    const ReleaseGil release;
    const auto lock = Locked<Exclusive>(mutex());
    return table_.Erase({At<const int64_t>(ids), count});
  }
  void Mark(Address ids, uint64_t count) {
    const ReleaseGil release;
    table_.MarkUpserted({At<const int64_t>(ids), count});
  }
  void Clear() {
    const ReleaseGil release;
    const auto lock = Locked<Exclusive>(mutex());
    table_.Clear();
  }
  // Writes up to `count` ids and their rows; returns how many rows exist.
  uint64_t Rows(Address ids, Address rows, uint64_t count) {
    const ReleaseGil release;
    const auto lock = Locked<Shared>(mutex());
    uint64_t next = 0;
    table_.ForEach([&](int64_t id, uint64_t row) {
      if (next < count) {
        At<int64_t>(ids)[next] = id;
        At<int64_t>(rows)[next] = static_cast<int64_t>(row);
      }
      ++next;
    });
    return next;
  }
  void Gather(const std::string& slot, Address rows, uint64_t count,
              Address values) {
    const ReleaseGil release;
    const auto lock = Locked<Shared>(mutex());
    Check(table_.Gather(slot, {At<const int64_t>(rows), count},
                        At<void>(values)));
  }
  void Put(const std::string& slot, Address rows, uint64_t count,
           Address values) {
    const ReleaseGil release;
    const auto lock = Locked<Shared>(mutex());
    Check(table_.Put(slot, {At<const int64_t>(rows), count},
                     At<const void>(values)));
  }

 private:
  ColumnTable table_;
};

// A slot, its address and the bytes from one row to the next.
using ArrayTuple = std::tuple<SlotTuple, Address, uint64_t>;

std::vector<internal::AnyArray> ArraysOf(
    const std::vector<ArrayTuple>& tuples) {
  std::vector<internal::AnyArray> arrays;
  for (const auto& [slot, address, stride_bytes] : tuples) {
    arrays.push_back({SlotOf(slot), At<char>(address), stride_bytes});
  }
  return arrays;
}

// Rows of arrays of the trainer.
class ArrayTable : public TableHandle {
 public:
  ArrayTable(uint64_t rows, int64_t first_id,
             const std::vector<ArrayTuple>& arrays, TableOptions options)
      : table_(rows, ArraysOf(arrays), std::move(options), /*holds=*/{},
               first_id) {
    Check(table_.status());
  }
  TableState* state() override { return &table_; }
  void SetArrays(const std::vector<ArrayTuple>& arrays) {
    Check(table_.SetArrays(ArraysOf(arrays)));
  }
  void Mark(Address ids, uint64_t count) {
    const ReleaseGil release;
    Check(table_.MarkUpserted({At<const int64_t>(ids), count}));
  }

 private:
  VectorTable table_;
};

// Blocks of rows in arrays that Python keeps: ids, and by slot the address and
// the bytes from row to row.
using BlockTuple =
    std::tuple<uint64_t, Address, std::vector<std::pair<Address, uint64_t>>>;

class PyRows : public RowSource {
 public:
  PyRows(const std::vector<BlockTuple>& blocks, PyRef held)
      : held_(std::move(held)), blocks_(blocks), slots_(blocks.size()) {
    for (size_t b = 0; b < blocks_.size(); ++b) {
      for (const auto& [address, stride] : std::get<2>(blocks_[b])) {
        slots_[b].push_back({At<const void>(address), stride});
      }
    }
  }
  uint64_t block_count() const override { return blocks_.size(); }
  absl::StatusOr<RowBlock> Block(uint64_t block) const override {
    const auto& [count, ids, slots] = blocks_[block];
    return RowBlock{{At<const int64_t>(ids), count}, slots_[block]};
  }

 private:
  const PyRef held_;
  const std::vector<BlockTuple> blocks_;
  std::vector<std::vector<RowBlock::SlotValues>> slots_;
};

// The marks of a table in Python, some of which it makes only when they are
// taken.
class PyTracker : public ChangeTracker {
 public:
  PyTracker(uint64_t max_bytes, PyRef functions)
      : marks_(max_bytes), functions_(std::move(functions)) {}
  RowTracker* marks() { return &marks_; }

  absl::StatusOr<Consumer> AddConsumer(absl::string_view name) override {
    return marks_.AddConsumer(name);
  }
  absl::Status RemoveConsumer(Consumer consumer) override {
    return marks_.RemoveConsumer(consumer);
  }
  absl::StatusOr<Changes> Take(Consumer consumer) override {
    const absl::Status marked =
        WithPython("mark_changes", [&] { functions_->attr("mark_changes")(); });
    if (!marked.ok()) return marked;
    return marks_.Take(consumer);
  }
  absl::Status Return(Consumer consumer, Changes&& changes) override {
    return marks_.Return(consumer, std::move(changes));
  }

 private:
  RowTracker marks_;
  const PyRef functions_;
};

// The parts of the slots that this rank has: slot, first element, elements.
using ColumnTuples =
    std::optional<std::vector<std::tuple<uint32_t, uint32_t, uint32_t>>>;

// A table whose rows are in Python. `functions` has all_rows() and
// rows_of(ids), which return blocks and what keeps them, restore(ids,
// [values]), erase(ids), clear() and mark_changes(); ids and values are bytes.
// converter(slot, dtype, elements) is None or a function of ids and values.
class PyTable : public TableState, public LiveTable {
 public:
  PyTable(std::vector<Slot> slots, const ColumnTuples& columns,
          const TableOptions& options, nb::object functions, bool tracked)
      : slots_(std::move(slots)),
        options_(options),
        functions_(Hold(std::move(functions))) {
    if (columns.has_value()) {
      columns_.emplace();
      for (const auto& [slot, first, elements] : *columns) {
        columns_->push_back({slot, first, elements});
      }
    }
    if (tracked) tracker_.emplace(options.tracker_bytes, functions_);
  }

  std::vector<Slot> slots() const override { return slots_; }
  SliceHash slice_hash() const override { return options_.slice_hash; }
  std::vector<std::string> optimizer_slots() const override {
    return options_.optimizer_slots;
  }
  PyTracker* tracker() override { return tracker_ ? &*tracker_ : nullptr; }
  std::optional<std::vector<Columns>> columns() const override {
    return columns_;
  }
  SlotConverter Converter(const Slot& from, const Slot& to) const override {
    PyRef function;
    const absl::Status found = WithPython("converter", [&] {
      const nb::object result = functions_->attr("converter")(
          from.name, std::string(DTypeName(from.dtype)), from.elements);
      if (!result.is_none()) function = Hold(result);
    });
    // A failure is that of the restore, which calls the function.
    if (!found.ok()) {
      return [found](auto&&...) -> absl::Status { return absl::Status(found); };
    }
    if (function == nullptr) return nullptr;
    return [function, to](const Slot& in_step, absl::Span<const int64_t> ids,
                          const char* rows, char* converted) {
      return WithPython("convert", [&] {
        const auto bytes = nb::cast<nb::bytes>(
            (*function)(BytesOf(ids), std::string(DTypeName(in_step.dtype)),
                        nb::bytes(rows, ids.size() * in_step.row_bytes())));
        if (bytes.size() != ids.size() * to.row_bytes()) {
          throw StatusError(absl::InternalError(
              absl::StrCat("it returned ", bytes.size(), " bytes, expected ",
                           ids.size() * to.row_bytes())));
        }
        std::memcpy(converted, bytes.c_str(), bytes.size());
      });
    };
  }
  absl::StatusOr<std::unique_ptr<RowSource>> AllRows() const override {
    return Rows("all_rows", [&] { return functions_->attr("all_rows")(); });
  }
  absl::StatusOr<std::unique_ptr<RowSource>> RowsOf(
      absl::Span<const int64_t> ids) const override {
    return Rows("rows_of",
                [&] { return functions_->attr("rows_of")(BytesOf(ids)); });
  }
  LiveTable* Live(absl::Span<const std::string> slots) override {
    live_slots_.clear();
    for (const std::string& name : slots) {
      for (const Slot& slot : slots_) {
        if (slot.name == name) live_slots_.push_back(slot);
      }
    }
    return live_slots_.size() == slots.size() ? this : nullptr;
  }

  absl::Status Clear() override {
    return WithPython("clear_rows", [&] { functions_->attr("clear")(); });
  }
  absl::Status Consume(int /*worker*/, const Batch& batch) override {
    return WithPython("restore_rows", [&] {
      nb::dict values;
      for (size_t s = 0; s < live_slots_.size(); ++s) {
        values[live_slots_[s].name.c_str()] = nb::bytes(
            batch.slots[s], batch.ids.size() * live_slots_[s].row_bytes());
      }
      functions_->attr("restore")(BytesOf(batch.ids), values);
    });
  }
  absl::Status Erase(int /*worker*/, absl::Span<const int64_t> ids) override {
    return WithPython("erase_rows",
                      [&] { functions_->attr("erase")(BytesOf(ids)); });
  }

 private:
  template <typename Call>
  static absl::StatusOr<std::unique_ptr<RowSource>> Rows(const char* name,
                                                         const Call& call) {
    std::unique_ptr<RowSource> rows;
    const absl::Status called = WithPython(name, [&] {
      const nb::object result = call();
      rows = std::make_unique<PyRows>(
          nb::cast<std::vector<BlockTuple>>(result[0]), Hold(result));
    });
    if (!called.ok()) return called;
    return rows;
  }

  const std::vector<Slot> slots_;
  const TableOptions options_;
  const PyRef functions_;
  std::optional<std::vector<Columns>> columns_;
  std::optional<PyTracker> tracker_;
  std::vector<Slot> live_slots_;
};

// The Python object's part of a PyTable. It holds the functions weakly, because
// they hold it.
class CustomTable : public TableHandle {
 public:
  CustomTable(const std::vector<SlotTuple>& slots, const ColumnTuples& columns,
              const TableOptions& options, nb::object functions, bool tracked)
      : table_(SlotsOf(slots), columns, options, std::move(functions),
               tracked) {}
  TableState* state() override { return &table_; }
  void Mark(Address ids, uint64_t count, bool erased) {
    if (table_.tracker() == nullptr) return;  // every save is full
    const ReleaseGil release;
    const absl::Span<const int64_t> marked(At<const int64_t>(ids), count);
    RowTracker* const marks = table_.tracker()->marks();
    erased ? marks->MarkErased(marked) : marks->MarkUpserted(marked);
  }

 private:
  PyTable table_;
};

SliceHash SliceHashOf(const std::string& name) {
  if (name == "mix") return SliceHash::kMix;
  if (name == "modulo") return SliceHash::kModulo;
  throw StatusError(absl::InvalidArgumentError(
      absl::StrCat("slice_hash is \"", name, "\"; expected modulo or mix")));
}

void CheckInRanges(const TableSharding& ranges, uint32_t world_size,
                   absl::Span<const int64_t> ids,
                   const std::vector<uint32_t>& ranks) {
  const size_t bounds = ranges.id_bounds().size();
  if (bounds != 0 && bounds != world_size + size_t{1}) {
    throw StatusError(absl::InvalidArgumentError(
        absl::StrCat("the sharding has ", bounds, " bounds of ids; expected ",
                     world_size + size_t{1}, " for ", world_size, " ranks")));
  }
  for (size_t i = 0; i < ids.size(); ++i) {
    if (ranks[i] < world_size) continue;
    throw StatusError(absl::InvalidArgumentError(absl::StrCat(
        "id ", ids[i], " is in no rank's range; the ids of all are ",
        ranges.RangeOf(0, world_size).first, " to below ",
        ranges.RangeOf(world_size - 1, world_size).second)));
  }
}

// Sets ranks[i], 64-bit, to the rank of ids[i]; a replicated table has none.
void RanksOf(const nb::object& sharding, const std::string& slice_hash,
             Address ids, uint64_t count, uint32_t world_size, Address ranks) {
  const TableSharding declared = ShardingOf(sharding);
  const SliceHash hash = SliceHashOf(slice_hash);
  const absl::Span<const int64_t> from(At<const int64_t>(ids), count);
  std::vector<uint32_t> found(count);
  if (declared.kind() == Item::Sharding::kBySlices) {
    const std::vector<uint32_t> bounds = EvenSliceBounds(world_size);
    for (uint64_t i = 0; i < count; ++i) {
      const auto after = std::upper_bound(bounds.begin(), bounds.end(),
                                          SliceOf(from[i], hash));
      found[i] = static_cast<uint32_t>(after - bounds.begin() - 1);
    }
  } else if (declared.kind() == Item::Sharding::kByModulo) {
    for (uint64_t i = 0; i < count; ++i) {
      found[i] =
          static_cast<uint32_t>(static_cast<uint64_t>(from[i]) % world_size);
    }
  } else {
    declared.ranks_of()(from, world_size, absl::MakeSpan(found));
    if (declared.kind() == Item::Sharding::kByRange) {
      CheckInRanges(declared, world_size, from, found);
    }
  }
  std::copy(found.begin(), found.end(), At<int64_t>(ranks));
}

TableOptions OptionsOf(const std::string& slice_hash,
                       std::vector<std::string> optimizer_slots,
                       uint64_t tracker_bytes, int threads) {
  TableOptions options;
  options.slice_hash = SliceHashOf(slice_hash);
  options.optimizer_slots = std::move(optimizer_slots);
  options.tracker_bytes = tracker_bytes;
  options.threads = threads;
  return options;
}

}  // namespace

TableSharding ShardingOf(const nb::object& sharding) {
  if (sharding.is_none()) return {};
  if (nb::isinstance<nb::tuple>(sharding)) {
    const nb::object function = sharding[1];
    return TableSharding::ByBatchFunction(
        nb::cast<std::string>(sharding[0]),
        [held = Hold(function)](absl::Span<const int64_t> ids,
                                uint32_t world_size,
                                absl::Span<uint32_t> ranks) {
          Check(WithPython("sharding", [&] {
            const auto bytes =
                nb::cast<nb::bytes>((*held)(BytesOf(ids), world_size));
            if (bytes.size() != ranks.size() * sizeof(uint32_t)) {
              throw StatusError(absl::InternalError(
                  absl::StrCat("it returned ", bytes.size(), " bytes for ",
                               ids.size(), " ids")));
            }
            std::memcpy(ranks.data(), bytes.c_str(), bytes.size());
          }));
        });
  }
  if (nb::isinstance<nb::int_>(sharding)) {
    return TableSharding::ByRange(nb::cast<int64_t>(sharding));
  }
  if (nb::isinstance<nb::list>(sharding)) {
    return TableSharding::ByRange(nb::cast<std::vector<int64_t>>(sharding));
  }
  const auto name = nb::cast<std::string>(sharding);
  if (name == "slices") return TableSharding::BySlices();
  if (name == "modulo") return TableSharding::ByModulo();
  if (name == "replicated") return TableSharding::Replicated();
  throw StatusError(absl::InvalidArgumentError(
      absl::StrCat("sharding is \"", name,
                   "\"; expected slices, modulo, replicated, or a tuple "
                   "(\"function\", name, f)")));
}

void BindTables(nb::module_& module) {
  module.def("ranks_of", &RanksOf);
  nb::class_<TableHandle>(module, "TableHandle");
  nb::class_<Table, TableHandle>(module, "Table")
      .def("__init__",
           [](Table* self, const std::vector<SlotTuple>& slots,
              const std::string& slice_hash,
              std::vector<std::string> optimizer_slots, uint64_t tracker_bytes,
              int threads) {
             new (self)
                 Table(slots, OptionsOf(slice_hash, std::move(optimizer_slots),
                                        tracker_bytes, threads));
           })
      .def("size", &Table::size, nb::call_guard<ReleaseGil>())
      .def("insert", &Table::Insert)
      .def("find", &Table::Find)
      .def("erase", &Table::Erase)
      .def("mark", &Table::Mark)
      .def("clear", &Table::Clear)
      .def("rows", &Table::Rows)
      .def("gather", &Table::Gather)
      .def("put", &Table::Put);
  nb::class_<ArrayTable, TableHandle>(module, "ArrayTable")
      .def("__init__",
           [](ArrayTable* self, uint64_t rows, int64_t first_id,
              const std::vector<ArrayTuple>& arrays,
              const std::string& slice_hash,
              std::vector<std::string> optimizer_slots, int threads) {
             new (self)
                 ArrayTable(rows, first_id, arrays,
                            OptionsOf(slice_hash, std::move(optimizer_slots),
                                      TableOptions().tracker_bytes, threads));
           })
      .def("set_arrays", &ArrayTable::SetArrays)
      .def("mark", &ArrayTable::Mark);
  nb::class_<CustomTable, TableHandle>(module, "CustomTable")
      .def("__init__",
           [](CustomTable* self, const std::vector<SlotTuple>& slots,
              const ColumnTuples& columns, nb::object functions,
              const std::string& slice_hash,
              std::vector<std::string> optimizer_slots, uint64_t tracker_bytes,
              bool tracked) {
             new (self)
                 CustomTable(slots, columns,
                             OptionsOf(slice_hash, std::move(optimizer_slots),
                                       tracker_bytes, TableOptions().threads),
                             std::move(functions), tracked);
           })
      .def("mark", &CustomTable::Mark);
}

}  // namespace ckptdb::python
