// SPDX-License-Identifier: Apache-2.0
#include "tools/files/step_arrays.h"

#include <fnmatch.h>

#include <algorithm>
#include <atomic>
#include <future>
#include <mutex>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "schema/status.h"

namespace ckptdb::tool {
namespace {

// Bytes that are read and written at once, by each of a few threads.
constexpr uint64_t kPartBytes = uint64_t{8} << 20;
constexpr int kPartThreads = 4;
constexpr uint64_t kRowBufferBytes = uint64_t{4} << 20;

bool IsSelected(const StepSelection& selection, const std::string& name) {
  return selection.glob.empty() ||
         fnmatch(selection.glob.c_str(), name.c_str(), 0) == 0;
}

std::vector<Slot> SelectSlots(const std::vector<Slot>& slots,
                              const StepSelection& selection) {
  if (selection.slots.empty()) return slots;
  std::vector<Slot> selected;
  for (const std::string& name : selection.slots) {
    for (const Slot& slot : slots) {
      if (slot.name == name) selected.push_back(slot);
    }
  }
  return selected;
}

absl::Status CheckSlotsExist(const StepSelection& selection,
                             const std::vector<StepTable>& tables) {
  for (const std::string& name : selection.slots) {
    const bool exists =
        std::any_of(tables.begin(), tables.end(), [&](const StepTable& table) {
          return std::any_of(
              table.slots.begin(), table.slots.end(),
              [&](const Slot& slot) { return slot.name == name; });
        });
    if (exists) continue;
    return absl::NotFoundError(
        absl::StrCat("no table that is exported has a slot \"", name,
                     "\"; \"ckptdb items\" lists the slots"));
  }
  return absl::OkStatus();
}

absl::Status CheckDistinctNames(const std::vector<ArraySpec>& arrays) {
  std::set<absl::string_view> names;
  for (const ArraySpec& array : arrays) {
    if (names.insert(array.name).second) continue;
    return absl::InvalidArgumentError(
        absl::StrCat("two arrays would have the name \"", array.name,
                     "\"; export their items separately, by a GLOB"));
  }
  return absl::OkStatus();
}

absl::Status AddTable(StepTable table, StepArrays* arrays) {
  table.first_array = arrays->arrays.size();
  const auto rows = static_cast<int64_t>(table.rows);
  CKPTDB_ASSIGN_OR_RETURN(
      arrays->arrays.emplace_back(),
      MakeArraySpec(table.name + ".ids", DType::kI64, {rows}));
  for (const Slot& slot : table.slots) {
    CKPTDB_ASSIGN_OR_RETURN(
        arrays->arrays.emplace_back(),
        MakeArraySpec(absl::StrCat(table.name, ".", slot.name), slot.dtype,
                      {rows, slot.elements}));
  }
  arrays->tables.push_back(std::move(table));
  return absl::OkStatus();
}

// --- Writing.

// Adds up written bytes for ReadOptions::progress.
class Written {
 public:
  Written(const ReadOptions& options, uint64_t all_bytes)
      : options_(options), all_bytes_(all_bytes) {}
  void Add(uint64_t bytes) {
    const std::lock_guard<std::mutex> lock(mutex_);
    bytes_ += bytes;
    if (options_.progress) options_.progress(bytes_, all_bytes_);
  }

