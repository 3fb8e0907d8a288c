// SPDX-License-Identifier: Apache-2.0
#include "tools/files/import_state.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "schema/status.h"

namespace ckptdb::tool {
namespace {

constexpr absl::string_view kIdsSuffix = ".ids";

bool IsIdType(DType dtype, bool any_integer) {
  if (dtype == DType::kI64) return true;
  return any_integer &&
         (dtype == DType::kU64 || dtype == DType::kI32 || dtype == DType::kU32);
}

template <typename T>
void WidenIds(const char* from, std::vector<int64_t>* ids) {
  for (int64_t& id : *ids) {
    T value = 0;
    std::memcpy(&value, from, sizeof(T));
    id = static_cast<int64_t>(value);
    from += sizeof(T);
  }
}

// An unsigned id above 2^63 - 1 becomes the negative one with its bits.
void CopyIds(const FileArray& array, std::vector<int64_t>* ids) {
  switch (array.spec.dtype) {
    case DType::kI32:
      return WidenIds<int32_t>(array.data, ids);
    case DType::kU32:
      return WidenIds<uint32_t>(array.data, ids);
    default:
      return WidenIds<int64_t>(array.data, ids);
  }
}

// Returns the table whose name is the longest that begins the array's name.
ArrayTable* TableOf(const std::string& array,
                    std::map<std::string, ArrayTable>* tables) {
  for (size_t dot = array.rfind('.'); dot != std::string::npos && dot > 0;
       dot = array.rfind('.', dot - 1)) {
    const auto found = tables->find(array.substr(0, dot));
    if (found != tables->end()) return &found->second;
  }
  return nullptr;
}

absl::Status CheckRows(const std::string& table, const FileArray& ids,
                       const FileArray& slot) {
  if (!slot.spec.shape.empty() && slot.spec.shape[0] == ids.spec.shape[0]) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(absl::StrCat(
      "table \"", table, "\": \"", slot.spec.name, "\" is ",
      ToString(slot.spec.shape), ", but \"", ids.spec.name, "\" is ",
      ToString(ids.spec.shape), "; all need the same number of rows"));
}

std::map<std::string, ArrayTable> Candidates(
    const std::vector<FileArray>& arrays, const std::set<std::string>& forced) {
  std::map<std::string, ArrayTable> tables;
  for (size_t i = 0; i < arrays.size(); ++i) {
    const ArraySpec& spec = arrays[i].spec;
    if (!absl::EndsWith(spec.name, kIdsSuffix) || spec.shape.size() != 1 ||
        arrays[i].tensor_only) {
      continue;
    }
    const std::string name =
        spec.name.substr(0, spec.name.size() - kIdsSuffix.size());
    if (name.empty() || !IsIdType(spec.dtype, forced.contains(name))) continue;
    tables[name] = {name, i, {}};
  }
  return tables;
}

// Returns whether all slots fit a table that was not asked for.
bool IsTable(const ArrayTable& table, const std::vector<FileArray>& arrays) {
  return !table.slots.empty() && table.slots.size() <= kMaxSlots &&
         std::all_of(table.slots.begin(), table.slots.end(), [&](size_t i) {
           const ArraySpec& spec = arrays[i].spec;
           return CheckRows(table.name, arrays[table.ids], arrays[i]).ok() &&
                  SlotOf(spec.name, spec).ok();
         });
}

absl::Status CheckForced(const std::map<std::string, ArrayTable>& tables,
                         const std::vector<FileArray>& arrays,
                         const std::set<std::string>& forced) {
  for (const std::string& name : forced) {
    const auto found = tables.find(name);
    if (found == tables.end()) {
      return absl::InvalidArgumentError(
          absl::StrCat("there is no table \"", name, "\": expected an array \"",
                       name, kIdsSuffix, "\" of integers [rows]"));
    }
    for (const size_t i : found->second.slots) {
      CKPTDB_RETURN_IF_ERROR(
          CheckRows(name, arrays[found->second.ids], arrays[i]));
    }
  }
  return absl::OkStatus();
}

absl::Status AddFileTable(const FileTable& table, ImportState* state) {
  std::vector<Slot> slots;
  for (size_t i = 0; i < table.slots.size(); ++i) {
    CKPTDB_ASSIGN_OR_RETURN(
        slots.emplace_back(),
        SlotOf(table.slots[i], table.blocks.front().slots[i].spec));
  }
  auto rows = std::make_unique<FileRows>();
  for (const FileTable::Block& block : table.blocks) {
    for (size_t i = 0; i < slots.size(); ++i) {
      const FileArray& slot = block.slots[i];
      CKPTDB_RETURN_IF_ERROR(CheckRows(table.name, block.ids, slot));
      CKPTDB_ASSIGN_OR_RETURN(const Slot same,
                              SlotOf(table.slots[i], slot.spec));
      if (same == slots[i]) continue;
      return absl::InvalidArgumentError(absl::StrCat(
          "table \"", table.name, "\": \"", slot.spec.name, "\" is ",
          DTypeName(slot.spec.dtype), ToString(slot.spec.shape),
          ", unlike the slot of other ranks"));
    }
    CKPTDB_RETURN_IF_ERROR(rows->Add(block.ids, block.slots));
  }
  state->state.AddTable(table.name, std::move(slots), rows.get());
  ++state->table_count;
  state->row_count += rows->rows();
  state->rows.push_back(std::move(rows));
  return absl::OkStatus();
}

absl::Status AddArrayTable(const std::vector<FileArray>& arrays,
                           const ArrayTable& table, ImportState* state) {
  std::vector<Slot> slots;
  std::vector<FileArray> values;
  for (const size_t i : table.slots) {
    CKPTDB_ASSIGN_OR_RETURN(
        slots.emplace_back(),
        SlotOf(arrays[i].spec.name.substr(table.name.size() + 1),
               arrays[i].spec));
    values.push_back(arrays[i]);
  }
  auto rows = std::make_unique<FileRows>();
  CKPTDB_RETURN_IF_ERROR(rows->Add(arrays[table.ids], values));
  state->state.AddTable(table.name, std::move(slots), rows.get());
  ++state->table_count;
  state->row_count += rows->rows();
  state->rows.push_back(std::move(rows));
  return absl::OkStatus();
}

}  // namespace

absl::Status FileRows::Add(const FileArray& ids,
                           const std::vector<FileArray>& slots) {
  const auto count = static_cast<size_t>(ids.spec.shape[0]);
  Rows& rows = blocks_.emplace_back();
  const bool usable =
      DTypeBytes(ids.spec.dtype) == sizeof(int64_t) &&
      reinterpret_cast<uintptr_t>(ids.data) % alignof(int64_t) == 0;
  if (usable) {
    rows.ids = {reinterpret_cast<const int64_t*>(ids.data), count};
  } else {
    rows.copied_ids.resize(count);
    CopyIds(ids, &rows.copied_ids);
    rows.ids = rows.copied_ids;
  }
  for (const FileArray& slot : slots) {
    rows.slots.push_back({slot.data, count == 0 ? 0 : slot.spec.bytes / count});
  }
  rows_ += count;
  return absl::OkStatus();
}

absl::StatusOr<RowBlock> FileRows::Block(uint64_t block) const {
  const Rows& rows = blocks_[block];
  return RowBlock{rows.ids, rows.slots};
}

absl::StatusOr<Slot> SlotOf(std::string name, const ArraySpec& spec) {
  uint64_t elements = 1;
  for (size_t i = 1; i < spec.shape.size(); ++i) {
    const auto extent = static_cast<uint64_t>(spec.shape[i]);
    // Dimensions beside a 0 may be too large to multiply.
    elements = extent > kMaxSlotBytes ? extent : elements * extent;
    if (elements > kMaxSlotBytes) break;
  }
  if (spec.shape.empty() || elements == 0 ||
      elements * DTypeBytes(spec.dtype) > kMaxSlotBytes) {
    return absl::InvalidArgumentError(
        absl::StrCat("\"", spec.name, "\" is ", ToString(spec.shape),
                     ", but a slot has [rows, ...] of 1 to ", kMaxSlotBytes,
                     " bytes a row"));
  }
  return Slot{std::move(name), spec.dtype, static_cast<uint32_t>(elements),
              Codec::kNone};
}

absl::StatusOr<std::vector<ArrayTable>> FindTables(
    const std::vector<FileArray>& arrays, const std::set<std::string>& forced) {
  std::map<std::string, ArrayTable> tables = Candidates(arrays, forced);
  for (size_t i = 0; i < arrays.size(); ++i) {
    if (arrays[i].tensor_only) continue;
    ArrayTable* table = TableOf(arrays[i].spec.name, &tables);
    if (table != nullptr && table->ids != i) table->slots.push_back(i);
  }
  CKPTDB_RETURN_IF_ERROR(CheckForced(tables, arrays, forced));
  std::vector<ArrayTable> found;
  for (auto& [name, table] : tables) {
    if (forced.contains(name) || IsTable(table, arrays)) {
      found.push_back(std::move(table));
    }
  }
  return found;
}

absl::Status AddArrays(const LoadedFiles& files,
                       const std::vector<ArrayTable>& tables,
                       ImportState* state) {
  std::set<absl::string_view> names;
  for (const FileArray& array : files.arrays) {
    if (names.insert(array.spec.name).second) continue;
    return absl::InvalidArgumentError(
        absl::StrCat("two arrays have the name \"", array.spec.name, "\""));
  }
  for (const FileTable& table : files.tables) {
    CKPTDB_RETURN_IF_ERROR(AddFileTable(table, state));
  }
  std::set<size_t> in_tables;
  for (const ArrayTable& table : tables) {
    CKPTDB_RETURN_IF_ERROR(AddArrayTable(files.arrays, table, state));
    in_tables.insert(table.ids);
    in_tables.insert(table.slots.begin(), table.slots.end());
  }
  for (size_t i = 0; i < files.arrays.size(); ++i) {
    if (in_tables.contains(i)) continue;
    const FileArray& array = files.arrays[i];
    state->state.AddTensor(
        array.spec.name,
        {array.spec.dtype, array.spec.shape, array.data, {}, {}});
    ++state->tensor_count;
  }
  for (const auto& [name, bytes] : files.blobs) {
    state->state.AddBlob(name, bytes);
  }
  return absl::OkStatus();
}

}  // namespace ckptdb::tool
