// SPDX-License-Identifier: Apache-2.0
// ckptdb diff: the differences between two steps.
#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "CLI/App.hpp"
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
#include "tools/value_checks.h"

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

std::string MaxAbsText(const NumberDiff& diff) {
  return absl::StrFormat("%.5g", diff.max_abs);
}
std::string RelativeL2Text(const NumberDiff& diff) {
  return absl::StrFormat("%.5g", diff.relative_l2());
}
std::string CosineText(const NumberDiff& diff) {
  return absl::StrFormat("%.7f", diff.cosine());
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
  if (table.rows || table.values || !table.in_from || !table.in_to) return "-";
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
  const bool one = diff.tensors_read == 1;
  return absl::StrCat(FormatBytes(diff.tensor_read_bytes), " of ",
                      diff.tensors_read, one ? " tensor" : " tensors",
                      diff.tensors_compared > 0 ? ""
                      : one                     ? " that is divided differently"
                            : " that are divided differently");
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
  // Only comparing values finds numbers.
  const bool numbers = std::any_of(
      tensors.begin(), tensors.end(),
      [](const TensorDiff& diff) { return diff.numbers.has_value(); });
  std::vector<absl::string_view> titles = {"TENSOR", "CHANGE", "WHAT", "FROM",
                                           "TO"};
  if (numbers)
    titles.insert(titles.end(), {">MAX ABS", ">RELATIVE L2", ">COSINE"});
  TextTable table(titles);
  for (const TensorDiff& diff : tensors) {
    table.AddRow(
        {Printable(diff.name),
         Str(ChangeName(diff.from.has_value(), diff.to.has_value())),
         diff.differs.empty() ? "-" : absl::StrJoin(diff.differs, ", "),
         TextOrDash(diff.from, TensorTypeText),
         TextOrDash(diff.to, TensorTypeText),
         TextOrDash(diff.numbers, MaxAbsText),
         TextOrDash(diff.numbers, RelativeL2Text),
         TextOrDash(diff.numbers, CosineText)});
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

// The tables whose values were compared.
std::string ValuesText(const StepDiff& diff) {
  TextTable table(
      {"TABLE", "CHANGE", "SLOTS", ">ADDED", ">ERASED", ">CHANGED"});
  for (const TableDiff& each : diff.tables) {
    const auto& values = each.values;
    table.AddRow({Printable(each.name), TableChange(each), SlotsText(each),
                  values ? FormatCount(values->added) : "-",
                  values ? FormatCount(values->erased) : "-",
                  values ? FormatCount(values->changed) : "-"});
  }
  return table.ToString();
}

void AddIds(const TableDiff& table, const char* change, uint64_t count,
            const std::vector<int64_t>& ids, TextTable* text) {
  for (const int64_t id : ids) {
    text->AddRow({Printable(table.name), absl::StrCat(id), change});
  }
  if (!ids.empty() && ids.size() < count) {
    text->AddRow(
        {Printable(table.name),
         absl::StrCat("... ", FormatCount(count - ids.size()), " more"),
         change});
  }
}

std::string IdsText(const StepDiff& diff) {
  TextTable text({"TABLE", ">ID", "ROW"});
  for (const TableDiff& table : diff.tables) {
    if (!table.values.has_value()) continue;
    const RowDiff& rows = *table.values;
    AddIds(table, "added", rows.added, rows.added_ids, &text);
    AddIds(table, "erased", rows.erased, rows.erased_ids, &text);
    AddIds(table, "changed", rows.changed, rows.changed_ids, &text);
  }
  return text.ToString();
}

std::string MoversText(const StepDiff& diff) {
  TextTable text({"TABLE", ">ID", ">MOVED BY"});
  for (const TableDiff& table : diff.tables) {
    if (!table.values.has_value()) continue;
    for (const RowMove& move : table.values->movers) {
      text.AddRow({Printable(table.name), absl::StrCat(move.id),
                   absl::StrFormat("%.5g", move.distance)});
    }
  }
  return text.ToString();
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

void PrintText(const StepDiff& diff, const DiffOptions& options,
               std::ostream* out) {
  *out << HeaderText(diff);
  if (diff.same().value_or(false)) *out << "\nnothing differs\n";
  if (!diff.metrics.empty()) *out << '\n' << MetricsText(diff.metrics);
  if (!diff.tensors.empty()) *out << '\n' << TensorsText(diff.tensors);
  if (!diff.tables.empty()) {
    *out << '\n' << (options.values ? ValuesText(diff) : TablesText(diff));
    if (options.rows.max_ids > 0) *out << '\n' << IdsText(diff);
    if (options.rows.max_movers > 0) *out << '\n' << MoversText(diff);
  }
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

Json NumbersJson(const NumberDiff& diff) {
  return {{"differing_elements", diff.differing},
          {"max_abs", NumberJson(diff.max_abs)},
          {"relative_l2", NumberJson(diff.relative_l2())},
          {"cosine", NumberJson(diff.cosine())}};
}

Json RowDiffJson(const RowDiff& diff) {
  Json json = {
      {"added_rows", diff.added},      {"erased_rows", diff.erased},
      {"changed_rows", diff.changed},  {"added_ids", diff.added_ids},
      {"erased_ids", diff.erased_ids}, {"changed_ids", diff.changed_ids}};
  json["movers"] = Json::array();
  for (const RowMove& move : diff.movers) {
    json["movers"].push_back(
        {{"id", move.id}, {"distance", NumberJson(move.distance)}});
  }
  return json;
}

Json TensorJson(const TensorDiff& diff) {
  return {
      {"name", diff.name},
      {"change", Str(ChangeName(diff.from.has_value(), diff.to.has_value()))},
      {"differs", diff.differs},
      {"from", JsonOrNull(diff.from, SpecJson)},
      {"to", JsonOrNull(diff.to, SpecJson)},
      {"numbers", JsonOrNull(diff.numbers, NumbersJson)}};
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
  json["values"] = JsonOrNull(diff.values, RowDiffJson);
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

Json DiffJson(const std::string& store, const std::string& to_store,
              const StepDiff& diff) {
  const std::optional<bool> same = diff.same();
  return {{"store", store},
          {"to_store", to_store},
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

constexpr size_t kMaxDiffIds = 1'000'000;

// A step on the command line, of the store or of another: "1000",
// "/checkpoints/other:latest".
struct StepPlace {
  std::string store;  // empty: that of the command
  std::string step;
};

StepPlace ParsePlace(const std::string& text) {
  const size_t colon = text.rfind(':');
  if (colon == std::string::npos) return {"", text};
  return {text.substr(0, colon), text.substr(colon + 1)};
}

// Returns the context with the place's store.
Context InStore(const Context& context, const StepPlace& place) {
  Context result = context;
  if (place.store.empty()) return result;
  result.store = place.store;
  result.store_given = true;
  return result;
}

// Returns the problem with the text, or "" if it is valid, as CLI11 expects.
std::string PlaceError(const std::string& text) {
  if (!text.empty() && text[0] == ':') {
    return absl::StrCat("invalid step \"", text, "\": no store before \":\"");
  }
  return Str(CheckStepText(ParsePlace(text).step).message());
}

constexpr char kDiffNotes[] =
    "Tensors and blobs are compared by their digests. A tensor is\n"
    "read only if the two steps divide it into different parts. For\n"
    "tables, the ids in the delta runs between the steps are read:\n"
    "UPSERTED rows were written, possibly with the same values, and\n"
    "ERASED rows were removed. A table is \"unknown\" if it was saved\n"
    "in full between the steps, or no delta runs connect them.\n"
    "\n"
    "--full, --ids, --movers and --tolerance compare values: of tensors\n"
    "that differ, and of rows that the delta runs wrote, or, where these\n"
    "do not lead from A to B and with --full, of all rows, by a scan of\n"
    "both steps. B or A may be in another store: STORE2:B.\n"
    "\n"
    "The exit code is 0 whether or not the steps differ. With --exit-code\n"
    "it is that of diff(1): 0 if they are the same, 1 if they differ, 2\n"
    "for an error, or if it is unknown whether they differ. Then rows\n"
    "that were written with equal values do not differ: the values of\n"
    "the rows that delta runs wrote are read in both steps.\n";

class Diff : public Command {
 public:
  Diff()
      : Command({.name = "diff",
                 .summary = "Show the differences between two steps",
                 .notes = kDiffNotes,
                 .examples =
                     "  ckptdb diff 1000 1100 --store /checkpoints/ctr\n"
                     "  ckptdb diff 1000 latest -s /checkpoints/ctr --json\n"
                     "  ckptdb diff 1000 1100 --ids 20 --movers 10\n"
                     "  ckptdb diff 1000 /backup/ctr:1000 --full --exit-code\n",
                 .paged = true}) {}
  void AddArguments(CLI::App* app) override;
  absl::Status Run(const Context& context) override;
  ExitCode ExitCodeFor(const absl::Status& status) const override {
    if (!exit_code_) return Command::ExitCodeFor(status);
    if (!status.ok()) return kDiffTrouble;
    return same_ ? ExitCode::kOk : kDiffDiffers;
  }

 private:
  void SetOptions();
  absl::StatusOr<StepDiff> Compare(const Context& context, Reader* reader,
                                   const StepReader& from,
                                   const StepReader& to);

  std::string from_;
  std::string to_;
  bool full_ = false;
  bool exit_code_ = false;
  bool same_ = false;
  std::optional<double> tolerance_;
  DiffOptions options_;
};

void Diff::AddArguments(CLI::App* app) {
  const auto add_place = [&](const char* name, std::string* text) {
    app->add_option(name, *text, "a step, or \"latest\", or STORE:STEP")
        ->type_name("")
        ->check(PlaceError)
        ->required();
  };
  add_place("A", &from_);
  add_place("B", &to_);
  app->add_flag("--full", full_, "compare all values, by a scan of both steps");
  app->add_option("--ids", options_.rows.max_ids,
                  "list the ids of so many added, erased and changed rows of "
                  "each table")
      ->type_name("N")
      ->check(CLI::Range(size_t{1}, kMaxDiffIds));
  app->add_option("--movers", options_.rows.max_movers,
                  "list so many rows that changed most")
      ->type_name("N")
      ->check(CLI::Range(size_t{1}, kMaxDiffIds));
  app->add_option("--tolerance", tolerance_,
                  "numbers that differ by at most this are equal")
      ->type_name("X")
      ->check(AtLeast(0));
  app->add_flag("--exit-code", exit_code_,
                "exit with 1 if the steps differ, 2 for an error or if it is "
                "unknown; compares the values of rows that were written");
}

absl::StatusOr<StepDiff> Diff::Compare(const Context& context, Reader* reader,
                                       const StepReader& from,
                                       const StepReader& to) {
  const ProgressLine progress(context.terminal, "diff: comparing");
  auto diff = CompareSteps(reader, from, to, options_);
  if (diff.ok()) return diff;
  return WithPlace(ReadingStatus(diff.status()), context.store);
}

void Diff::SetOptions() {
  options_.scan = full_;
  options_.exact = exit_code_;
  options_.rows.tolerance = tolerance_;
  options_.values = full_ || tolerance_.has_value() ||
                    options_.rows.max_ids + options_.rows.max_movers > 0;
}

absl::Status Diff::Run(const Context& context) {
  SetOptions();
  const StepPlace from_place = ParsePlace(from_);
  const StepPlace to_place = ParsePlace(to_);
  const Context from_context = InStore(context, from_place);
  const Context to_context = InStore(context, to_place);
  CKPTDB_ASSIGN_OR_RETURN(auto from_reader, OpenReader(from_context));
  std::unique_ptr<Reader> other_reader;
  if (to_context.store != from_context.store) {
    CKPTDB_ASSIGN_OR_RETURN(other_reader, OpenReader(to_context));
  }
  // The same store may be given by two paths.
  const bool two_stores =
      other_reader != nullptr && other_reader->path() != from_reader->path();
  Reader* const to_reader = two_stores ? other_reader.get() : from_reader.get();
  StepDiff diff;
  const bool latest = from_place.step == kLatest || to_place.step == kLatest;
  // Opens both steps again after a failed try, because "latest" may be another
  // step by then.
  CKPTDB_RETURN_IF_ERROR(RetryLatest(latest, [&]() -> absl::Status {
    CKPTDB_ASSIGN_OR_RETURN(
        auto from, OpenStep(from_context, from_reader.get(), from_place.step));
    CKPTDB_ASSIGN_OR_RETURN(auto to,
                            OpenStep(to_context, to_reader, to_place.step));
    CKPTDB_ASSIGN_OR_RETURN(
        diff, Compare(context, two_stores ? nullptr : to_reader, *from, *to));
    return absl::OkStatus();
  }));
  if (context.json) {
    PrintJson(DiffJson(from_context.store, to_context.store, diff),
              context.out);
  } else {
    PrintText(diff, options_, context.out);
  }
  same_ = diff.same().value_or(false);
  if (!exit_code_ || diff.same().has_value()) return absl::OkStatus();
  return absl::FailedPreconditionError(
      "it is unknown whether the steps differ; compare them with --full");
}

}  // namespace

std::unique_ptr<Command> NewDiff() { return std::make_unique<Diff>(); }

}  // namespace ckptdb::tool