 private:
  const ReadOptions& options_;
  const uint64_t all_bytes_;
  std::mutex mutex_;
  uint64_t bytes_ = 0;
};

// A part of a tensor, which is contiguous in it.
struct ArrayPart {
  size_t array = 0;
  uint64_t at = 0;
  uint64_t bytes = 0;
  Shape offset;
  Shape shape;
};

// Divides a tensor along the first dimension whose elements fit.
void AddParts(const ArraySpec& spec, size_t array,
              std::vector<ArrayPart>* parts) {
  uint64_t inner = spec.bytes;  // bytes of an element of dimension `split`
  size_t split = 0;
  for (; split < spec.shape.size(); ++split) {
    inner /= static_cast<uint64_t>(spec.shape[split]);
    if (inner <= kPartBytes) break;
  }
  const auto rows = static_cast<int64_t>(
      std::max<uint64_t>(1, kPartBytes / std::max<uint64_t>(1, inner)));
  ArrayPart part = {array, 0, 0, Shape(spec.shape.size(), 0), spec.shape};
  for (size_t i = 0; i < split; ++i) part.shape[i] = 1;
  while (part.at < spec.bytes) {
    part.shape[split] = std::min(rows, spec.shape[split] - part.offset[split]);
    part.bytes = inner * static_cast<uint64_t>(part.shape[split]);
    parts->push_back(part);
    part.at += part.bytes;
    part.offset[split] += part.shape[split];
    for (size_t i = split; i > 0 && part.offset[i] == spec.shape[i]; --i) {
      part.offset[i] = 0;
      ++part.offset[i - 1];
    }
  }
}

class TensorCopy {
 public:
  TensorCopy(const StepReader& step, const StepArrays& arrays,
             const ReadOptions& options, ArrayWriter* writer, Written* written)
      : step_(step),
        arrays_(arrays),
        options_(options),
        writer_(writer),
        written_(written) {}

  absl::Status Run() {
    Divide();
    std::vector<std::future<void>> workers;
    for (int i = 0; i < kPartThreads; ++i) {
      workers.push_back(
          std::async(std::launch::async, [this] { CopyParts(); }));
    }
    for (std::future<void>& worker : workers) worker.get();
    return status_;
  }

 private:
  // Small tensors are read several at once.
  void Divide() {
    uint64_t group_bytes = 0;
    for (const size_t i : arrays_.tensors) {
      const ArraySpec& spec = arrays_.arrays[i];
      if (spec.bytes > kPartBytes) {
        std::vector<ArrayPart> parts;
        AddParts(spec, i, &parts);
        for (ArrayPart& part : parts) {
          groups_.push_back({std::move(part)});
        }
        group_bytes = 0;
        continue;
      }
      if (group_bytes == 0 || group_bytes + spec.bytes > kPartBytes) {
        groups_.emplace_back();
        group_bytes = 0;
      }
      groups_.back().push_back({i, 0, spec.bytes, {}, spec.shape});
      group_bytes += std::max<uint64_t>(1, spec.bytes);
    }
  }
  void CopyParts() {
    std::vector<char> buffer;
    while (true) {
      std::vector<ArrayPart>* group = nullptr;
      {
        const std::lock_guard<std::mutex> lock(mutex_);
        if (!status_.ok() || next_ == groups_.size()) return;
        group = &groups_[next_++];
      }
      const absl::Status copied = Copy(*group, &buffer);
      if (copied.ok()) continue;
      const std::lock_guard<std::mutex> lock(mutex_);
      status_.Update(copied);
    }
  }
  absl::Status Copy(const std::vector<ArrayPart>& group,
                    std::vector<char>* buffer) {
    uint64_t bytes = 0;
    for (const ArrayPart& part : group) bytes += part.bytes;
    buffer->resize(std::max<uint64_t>(1, bytes));
    CKPTDB_RETURN_IF_ERROR(Read(group, buffer->data()));
    const char* from = buffer->data();
    for (const ArrayPart& part : group) {
      if (part.bytes == 0) continue;
      CKPTDB_RETURN_IF_ERROR(
          writer_->Write(part.array, part.at, {from, part.bytes}));
      from += part.bytes;
    }
    written_->Add(bytes);
    return absl::OkStatus();
  }
  absl::Status Read(const std::vector<ArrayPart>& group, char* to) {
    ReadOptions options = options_;
    options.progress = nullptr;
    options.threads = kPartThreads;
    const ArrayPart& first = group.front();
    if (!first.offset.empty()) {
      return step_.ReadTensorPart(arrays_.arrays[first.array].name,
                                  first.offset, first.shape, to, first.bytes,
                                  options);
    }
    std::vector<StepReader::TensorRead> reads;
    for (const ArrayPart& part : group) {
      reads.push_back({arrays_.arrays[part.array].name, to, part.bytes});
      to += part.bytes;
    }
    return step_.ReadTensors(reads, options);
  }

