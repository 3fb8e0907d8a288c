// SPDX-License-Identifier: Apache-2.0
// ckptdb diff: the differences between two steps.
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "schema/status.h"
#include "schema/types.h"
#include "tools/command.h"
#include "tools/format.h"
#include "tools/json.h"
#include "tools/open_store.h"
#include "tools/progress_line.h"
#include "tools/step_argument.h"
#include "tools/step_diff.h"
#include "tools/text_table.h"

namespace ckptdb::tool {
namespace {

// Returns "-" if there is no value.
template <typename T, typename Format>
std::string TextOrDash(const std::optional<T>& value, const Format& format) {
  return value.has_value() ? format(*value) : "-";
}

template <typename T, typename Format>
Json JsonOrNull(const std::optional<T>& value, const Format& format) {
  return value.has_value() ? Json(format(*value)) : Json();
}

std::string NumberText(double number) {
  return absl::StrFormat("%.9g", number);
}

std::string TensorTypeText(const Item& spec) {
  return absl::StrCat(DTypeName(spec.dtype), ToString(spec.shape));
}

std::string SlotTypeText(const Slot& slot) {
  return absl::StrCat(DTypeName(slot.dtype), "x", slot.elements);
}

std::string SlotChange(const SlotDiff& diff) {
  if (diff.from.has_value() && diff.to.has_value() && *diff.from == *diff.to) {
    return "moved";
  }
  return Str(ChangeName(diff.from.has_value(), diff.to.has_value()));
}

// Returns "unknown" if neither digests nor row counts show a difference, and
// the rows were not counted.
std::string TableChange(const TableDiff& diff) {
  return diff.unknown() ? "unknown" : Str(ChangeName(diff.in_from, diff.in_to));
}

// Returns "embedding f32x16 to f32x32, freq added".
std::string SlotsText(const TableDiff& diff) {
  std::vector<std::string> parts;
  for (const SlotDiff& slot : diff.slots) {
    std::string change = SlotChange(slot);
    if (change == "changed") {
      change = absl::StrCat(SlotTypeText(*slot.from), " to ",
                            SlotTypeText(*slot.to));
    }
    parts.push_back(absl::StrCat(Printable(slot.name), " ", change));
  }
  if (diff.slice_hash_differs) parts.emplace_back("slice hash differs");
  return parts.empty() ? "-" : absl::StrJoin(parts, ", ");
}

// Returns "1,000 to 1,200", with "?" for a step whose rows of the table are not
// all in base runs.
std::string RowsText(const TableDiff& diff) {
  const auto text = [](bool there, const std::optional<uint64_t>& rows) {
    if (!there) return std::string("-");
    return rows ? FormatCount(*rows) : "?";
  };
  const std::string from = text(diff.in_from, diff.from_rows);
  const std::string to = text(diff.in_to, diff.to_rows);
  return from == to ? from : absl::StrCat(from, " to ", to);
}

// Shortens a reason that all tables share, which the header prints.
std::string NotCountedText(const StepDiff& diff, const TableDiff& table) {
  if (table.rows.has_value() || !table.in_from || !table.in_to) return "-";
  if (table.not_counted_reason == diff.not_incremental_reason) {
    return "no increments";
  }
  return Printable(table.not_counted_reason);
}

std::string VersionText(const StepRecord& record) {
  return absl::StrCat(ToString(record.version), ", committed ",
                      FormatUtc(record.committed_at_micros), " UTC");
}

// Reports how much was read, because reading may take long.
std::string ReadText(const StepDiff& diff) {
  if (diff.tensors_read == 0) return "no data of tensors and blobs";
  return absl::StrCat(
      FormatBytes(diff.tensor_read_bytes), " of ", diff.tensors_read,
      diff.tensors_read == 1 ? " tensor that is" : " tensors that are",
      " divided differently");
}

std::string HeaderText(const StepDiff& diff) {
  TextTable table({"", ""});
  table.AddRow({"from", VersionText(diff.from)});
  table.AddRow({"to", VersionText(diff.to)});
  table.AddRow({"increments", diff.not_incremental_reason.empty()
                                  ? "lead from the first to the second"
                                  : Printable(diff.not_incremental_reason)});
  table.AddRow({"read", ReadText(diff)});
  return table.ToString();
}

std::string MetricsText(const std::vector<MetricDiff>& metrics) {
  TextTable table({"METRIC", ">FROM", ">TO"});
  for (const MetricDiff& diff : metrics) {
    table.AddRow({Printable(diff.name), TextOrDash(diff.from, NumberText),
                  TextOrDash(diff.to, NumberText)});
  }
  return table.ToString();
}

std::string TensorsText(const std::vector<TensorDiff>& tensors) {
  TextTable table({"TENSOR", "CHANGE", "WHAT", "FROM", "TO"});
  for (const TensorDiff& diff : tensors) {
    table.AddRow(
        {Printable(diff.name),
         Str(ChangeName(diff.from.has_value(), diff.to.has_value())),
         diff.differs.empty() ? "-" : absl::StrJoin(diff.differs, ", "),
         TextOrDash(diff.from, TensorTypeText),
         TextOrDash(diff.to, TensorTypeText)});
  }
  return table.ToString();
}

std::string TablesText(const StepDiff& diff) {
  TextTable table({"TABLE", "CHANGE", "SLOTS", ">ROWS", ">UPSERTED", ">ERASED",
                   "REASON NOT COUNTED"});
  for (const TableDiff& each : diff.tables) {
    const auto& rows = each.rows;
    table.AddRow({Printable(each.name), TableChange(each), SlotsText(each),
                  RowsText(each), rows ? FormatCount(rows->upserted) : "-",
                  rows ? FormatCount(rows->erased) : "-",
                  NotCountedText(diff, each)});
  }
  return table.ToString();
}

std::string BlobsText(const std::vector<BlobDiff>& blobs) {
  TextTable table({"BLOB", ">RANK", "CHANGE", ">FROM", ">TO"});
  for (const BlobDiff& diff : blobs) {
    table.AddRow({Printable(diff.name), absl::StrCat(diff.rank),
                  Str(ChangeName(diff.from_bytes.has_value(),
                                 diff.to_bytes.has_value())),
                  TextOrDash(diff.from_bytes, FormatBytes),
                  TextOrDash(diff.to_bytes, FormatBytes)});
  }
  return table.ToString();
}

void PrintText(const StepDiff& diff, std::ostream* out) {
  *out << HeaderText(diff);
  if (diff.same().value_or(false)) *out << "\nnothing differs\n";
  if (!diff.metrics.empty()) *out << '\n' << MetricsText(diff.metrics);
  if (!diff.tensors.empty()) *out << '\n' << TensorsText(diff.tensors);
  if (!diff.tables.empty()) *out << '\n' << TablesText(diff);
  if (!diff.blobs.empty()) *out << '\n' << BlobsText(diff.blobs);
}

Json SpecJson(const Item& spec) {
  return {{"dtype", Str(DTypeName(spec.dtype))},
          {"shape", spec.shape},
          {"raw_bytes", spec.raw_bytes}};
}

Json SlotTypeJson(const Slot& slot) {
  return {{"dtype", Str(DTypeName(slot.dtype))}, {"elements", slot.elements}};
}

Json MetricJson(const MetricDiff& diff) {
  return {{"name", diff.name},
          {"from", JsonOrNull(diff.from, NumberJson)},
          {"to", JsonOrNull(diff.to, NumberJson)}};
}

Json TensorJson(const TensorDiff& diff) {
  return {
      {"name", diff.name},
      {"change", Str(ChangeName(diff.from.has_value(), diff.to.has_value()))},
      {"differs", diff.differs},
      {"from", JsonOrNull(diff.from, SpecJson)},
      {"to", JsonOrNull(diff.to, SpecJson)}};
}

Json TableJson(const TableDiff& diff) {
  Json json = {{"name", diff.name}, {"change", TableChange(diff)}};
  json["slots"] = Json::array();
  for (const SlotDiff& slot : diff.slots) {
    json["slots"].push_back({{"name", slot.name},
                             {"change", SlotChange(slot)},
                             {"from", JsonOrNull(slot.from, SlotTypeJson)},
                             {"to", JsonOrNull(slot.to, SlotTypeJson)}});
  }
  json["slice_hash_differs"] = diff.slice_hash_differs;
  json["from_rows"] = diff.from_rows ? Json(*diff.from_rows) : Json();
  json["to_rows"] = diff.to_rows ? Json(*diff.to_rows) : Json();
  json["upserted_rows"] = diff.rows ? Json(diff.rows->upserted) : Json();
  json["erased_rows"] = diff.rows ? Json(diff.rows->erased) : Json();
  json["not_counted_reason"] = ReasonJson(diff.not_counted_reason);
  return json;
}

Json BlobJson(const BlobDiff& diff) {
  const auto bytes = [](uint64_t number) { return number; };
  return {{"name", diff.name},
          {"rank", diff.rank},
          {"change", Str(ChangeName(diff.from_bytes.has_value(),
                                    diff.to_bytes.has_value()))},
          {"from_raw_bytes", JsonOrNull(diff.from_bytes, bytes)},
          {"to_raw_bytes", JsonOrNull(diff.to_bytes, bytes)}};
}

template <typename Diff>
Json ListJson(const std::vector<Diff>& diffs, Json (*to_json)(const Diff&)) {
  Json list = Json::array();
  for (const Diff& diff : diffs) list.push_back(to_json(diff));
  return list;
}

Json DiffJson(const std::string& store, const StepDiff& diff) {
  const std::optional<bool> same = diff.same();
  return {{"store", store},
          {"from", ToJson(diff.from.version)},
          {"to", ToJson(diff.to.version)},
          {"same", same ? Json(*same) : Json()},
          {"incremental", diff.not_incremental_reason.empty()},
          {"not_incremental_reason", ReasonJson(diff.not_incremental_reason)},
          {"tensors_read", diff.tensors_read},
          {"tensor_read_bytes", diff.tensor_read_bytes},
          {"tables_counted", diff.tables_counted},
          {"metrics", ListJson(diff.metrics, MetricJson)},
          {"tensors", ListJson(diff.tensors, TensorJson)},
          {"tables", ListJson(diff.tables, TableJson)},
          {"blobs", ListJson(diff.blobs, BlobJson)}};
}

constexpr char kDiffNotes[] =
    "Tensors and blobs are compared by their digests. A tensor is\n"
    "read only if the two steps divide it into different parts. For\n"
    "tables, the ids in the delta runs between the steps are read:\n"
    "UPSERTED rows were written, possibly with the same values, and\n"
    "ERASED rows were removed. A table is \"unknown\" if it was saved\n"
    "in full between the steps, or no delta runs connect them. The\n"
    "exit code is 0 whether or not the steps differ.\n";

class Diff : public Command {
 public:
  Diff()
      : Command(
            {.name = "diff",
             .summary = "Show the differences between two steps",
             .notes = kDiffNotes,
             .examples =
                 "  ckptdb diff 1000 1100 --store /checkpoints/ctr\n"
                 "  ckptdb diff 1000 latest -s /checkpoints/ctr --json\n"}) {}
  void AddArguments(CLI::App* app) override {
    AddNamedStep(app, "A", &from_);
    AddNamedStep(app, "B", &to_);
  }
  absl::Status Run(const Context& context) override {
    CKPTDB_ASSIGN_OR_RETURN(auto reader, OpenReader(context));
    StepDiff diff;
    const bool latest = from_ == kLatest || to_ == kLatest;
    // Opens both steps again after a failed try, because "latest" may be
    // another step by then.
    CKPTDB_RETURN_IF_ERROR(RetryLatest(latest, [&]() -> absl::Status {
      CKPTDB_ASSIGN_OR_RETURN(auto from,
                              OpenStep(context, reader.get(), from_));
      CKPTDB_ASSIGN_OR_RETURN(auto to, OpenStep(context, reader.get(), to_));
      CKPTDB_ASSIGN_OR_RETURN(diff, Compare(context, reader.get(), *from, *to));
      return absl::OkStatus();
    }));
    if (context.json) {
      PrintJson(DiffJson(context.store, diff), context.out);
    } else {
      PrintText(diff, context.out);
    }
    return absl::OkStatus();
  }

 private:
  static absl::StatusOr<StepDiff> Compare(const Context& context,
                                          Reader* reader,
                                          const StepReader& from,
                                          const StepReader& to) {
    const ProgressLine progress(context.terminal, "diff: comparing");
    auto diff = CompareSteps(reader, from, to);
    if (diff.ok()) return diff;
    return WithPlace(ReadingStatus(diff.status()), context.store);
  }

  std::string from_;
  std::string to_;
};

}  // namespace

std::unique_ptr<Command> NewDiff() { return std::make_unique<Diff>(); }

}  // namespace ckptdb::tool
