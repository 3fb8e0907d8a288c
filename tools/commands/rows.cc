// SPDX-License-Identifier: Apache-2.0
// ckptdb rows: the rows of a table that match a filter.
#include <cmath>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "CLI/App.hpp"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "schema/status.h"
#include "tools/command.h"
#include "tools/format.h"
#include "tools/json.h"
#include "tools/open_store.h"
#include "tools/progress_line.h"
#include "tools/row_filter.h"
#include "tools/row_search.h"
#include "tools/slots_argument.h"
#include "tools/step_argument.h"
#include "tools/suggestion.h"
#include "tools/text_table.h"
#include "tools/values.h"

namespace ckptdb::tool {
namespace {

// The number of elements per slot that a line shows.
constexpr size_t kRowElements = 4;
constexpr size_t kMaxRowLimit = 100'000;

// The values of the rows that are printed.
class RowValues : public RowSink {
 public:
  explicit RowValues(std::vector<Slot> slots) : slots_(std::move(slots)) {}

  absl::Status Consume(int, const Batch& batch) override {
    for (size_t r = 0; r < batch.ids.size(); ++r) {
      std::vector<std::string>& row = rows_[batch.ids[r]];
      for (size_t s = 0; s < slots_.size(); ++s) {
        const uint64_t bytes = slots_[s].row_bytes();
        row.emplace_back(batch.slots[s] + r * bytes, bytes);
      }
    }
    return absl::OkStatus();
  }

  const std::vector<Slot>& slots() const { return slots_; }
  const std::vector<std::string>& Of(int64_t id) const { return rows_.at(id); }

 private:
  const std::vector<Slot> slots_;
  std::map<int64_t, std::vector<std::string>> rows_;
};

void PrintText(const Version& version, const RowSearch& search,
               const FoundRows& found, const RowValues& values,
               std::ostream* out) {
  *out << ToString(version) << ", table " << Printable(search.table) << ": "
       << FormatCount(found.rows.size()) << " of "
       << FormatCount(found.matched_rows)
       << (found.matched_rows == 1 ? " row" : " rows")
       << (search.where.empty() ? "" : " that match");
  if (search.ids.has_value() && found.missing_ids > 0) {
    *out << ", " << FormatCount(found.missing_ids)
         << (found.missing_ids == 1 ? " id is missing" : " ids are missing");
  }
  *out << '\n';
  std::vector<std::string> titles = {">ID"};
  if (!search.sort.empty()) titles.push_back(">" + Printable(search.sort));
  for (const Slot& slot : values.slots()) {
    titles.push_back(
        absl::StrCat(slot.elements == 1 ? ">" : "", Printable(slot.name)));
  }
  TextTable table({titles.begin(), titles.end()});
  for (const FoundRow& row : found.rows) {
    std::vector<std::string> cells = {absl::StrCat(row.id)};
    if (!search.sort.empty()) {
      const auto value = static_cast<double>(row.sort_value);
      cells.push_back(std::isnan(value) ? "nan"
                                        : absl::StrFormat("%.9g", value));
    }
    for (size_t s = 0; s < values.slots().size(); ++s) {
      cells.push_back(ElementsText(values.slots()[s].dtype,
                                   values.Of(row.id)[s], kRowElements));
    }
    table.AddRow(std::move(cells));
  }
  if (!found.rows.empty()) *out << table.ToString();
}

Json RowsJson(const std::string& store, const Version& version,
              const RowSearch& search, const FoundRows& found,
              const RowValues& values) {
  Json json = {{"store", store}};
  json.update(ToJson(version));
  json["table"] = search.table;
  json["matched_rows"] = found.matched_rows;
  json["read_rows"] = found.read_rows;
  json["missing_ids"] =
      search.ids.has_value() ? Json(found.missing_ids) : Json();
  json["rows"] = Json::array();
  for (const FoundRow& row : found.rows) {
    json["rows"].push_back(
        {{"id", row.id},
         {"sort_value", search.sort.empty()
                            ? Json()
                            : NumberJson(static_cast<double>(row.sort_value))},
         {"slots", ValuesJson(values.slots(), values.Of(row.id))}});
  }
  return json;
}

class Rows : public Command {
 public:
  Rows()
      : Command({.name = "rows",
                 .summary = "List the rows of a table: all, some ids, or those "
                            "that match a filter",
                 .notes = absl::StrCat(
                     kFilterHelp,
                     "\nReads only ids, and the slots that --where and --sort "
                     "name, then\nthe rows that are printed. Without --sort, "
                     "rows are in order of id.\n"),
                 .examples =
                     "  ckptdb rows user --where 'nan(embedding) | "
                     "norm(embedding) > 10'\n"
                     "  ckptdb rows user --sort 'norm(embedding)' --limit 10\n"
                     "  ckptdb rows user --ids 1,2,5-9 --slots freq --json\n",
                 .paged = true}) {}
  void AddArguments(CLI::App* app) override {
    app->add_option("TABLE", search_.table, "a table")
        ->type_name("")
        ->required();
    AddStepOption(app, &step_);
    app->add_option("--ids", ids_, kIdsHelp)->type_name("IDS");
    app->add_option("--where", search_.where, "only rows that match")
        ->type_name("FILTER");
    app->add_option("--sort", search_.sort,
                    "largest values first, such as \"norm(embedding)\"")
        ->type_name("VALUE");
    app->add_flag("--smallest", search_.smallest_first,
                  "smallest values first");
    app->add_option("--limit", search_.limit,
                    absl::StrCat("print so many rows; default: ", search_.limit,
                                 ", at most ", kMaxRowLimit))
        ->type_name("N")
        ->check(CLI::Range(size_t{0}, kMaxRowLimit));
    app->add_option("--slots", slots_, "print only these slots: a,b")
        ->type_name("SLOTS")
        ->join(',');
  }
  absl::Status Run(const Context& context) override;

