// SPDX-License-Identifier: Apache-2.0
// ckptdb nan: tensors and rows with NaN or infinite elements.
#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "CLI/App.hpp"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "schema/status.h"
#include "tools/command.h"
#include "tools/format.h"
#include "tools/json.h"
#include "tools/not_finite.h"
#include "tools/open_store.h"
#include "tools/progress_line.h"
#include "tools/step_argument.h"
#include "tools/suggestion.h"
#include "tools/text_table.h"

namespace ckptdb::tool {
namespace {

constexpr size_t kMaxNanRows = 100'000;

// Returns "200", or "100 or before" for the oldest step.
std::string OnsetText(const Onset& onset) {
  return absl::StrCat(onset.step.version.step,
                      onset.oldest ? " or before" : "");
}

Json OnsetJson(const Onset& onset, bool known) {
  Json json = Json::object();
  json["first_step"] = known ? ToJson(onset.step.version) : Json();
  json["first_committed_at_micros"] =
      known ? Json(onset.step.committed_at_micros) : Json();
  json["first_step_is_oldest"] = known ? Json(onset.oldest) : Json();
  return json;
}

uint64_t RowsIn(const NotFinite& found, uint64_t NotFiniteTable::*count) {
  uint64_t rows = 0;
  for (const NotFiniteTable& table : found.tables) rows += table.*count;
  return rows;
}

std::string NanTensorsText(const NotFinite& found, bool onsets) {
  TextTable table({"TENSOR", ">NAN", ">INF", ">ELEMENTS",
                   onsets ? ">FIRST STEP" : "",
                   onsets ? "COMMITTED (UTC)" : ""});
  for (const NotFiniteTensor& tensor : found.tensors) {
    const Item& spec = tensor.spec;
    table.AddRow(
        {Printable(spec.name), FormatCount(tensor.nan), FormatCount(tensor.inf),
         FormatCount(spec.raw_bytes / DTypeBytes(spec.dtype)),
         onsets ? OnsetText(tensor.onset) : "",
         onsets ? FormatUtc(tensor.onset.step.committed_at_micros) : ""});
  }
  return table.ToString();
}

std::string NanRowsText(const NotFinite& found, bool onsets) {
  TextTable text({"TABLE", ">ID", ">NAN", ">INF", "SLOTS",
                  onsets ? ">FIRST STEP" : "",
                  onsets ? "COMMITTED (UTC)" : ""});
  for (const NotFiniteTable& table : found.tables) {
    for (const NotFiniteRow& row : table.rows) {
      text.AddRow(
          {Printable(table.name), absl::StrCat(row.id), FormatCount(row.nan),
           FormatCount(row.inf), Printable(absl::StrJoin(row.slots, ",")),
           onsets ? OnsetText(row.onset) : "",
           onsets ? FormatUtc(row.onset.step.committed_at_micros) : ""});
    }
    if (table.rows.size() < table.not_finite_rows) {
      text.AddRow(
          {Printable(table.name),
           absl::StrCat("... ",
                        FormatCount(table.not_finite_rows - table.rows.size()),
                        " more")});
    }
  }
  return text.ToString();
}

void PrintNanText(const Version& version, const NotFinite& found, bool onsets,
                  std::ostream* out) {
  const uint64_t rows = RowsIn(found, &NotFiniteTable::not_finite_rows);
  *out << ToString(version) << ": NaN or infinite elements in "
       << FormatCount(found.tensors.size()) << " of "
       << FormatCount(found.tensors_read) << " tensors, " << FormatCount(rows)
       << " of " << FormatCount(RowsIn(found, &NotFiniteTable::read_rows))
       << " rows\n";
  if (found.tensors_read == 0 && found.tables.empty()) {
    *out << "nothing was read: no matching item contains floats\n";
  }
  if (!found.tensors.empty()) *out << '\n' << NanTensorsText(found, onsets);
  if (rows > 0) *out << '\n' << NanRowsText(found, onsets);
}

Json NanTableJson(const NotFiniteTable& table, bool onsets) {
  Json json = {{"name", table.name},
               {"not_finite_rows", table.not_finite_rows},
               {"read_rows", table.read_rows}};
  json["rows"] = Json::array();
  for (const NotFiniteRow& row : table.rows) {
    Json row_json = {{"id", row.id},
                     {"nan_elements", row.nan},
                     {"inf_elements", row.inf},
                     {"slots", row.slots}};
    row_json.update(OnsetJson(row.onset, onsets));
    json["rows"].push_back(std::move(row_json));
  }
  return json;
}

Json NanJson(const std::string& store, const Version& version,
             const NotFinite& found, bool onsets) {
  Json json = {{"store", store}};
  json.update(ToJson(version));
  json["tensors_read"] = found.tensors_read;
  json["tensors"] = Json::array();
  for (const NotFiniteTensor& tensor : found.tensors) {
    Json tensor_json = {{"name", tensor.spec.name},
                        {"dtype", Str(DTypeName(tensor.spec.dtype))},
                        {"shape", tensor.spec.shape},
                        {"nan_elements", tensor.nan},
                        {"inf_elements", tensor.inf}};
    tensor_json.update(OnsetJson(tensor.onset, onsets));
    json["tensors"].push_back(std::move(tensor_json));
  }
  json["tables"] = Json::array();
  for (const NotFiniteTable& table : found.tables) {
    json["tables"].push_back(NanTableJson(table, onsets));
  }
  return json;
}

constexpr char kNanNotes[] =
    "Reads the tensors and the slots of floats of one step. FIRST STEP\n"
    "is the step in which a tensor or row became so: it is found by\n"
    "bisection of the steps that the step was saved on top of, which\n"
    "reads only these tensors and rows. \"or before\" marks the oldest of\n"
    "these steps. What was finite again in between may have begun in an\n"
    "earlier step, too.\n";

class Nan : public Command {
 public:
  Nan()
      : Command({.name = "nan",
                 .summary = "Find NaN and infinite elements, and the step in "
                            "which they began",
                 .notes = kNanNotes,
                 .examples = "  ckptdb nan --store /checkpoints/ctr\n"
                             "  ckptdb nan 'user*' --step 1000 --limit 10\n"
                             "  ckptdb nan --no-first-step --json\n",
                 .paged = true}) {}
  void AddArguments(CLI::App* app) override {
    app->add_option("GLOB", options_.glob,
                    "only items whose name matches; * ? [...] as in a shell")
        ->type_name("");
    AddStepOption(app, &step_);
    app->add_option("--limit", options_.limit,
                    absl::StrCat("list so many rows of a table; default: ",
                                 options_.limit, ", at most ", kMaxNanRows))
        ->type_name("N")
        ->check(CLI::Range(size_t{0}, kMaxNanRows));
    app->add_flag("--no-first-step", no_onsets_,
                  "do not look for the first steps");
  }
  absl::Status Run(const Context& context) override {
    CKPTDB_ASSIGN_OR_RETURN(auto reader, OpenReader(context));
    CKPTDB_ASSIGN_OR_RETURN(auto step, OpenStep(context, reader.get(), step_));
    CKPTDB_RETURN_IF_ERROR(CheckMatchesAny(*step, options_.glob));
    ProgressLine progress(context.terminal, "nan: reading");
    options_.find_onsets = !no_onsets_;
    options_.read.progress = [&](uint64_t done_bytes, uint64_t all_bytes) {
      progress.Update(done_bytes, all_bytes);
    };
    auto found = FindNotFinite(reader.get(), *step, options_);
    absl::Status damage;
    // An earlier step may be damaged, and not this one.
    if (absl::IsDataLoss(found.status()) && options_.find_onsets) {
      damage = absl::DataLossError(absl::StrCat("the first steps are unknown: ",
                                                found.status().message()));
      options_.find_onsets = false;
      found = FindNotFinite(reader.get(), *step, options_);
    }
    if (!found.ok()) return ReadingStatus(found.status());
    const Version& version = step->record().version;
    if (context.json) {
      PrintJson(NanJson(context.store, version, *found, options_.find_onsets),
                context.out);
    } else {
      PrintNanText(version, *found, options_.find_onsets, context.out);
    }
    return damage;
  }

 private:
  std::string step_ = "latest";
  NotFiniteOptions options_;
  bool no_onsets_ = false;
};

}  // namespace

std::unique_ptr<Command> NewNan() { return std::make_unique<Nan>(); }

}  // namespace ckptdb::tool
