// SPDX-License-Identifier: Apache-2.0
#include "cuda/device_table.h"

#include <cuda_runtime_api.h>

#include <algorithm>
#include <limits>
#include <optional>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "cuda/runtime/buffer.h"
#include "cuda/runtime/device_context.h"
#include "cuda/tables/device_marks.h"
#include "cuda/tables/row_capture.h"
#include "cuda/tables/row_index.h"
#include "cuda/tables/row_list.h"
#include "cuda/tables/row_writer.h"
#include "cuda/tables/table_rows.h"
#include "manager/internal/tensor_device.h"
#include "schema/status.h"

namespace ckptdb {
namespace {

using internal::RowCapture;
using internal::RowIds;
using internal::RowList;
using internal::TableRows;

static_assert(DeviceTable::kMaxRows == internal::kMaxDeviceRows);

absl::Status CheckArray(const DeviceTable::Array& array, uint64_t rows,
                        int device) {
  const std::string what =
      absl::StrCat("the array of slot \"", array.slot.name, "\"");
  const uint64_t row_bytes = array.slot.row_bytes();
  CKPTDB_ASSIGN_OR_RETURN(
      const uint64_t bytes,
      internal::BytesOfRows(
          what, rows, row_bytes,
          array.stride_bytes == 0 ? row_bytes : array.stride_bytes));
  if (array.data == nullptr) {
    return absl::InvalidArgumentError(absl::StrCat(what, " is null"));
  }
  return internal::CheckMemory(what, array.data, bytes, device);
}

// Checks that all ids computed from row numbers fit in int64_t.
absl::Status CheckNumbers(uint64_t rows, const DeviceTable::Options& options) {
  if (options.id_step < 1) {
    return absl::InvalidArgumentError(
        absl::StrCat("DeviceTable::Options::id_step is ", options.id_step,
                     ", expected at least 1"));
  }
  const uint64_t room =
      static_cast<uint64_t>(std::numeric_limits<int64_t>::max()) -
      static_cast<uint64_t>(options.first_id);
  if (rows <= 1 || room / static_cast<uint64_t>(options.id_step) >= rows - 1) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(absl::StrCat(
      "the ids of ", rows, " rows from first_id ", options.first_id,
      " on with id_step ", options.id_step, " exceed 2^63 - 1"));
}

absl::Status CheckTable(CudaDevice* device, uint64_t rows,
                        const std::vector<DeviceTable::Array>& arrays,
                        const DeviceTable::Options& options) {
  if (device == nullptr) {
    return absl::InvalidArgumentError("the device of a DeviceTable is null");
  }
  internal::DeviceContext* const context = device->context();
  if (context == nullptr) {
    return absl::FailedPreconditionError(
        "a DeviceTable needs a CUDA device, and none was found; use a "
        "VectorTable or ColumnTable of manager/tables.h in host memory");
  }
  if (rows > DeviceTable::kMaxRows) {
    return absl::InvalidArgumentError(absl::StrCat("a DeviceTable of ", rows,
                                                   " rows; the limit is ",
                                                   DeviceTable::kMaxRows));
  }
  if (rows == 0) return absl::OkStatus();
  CKPTDB_ASSIGN_OR_RETURN(const internal::DeviceScope scope, context->Enter());
  if (options.ids != nullptr) {
    CKPTDB_RETURN_IF_ERROR(
        internal::CheckMemory("DeviceTable::Options::ids", options.ids,
                              rows * sizeof(int64_t), context->device()));
  } else {
    CKPTDB_RETURN_IF_ERROR(CheckNumbers(rows, options));
  }
  for (const DeviceTable::Array& array : arrays) {
    CKPTDB_RETURN_IF_ERROR(CheckArray(array, rows, context->device()));
  }
  return absl::OkStatus();
}

std::vector<Slot> SlotsOf(const std::vector<DeviceTable::Array>& arrays) {
  std::vector<Slot> slots;
  for (const DeviceTable::Array& array : arrays) slots.push_back(array.slot);
  return slots;
}

TableRows RowsOfTable(uint64_t rows,
                      const std::vector<DeviceTable::Array>& arrays,
                      const DeviceTable::Options& options) {
  TableRows table;
  table.rows = rows;
  table.ids = options.ids;
  table.free_id = options.free_id;
  table.first_id = options.first_id;
  table.id_step = options.id_step;
  table.slots = SlotsOf(arrays);
  table.stream = static_cast<cudaStream_t>(options.stream);
  for (const DeviceTable::Array& array : arrays) {
    const auto row_bytes = static_cast<uint32_t>(array.slot.row_bytes());
    const uint64_t stride =
        array.stride_bytes == 0 ? row_bytes : array.stride_bytes;
    table.values.push_back({static_cast<char*>(array.data), stride, row_bytes});
  }
  return table;
}

absl::Status NoSuchRow(int64_t id) {
  return absl::InternalError(absl::StrCat(
      "row ", id,
      " was marked as upserted, but the table in device memory has no such "
      "row"));
}

}  // namespace

// Members are destroyed in reverse order: users before what they use.
struct DeviceTable::Parts {
  internal::DeviceContext* context = nullptr;
  TableRows rows;
  std::unique_ptr<internal::DeviceMarks> marks;
  std::unique_ptr<internal::RowWriter> live;