  const StepReader& step_;
  const StepArrays& arrays_;
  const ReadOptions& options_;
  ArrayWriter* const writer_;
  Written* const written_;
  std::vector<std::vector<ArrayPart>> groups_;
  std::mutex mutex_;
  size_t next_ = 0;
  absl::Status status_;
};

// Gives each batch of rows the next places in the arrays of a table.
class TableCopy : public SelectedRowSink {
 public:
  TableCopy(const StepTable& table, int workers, ArrayWriter* writer,
            Written* written)
      : table_(table), writer_(writer), written_(written) {
    widths_.push_back(sizeof(int64_t));
    for (const Slot& slot : table.slots) widths_.push_back(slot.row_bytes());
    for (const uint64_t width : widths_) row_bytes_ += width;
    buffers_.resize(static_cast<size_t>(workers));
    for (auto& buffer : buffers_) buffer.resize(widths_.size());
  }

  absl::Status Consume(int worker, const RowSink::Batch& batch,
                       absl::Span<const RowRange> rows) override {
    std::vector<std::string>& buffer = buffers_[static_cast<size_t>(worker)];
    for (const auto& [first, end] : rows) {
      const auto* ids = reinterpret_cast<const char*>(batch.ids.data());
      for (size_t i = 0; i < widths_.size(); ++i) {
        const char* from = i == 0 ? ids : batch.slots[i - 1];
        buffer[i].append(from + first * widths_[i], (end - first) * widths_[i]);
      }
    }
    const uint64_t held = buffer[0].size() / sizeof(int64_t);
    return held * row_bytes_ < kRowBufferBytes ? absl::OkStatus()
                                               : Flush(&buffer);
  }
  absl::Status Finish() {
    for (auto& buffer : buffers_) CKPTDB_RETURN_IF_ERROR(Flush(&buffer));
    if (next_ == table_.rows) return absl::OkStatus();
    return absl::InternalError(absl::StrCat("table \"", table_.name, "\" has ",
                                            next_.load(), " rows, but ",
                                            table_.rows, " were expected"));
  }

 private:
  absl::Status Flush(std::vector<std::string>* buffer) {
    const uint64_t rows = (*buffer)[0].size() / sizeof(int64_t);
    if (rows == 0) return absl::OkStatus();
    const uint64_t at = next_.fetch_add(rows);
    // More than expected would not be in the arrays; Finish reports them.
    if (at + rows > table_.rows) return absl::OkStatus();
    for (size_t i = 0; i < widths_.size(); ++i) {
      CKPTDB_RETURN_IF_ERROR(writer_->Write(table_.first_array + i,
                                            at * widths_[i], (*buffer)[i]));
      (*buffer)[i].clear();
    }
    written_->Add(rows * row_bytes_);
    return absl::OkStatus();
  }

