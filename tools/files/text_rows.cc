// SPDX-License-Identifier: Apache-2.0
#include "tools/files/text_rows.h"

#include <array>
#include <atomic>
#include <charconv>
#include <cmath>
#include <map>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "schema/status.h"
#include "tools/files/file_name.h"
#include "tools/json.h"
#include "tools/widened.h"

namespace ckptdb::tool {
namespace {

constexpr size_t kTextBufferBytes = size_t{1} << 20;

// JSON has no NaN and infinities; they are strings, as in docs/json.md.
template <typename T>
void AppendNumber(T number, RowText text, std::string* out) {
  if constexpr (std::is_floating_point_v<T>) {
    if (!std::isfinite(number)) {
      const char* quote = text == RowText::kJsonLines ? "\"" : "";
      const char* word = std::isnan(number) ? "nan"
                         : number > 0       ? "inf"
                                            : "-inf";
      absl::StrAppend(out, quote, word, quote);
      return;
    }
  }
  std::array<char, 64> digits = {};
  const auto end =
      std::to_chars(digits.data(), digits.data() + digits.size(), number);
  out->append(digits.data(), end.ptr);
}

void AppendElements(const Slot& slot, const char* from, RowText text,
                    std::string* out) {
  if (slot.dtype == DType::kBool) {
    for (uint32_t i = 0; i < slot.elements; ++i) {
      absl::StrAppend(out, i == 0 ? "" : ",", from[i] != 0 ? "true" : "false");
    }
    return;
  }
  bool first = true;
  ForWidened(slot.dtype, from, slot.elements, 1,
             [&](const auto* numbers, size_t count) {
               for (size_t i = 0; i < count; ++i) {
                 if (!first) *out += ',';
                 first = false;
                 AppendNumber(numbers[i], text, out);
               }
             });
}

// Quotes a name if RFC 4180 requires it.
std::string CsvField(const std::string& name) {
  if (name.find_first_of(",\"\r\n") == std::string::npos) return name;
  return absl::StrCat("\"", absl::StrReplaceAll(name, {{"\"", "\"\""}}), "\"");
}

absl::Status SameColumn(const StepTable& table, const std::string& column,
                        const std::string& slot, absl::string_view other) {
  return absl::InvalidArgumentError(absl::StrCat(
      "table \"", table.name, "\": the column \"", column, "\" of slot \"",
      slot, "\" has the name of ", other, "; choose others by --slots"));
}

// The names of a row's fields: id, and either each slot's elements or each
// slot. Returns InvalidArgument for two fields of the same name.
absl::StatusOr<std::vector<std::string>> FieldNames(const StepTable& table,
                                                    RowText text) {
  std::vector<std::string> names = {"id"};
  std::map<std::string, std::string> slots = {{"id", ""}};
  for (const Slot& slot : table.slots) {
    const bool whole = text == RowText::kJsonLines || slot.elements == 1;
    for (uint32_t i = 0; i < (whole ? 1 : slot.elements); ++i) {
      names.push_back(whole ? slot.name : absl::StrCat(slot.name, "[", i, "]"));
      const auto [same, added] = slots.emplace(names.back(), slot.name);
      if (added) continue;
      return SameColumn(
          table, names.back(), slot.name,
          same->second.empty()
              ? "the column of ids"
              : absl::StrCat("one of slot \"", same->second, "\""));
    }
  }
  return names;
}

std::string CsvHeader(const std::vector<std::string>& names) {
  return absl::StrCat(
      absl::StrJoin(names, ",",
                    [](std::string* out, const std::string& name) {
                      out->append(CsvField(name));
                    }),
      "\n");
}

class TextSink : public SelectedRowSink {
 public:
  TextSink(std::vector<Slot> slots, RowText text, int workers, OutputFile* file)
      : slots_(std::move(slots)),
        text_(text),
        file_(file),
        buffers_(static_cast<size_t>(workers)) {
    for (const Slot& slot : slots_) keys_.push_back(Json(slot.name).dump());
  }

  absl::Status Consume(int worker, const RowSink::Batch& batch,
                       absl::Span<const RowRange> rows) override {
    std::string& buffer = buffers_[static_cast<size_t>(worker)];
    for (const auto& [first, end] : rows) {
      for (size_t r = first; r < end; ++r) {
        text_ == RowText::kCsv ? AddCsv(batch, r, &buffer)
                               : AddJson(batch, r, &buffer);
        if (buffer.size() >= kTextBufferBytes) {
          CKPTDB_RETURN_IF_ERROR(Flush(&buffer));
        }
      }
      rows_ += end - first;
    }
    return absl::OkStatus();
  }
  absl::StatusOr<uint64_t> Finish() {
    for (std::string& buffer : buffers_) CKPTDB_RETURN_IF_ERROR(Flush(&buffer));
    return rows_.load();
  }

 private:
  absl::Status Flush(std::string* buffer) {
    absl::Status appended = file_->Append(*buffer);
    buffer->clear();
    return appended;
  }
  void AddCsv(const RowSink::Batch& batch, size_t r, std::string* out) const {
    absl::StrAppend(out, batch.ids[r]);
    for (size_t i = 0; i < slots_.size(); ++i) {
      *out += ',';
      AppendElements(slots_[i], batch.slots[i] + r * slots_[i].row_bytes(),
                     text_, out);
    }
    *out += '\n';
  }
  void AddJson(const RowSink::Batch& batch, size_t r, std::string* out) const {
    absl::StrAppend(out, "{\"id\":", batch.ids[r]);
    for (size_t i = 0; i < slots_.size(); ++i) {
      const bool list = slots_[i].elements > 1;
      absl::StrAppend(out, ",", keys_[i], ":", list ? "[" : "");
      AppendElements(slots_[i], batch.slots[i] + r * slots_[i].row_bytes(),
                     text_, out);
      if (list) *out += ']';
    }
    *out += "}\n";
  }

  const std::vector<Slot> slots_;
  std::vector<std::string> keys_;  // the slots' names in JSON
  const RowText text_;
  OutputFile* const file_;
  std::vector<std::string> buffers_;  // each worker's whole rows
  std::atomic<uint64_t> rows_ = 0;
};

}  // namespace

absl::StatusOr<uint64_t> WriteRowText(const StepReader& step,
                                      const StepSelection& selection,
                                      const StepTable& table, RowText text,
                                      const ReadOptions& options,
                                      OutputFolder* folder) {
  CKPTDB_ASSIGN_OR_RETURN(const std::vector<std::string> names,
                          FieldNames(table, text));
  CKPTDB_ASSIGN_OR_RETURN(
      OutputFile * file,
      folder->Create(absl::StrCat(EscapeFileName(table.name),
                                  text == RowText::kCsv ? ".csv" : ".jsonl"),
                     OutputFolder::kUnknownBytes));
  if (text == RowText::kCsv) {
    CKPTDB_RETURN_IF_ERROR(file->Append(CsvHeader(names)));
  }
  TextSink sink(table.slots, text, options.threads, file);
  CKPTDB_RETURN_IF_ERROR(ScanSelectedRows(step, table.name, selection.rows,
                                          table.slots, options, &sink));
  return sink.Finish();
}

}  // namespace ckptdb::tool