  // Returns the rows of ids that do not come from a taken set.
  absl::StatusOr<std::vector<uint32_t>> FindRows(
      absl::Span<const int64_t> ids) const {
    std::vector<uint32_t> found(ids.size());
    if (rows.ids == nullptr) {
      for (size_t i = 0; i < ids.size(); ++i) {
        const auto row = internal::RowOfId(rows, ids[i]);
        if (!row.has_value()) return NoSuchRow(ids[i]);
        found[i] = *row;
      }
      return found;
    }
    absl::flat_hash_map<int64_t, uint32_t> wanted;
    for (const int64_t id : ids) wanted.emplace(id, kNoRow);
    std::vector<int64_t> all;
    CKPTDB_RETURN_IF_ERROR(marks->ReadIds(&all));
    for (uint64_t row = 0; row < all.size(); ++row) {
      const auto each = wanted.find(all[row]);
      if (each != wanted.end()) each->second = static_cast<uint32_t>(row);
    }
    for (size_t i = 0; i < ids.size(); ++i) {
      found[i] = wanted.at(ids[i]);
      if (found[i] == kNoRow || ids[i] == rows.free_id) {
        return NoSuchRow(ids[i]);
      }
    }
    return found;
  }

  // Returns the rows of the ids, in the same order.
  absl::StatusOr<RowList> List(absl::Span<const int64_t> ids) const {
    if (std::optional<RowList> taken = marks->FindTaken(ids)) {
      return *std::move(taken);
    }
    CKPTDB_ASSIGN_OR_RETURN(const std::vector<uint32_t> found, FindRows(ids));
    return marks->Upload(found);
  }

  absl::StatusOr<std::unique_ptr<RowCapture>> Capture(
      const absl::Span<const int64_t>* wanted, internal::RowForm form) const {
    CKPTDB_ASSIGN_OR_RETURN(const internal::DeviceScope scope,
                            context->Enter());
    CKPTDB_RETURN_IF_ERROR(marks->AwaitTrainer());
    if (wanted != nullptr) {
      CKPTDB_ASSIGN_OR_RETURN(RowList list, List(*wanted));
      return RowCapture::Begin(context, &rows, std::move(list), RowIds(*wanted),
                               form);
    }
    std::vector<int64_t> all;
    CKPTDB_ASSIGN_OR_RETURN(RowList list, marks->ListAll(&all));
    return RowCapture::Begin(context, &rows, std::move(list),
                             RowIds(std::move(all)), form);
  }