 private:
  RowSearch search_;
  std::string step_ = "latest";
  std::string ids_;
  std::string slots_;
};

absl::Status Rows::Run(const Context& context) {
  if (!ids_.empty()) {
    CKPTDB_ASSIGN_OR_RETURN(search_.ids, IdList::ParseOrRead(ids_));
  }
  CKPTDB_ASSIGN_OR_RETURN(auto reader, OpenReader(context));
  CKPTDB_ASSIGN_OR_RETURN(auto step, OpenStep(context, reader.get(), step_));
  CKPTDB_ASSIGN_OR_RETURN(const StepReader::TableSpec table,
                          FindTable(*step, search_.table));
  CKPTDB_ASSIGN_OR_RETURN(
      std::vector<Slot> slots,
      ChooseSlots(search_.table, table.slots, SplitSlots(slots_)));
  ProgressLine progress(context.terminal, "rows: reading");
  ReadOptions options;
  options.progress = [&](uint64_t done_bytes, uint64_t all_bytes) {
    progress.Update(done_bytes, all_bytes);
  };
  const auto found = SearchRows(*step, search_, options);
  if (!found.ok()) return ReadingStatus(found.status());
  std::vector<int64_t> ids;
  for (const FoundRow& row : found->rows) ids.push_back(row.id);
  RowValues values(std::move(slots));
  CKPTDB_RETURN_IF_ERROR(ReadingStatus(
      LookUpRows(*step, search_.table, values.slots(), ids, options, &values)));
  const Version& version = step->record().version;
  if (context.json) {
    PrintJson(RowsJson(context.store, version, search_, *found, values),
              context.out);
  } else {
    PrintText(version, search_, *found, values, context.out);
  }
  return absl::OkStatus();
}

}  // namespace

std::unique_ptr<Command> NewRows() { return std::make_unique<Rows>(); }

}  // namespace ckptdb::tool
