// SPDX-License-Identifier: Apache-2.0
#include "python/binding/tables.h"

#include <nanobind/stl/optional.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <chrono>
#include <cstring>
#include <mutex>
#include <utility>

#include "python/binding/errors.h"

namespace ckptdb::python {
namespace {

using nb::literals::operator""_a;

// Addresses of arrays, which Python keeps alive during the call.
using Address = uintptr_t;

template <typename T>
T* At(Address address) {
  return reinterpret_cast<T*>(address);
}

// Name, dtype, elements, codec.
using SlotTuple = std::tuple<std::string, std::string, uint32_t, std::string>;

Slot SlotOf(const SlotTuple& tuple) {
  const auto& [name, dtype, elements, codec] = tuple;
  return {name, Check(ParseDType(dtype)), elements, Check(ParseCodec(codec))};
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
    const nb::gil_scoped_release release;
    const auto lock = Locked<Exclusive>(mutex());
    std::vector<ColumnTable::Inserted> inserted;
    Check(table_.Insert({At<const int64_t>(ids), count}, &inserted));
    for (uint64_t i = 0; i < count; ++i) {
      At<int64_t>(rows)[i] = static_cast<int64_t>(inserted[i].row);
    }
  }
  void Find(Address ids, uint64_t count, Address rows) {
    const nb::gil_scoped_release release;
    const auto lock = Locked<Shared>(mutex());
    table_.FindRows({At<const int64_t>(ids), count},
                    {At<int64_t>(rows), count});
  }
  uint64_t Erase(Address ids, uint64_t count) {
    const nb::gil_scoped_release release;
    const auto lock = Locked<Exclusive>(mutex());
    return table_.Erase({At<const int64_t>(ids), count});
  }
  void Mark(Address ids, uint64_t count) {
    const nb::gil_scoped_release release;
    table_.MarkUpserted({At<const int64_t>(ids), count});
  }
  void Clear() {
    const nb::gil_scoped_release release;
    const auto lock = Locked<Exclusive>(mutex());
    table_.Clear();
  }
  // Writes up to `count` ids and their rows; returns how many rows exist.
  uint64_t Rows(Address ids, Address rows, uint64_t count) {
    const nb::gil_scoped_release release;
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
    const nb::gil_scoped_release release;
    const auto lock = Locked<Shared>(mutex());
    Check(table_.Gather(slot, {At<const int64_t>(rows), count},
                        At<void>(values)));
  }
  void Put(const std::string& slot, Address rows, uint64_t count,
           Address values) {
    const nb::gil_scoped_release release;
    const auto lock = Locked<Shared>(mutex());
    Check(table_.Put(slot, {At<const int64_t>(rows), count},
                     At<const void>(values)));
  }

 private:
  static std::vector<Slot> SlotsOf(const std::vector<SlotTuple>& tuples) {
    std::vector<Slot> slots;
    for (const SlotTuple& each : tuples) slots.push_back(SlotOf(each));
    return slots;
  }

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
  ArrayTable(uint64_t rows, const std::vector<ArrayTuple>& arrays,
             TableOptions options)
      : table_(rows, ArraysOf(arrays), std::move(options)) {
    Check(table_.status());
  }
  TableState* state() override { return &table_; }
  void SetArrays(const std::vector<ArrayTuple>& arrays) {
    Check(table_.SetArrays(ArraysOf(arrays)));
  }
  void Mark(Address ids, uint64_t count) {
    const nb::gil_scoped_release release;
    Check(table_.MarkUpserted({At<const int64_t>(ids), count}));
  }

 private:
  VectorTable table_;
};

TableOptions OptionsOf(const std::string& slice_hash,
                       std::vector<std::string> optimizer_slots,
                       uint64_t tracker_bytes, int threads) {
  TableOptions options;
  if (slice_hash == "mix") {
    options.slice_hash = SliceHash::kMix;
  } else if (slice_hash != "modulo") {
    throw StatusError(absl::InvalidArgumentError(absl::StrCat(
        "slice_hash is \"", slice_hash, "\"; expected modulo or mix")));
  }
  options.optimizer_slots = std::move(optimizer_slots);
  options.tracker_bytes = tracker_bytes;
  options.threads = threads;
  return options;
}

}  // namespace

void BindTables(nb::module_& module) {
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
      .def("size", &Table::size, nb::call_guard<nb::gil_scoped_release>())
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
           [](ArrayTable* self, uint64_t rows,
              const std::vector<ArrayTuple>& arrays,
              const std::string& slice_hash,
              std::vector<std::string> optimizer_slots, int threads) {
             new (self)
                 ArrayTable(rows, arrays,
                            OptionsOf(slice_hash, std::move(optimizer_slots),
                                      TableOptions().tracker_bytes, threads));
           })
      .def("set_arrays", &ArrayTable::SetArrays)
      .def("mark", &ArrayTable::Mark);
}

}  // namespace ckptdb::python