  static constexpr uint32_t kNoRow = ~uint32_t{0};
};

DeviceTable::DeviceTable(std::vector<Slot> slots, TableOptions options,
                         std::unique_ptr<Parts> parts)
    : AdaptedTable(absl::OkStatus(), std::move(slots), std::move(options)),
      parts_(std::move(parts)) {}

DeviceTable::~DeviceTable() = default;

absl::StatusOr<std::unique_ptr<DeviceTable>> DeviceTable::Make(
    CudaDevice* device, uint64_t rows, const std::vector<Array>& arrays) {
  return Make(device, rows, arrays, Options());
}

absl::StatusOr<std::unique_ptr<DeviceTable>> DeviceTable::Make(
    CudaDevice* device, uint64_t rows, const std::vector<Array>& arrays,
    Options options) {
  CKPTDB_RETURN_IF_ERROR(CheckTable(device, rows, arrays, options));
  auto parts = std::make_unique<Parts>();
  parts->context = device->context();
  parts->rows = RowsOfTable(rows, arrays, options);
  Parts* const made = parts.get();
  std::unique_ptr<DeviceTable> table(new DeviceTable(
      SlotsOf(arrays), std::move(options.table), std::move(parts)));
  CKPTDB_RETURN_IF_ERROR(table->status());
  CKPTDB_ASSIGN_OR_RETURN(
      made->marks, internal::DeviceMarks::Make(made->context, &made->rows,
                                               table->options().tracker_bytes));
  return table;
}

absl::Status DeviceTable::MarkUpserted(const int32_t* rows, uint64_t count) {
  return parts_->marks->MarkUpserted(rows, count);
}

absl::Status DeviceTable::MarkUpserted(const int64_t* rows, uint64_t count) {
  return parts_->marks->MarkUpserted(rows, count);
}

absl::Status DeviceTable::MarkErased(absl::Span<const int64_t> ids) {
  if (parts_->rows.ids == nullptr) {
    return absl::FailedPreconditionError(
        "DeviceTable::MarkErased: a table without Options::ids cannot erase "
        "rows; set Options::ids");
  }
  parts_->marks->MarkErased(ids);
  return absl::OkStatus();
}

ChangeTracker* DeviceTable::tracker() { return parts_->marks.get(); }

absl::StatusOr<std::unique_ptr<TableState::Captured>> DeviceTable::Capture(
    const absl::Span<const int64_t>* ids) const {
  return parts_->Capture(ids, internal::RowForm::kEncoded);
}

absl::StatusOr<std::unique_ptr<RowSource>> DeviceTable::AllRows() const {
  CKPTDB_ASSIGN_OR_RETURN(auto rows,
                          parts_->Capture(nullptr, internal::RowForm::kRaw));
  CKPTDB_RETURN_IF_ERROR(rows->Fetch());
  return rows;
}

absl::StatusOr<std::unique_ptr<RowSource>> DeviceTable::RowsOf(
    absl::Span<const int64_t> ids) const {
  CKPTDB_ASSIGN_OR_RETURN(auto rows,
                          parts_->Capture(&ids, internal::RowForm::kRaw));
  CKPTDB_RETURN_IF_ERROR(rows->Fetch());
  return rows;
}

std::optional<uint64_t> DeviceTable::capacity() const {
  return parts_->rows.rows;
}
absl::Status DeviceTable::CheckId(int64_t id) const {
  return internal::CheckHasPlace(parts_->rows, id);
}

LiveTable* DeviceTable::Live(absl::Span<const std::string> slots) {
  std::optional<std::vector<size_t>> chosen = FindSlots(slots);
  if (!chosen.has_value()) return nullptr;
  parts_->live = std::make_unique<internal::RowWriter>(
      parts_->context, &parts_->rows, parts_->marks.get(), *std::move(chosen));
  return parts_->live.get();
}

}  // namespace ckptdb