  const StepTable& table_;
  ArrayWriter* const writer_;
  Written* const written_;
  std::vector<uint64_t> widths_;  // bytes of an id and of each slot
  uint64_t row_bytes_ = 0;
  std::vector<std::vector<std::string>> buffers_;  // by worker and array
  std::atomic<uint64_t> next_ = 0;
};

absl::Status CopyTable(const StepReader& step, const StepSelection& selection,
                       const StepTable& table, ReadOptions options,
                       ArrayWriter* writer, Written* written) {
  options.progress = nullptr;
  options.threads = kPartThreads;
  TableCopy copy(table, options.threads, writer, written);
  RowSelection rows = selection.rows;
  rows.slices = table.slices;
  CKPTDB_RETURN_IF_ERROR(
      ScanSelectedRows(step, table.name, rows, table.slots, options, &copy));
  return copy.Finish();
}

}  // namespace

std::set<std::string> SelectNames(const StepReader& step,
                                  const StepSelection& selection,
                                  Item::Kind kind) {
  std::set<std::string> names;
  for (const StepRecord::Rank& rank : step.ranks()) {
    for (const Item& item : rank.items) {
      if (item.kind == kind && IsSelected(selection, item.name)) {
        names.insert(item.name);
      }
    }
  }
  return names;
}

absl::Status AddTensors(const StepReader& step, const StepSelection& selection,
                        StepArrays* arrays) {
  for (const std::string& name :
       SelectNames(step, selection, Item::Kind::kTensor)) {
    CKPTDB_ASSIGN_OR_RETURN(const Item item, step.FindTensor(name));
    arrays->tensors.push_back(arrays->arrays.size());
    CKPTDB_ASSIGN_OR_RETURN(arrays->arrays.emplace_back(),
                            MakeArraySpec(name, item.dtype, item.shape));
  }
  return absl::OkStatus();
}

uint64_t StepArrays::bytes() const {
  uint64_t bytes = 0;
  for (const ArraySpec& array : arrays) bytes += array.bytes;
  return bytes;
}

uint64_t StepArrays::rows() const {
  uint64_t rows = 0;
  for (const StepTable& table : tables) rows += table.rows;
  return rows;
}

absl::StatusOr<std::vector<StepTable>> SelectTables(
    const StepReader& step, const StepSelection& selection) {
  std::vector<StepTable> tables;
  for (const std::string& name :
       SelectNames(step, selection, Item::Kind::kRows)) {
    CKPTDB_ASSIGN_OR_RETURN(const StepReader::TableSpec spec,
                            step.FindTable(name));
    tables.push_back({name, SelectSlots(spec.slots, selection), 0, 0, {}});
  }
  CKPTDB_RETURN_IF_ERROR(CheckSlotsExist(selection, tables));
  return tables;
}

absl::StatusOr<StepArrays> ListArrays(const StepReader& step,
                                      const StepSelection& selection,
                                      const ReadOptions& options) {
  StepArrays arrays;
  CKPTDB_RETURN_IF_ERROR(AddTensors(step, selection, &arrays));
  CKPTDB_ASSIGN_OR_RETURN(std::vector<StepTable> tables,
                          SelectTables(step, selection));
  for (StepTable& table : tables) {
    CKPTDB_ASSIGN_OR_RETURN(const StepReader::TableSpec spec,
                            step.FindTable(table.name));
    table.rows = spec.rows;
    if (!spec.exact || !selection.rows.all()) {
      CKPTDB_ASSIGN_OR_RETURN(
          table.rows,
          CountSelectedRows(step, table.name, selection.rows, options));
    }
    CKPTDB_RETURN_IF_ERROR(AddTable(std::move(table), &arrays));
  }
  arrays.blobs = SelectNames(step, selection, Item::Kind::kBlob).size();
  if (arrays.arrays.empty() && arrays.blobs == 0) {
    return absl::NotFoundError(absl::StrCat("step ", step.record().version.step,
                                            " has no item that matches \"",
                                            selection.glob, "\""));
  }
  CKPTDB_RETURN_IF_ERROR(CheckDistinctNames(arrays.arrays));
  return arrays;
}

absl::Status WriteArrays(const StepReader& step, const StepSelection& selection,
                         const StepArrays& arrays, const ReadOptions& options,
                         ArrayWriter* writer) {
  Written written(options, arrays.bytes());
  for (const StepTable& table : arrays.tables) {
    CKPTDB_RETURN_IF_ERROR(
        CopyTable(step, selection, table, options, writer, &written));
  }
  CKPTDB_RETURN_IF_ERROR(
      TensorCopy(step, arrays, options, writer, &written).Run());
  return writer->Finish();
}

}  // namespace ckptdb::tool
