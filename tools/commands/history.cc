// SPDX-License-Identifier: Apache-2.0
// ckptdb history: the steps in which a row changed.
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "schema/status.h"
#include "tools/command.h"
#include "tools/format.h"
#include "tools/json.h"
#include "tools/open_store.h"
#include "tools/progress_line.h"
#include "tools/row_argument.h"
#include "tools/row_history.h"
#include "tools/suggestion.h"
#include "tools/text_table.h"
#include "tools/values.h"

namespace ckptdb::tool {
namespace {

std::string SlotsText(const std::vector<std::string>& slots) {
  if (slots.empty()) return "-";
  return absl::StrJoin(slots, " ",
                       [](std::string* out, const std::string& slot) {
                         absl::StrAppend(out, Printable(slot));
                       });
}

void PrintText(const std::vector<RowEvent>& events, std::ostream* out) {
  TextTable table({">STEP", ">ATTEMPT", "COMMITTED (UTC)", "ROW", "SLOTS"});
  for (const RowEvent& event : events) {
    table.AddRow({absl::StrCat(event.step.version.step),
                  absl::StrCat(event.step.version.attempt),
                  FormatUtc(event.step.committed_at_micros),
                  Str(RowChangeName(event.change)),
                  SlotsText(event.changed_slots)});
  }
  *out << table.ToString();
}

Json EventJson(const RowEvent& event) {
  Json json = ToJson(event.step.version);
  json["committed_at"] = FormatIsoUtc(event.step.committed_at_micros);
  json["committed_at_micros"] = event.step.committed_at_micros;
  json["change"] = Str(RowChangeName(event.change));
  json["changed_slots"] = event.changed_slots;
  json["slots"] = ValuesJson(event.row.slots, event.row.values);
  return json;
}

Json HistoryJson(const std::string& store, const RowArgument& row,
                 const RowHistory& history, bool complete) {
  Json json = {{"store", store},
               {"table", row.table},
               {"id", row.id()},
               {"complete", complete}};
  json["events"] = Json::array();
  for (const RowEvent& event : history.events()) {
    json["events"].push_back(EventJson(event));
  }
  return json;
}

constexpr char kHistoryNotes[] =
    "Reads all committed steps, oldest first. For a delta step it\n"
    "reads the pages of the delta runs that may contain the id. For\n"
    "a full step, and for the first step, it looks up the row and\n"
    "compares it with the previous step. This takes some reads of up\n"
    "to 256 KiB and the records of the chain per step, even for a\n"
    "row that never changed.\n";

class History : public Command {
 public:
  History()
      : Command({.name = "history",
                 .summary = "List the steps in which a row appeared, changed "
                            "or was erased",
                 .notes = kHistoryNotes,
                 .examples =
                     "  ckptdb history user 4711 --store /checkpoints/ctr\n"
                     "  ckptdb history user -3 -s /checkpoints/ctr --json\n",
                 .paged = true}) {}
  void AddArguments(CLI::App* app) override { AddRow(app, &row_); }
  absl::Status Run(const Context& context) override;

 private:
  absl::Status NotFound(const Context& context, Reader* reader,
                        bool found_table) const;
  RowArgument row_;
};

absl::Status ReadAll(const Context& context, const Reader& reader,
                     RowHistory* history) {
  const ProgressLine progress(context.terminal, "history: reading");
  for (const StepRecord& step : reader.Steps()) {
    CKPTDB_RETURN_IF_ERROR(history->Add(step));
  }
  return absl::OkStatus();
}

// Distinguishes a missing row from a missing table, which is usually a misspelt
// name.
absl::Status History::NotFound(const Context& context, Reader* reader,
                               bool found_table) const {
  const std::string table = absl::StrCat("table \"", row_.table, "\"");
  if (found_table) {
    return absl::NotFoundError(absl::StrCat(context.store,
                                            ": no step has a row with id ",
                                            row_.id(), " in ", table));
  }
  const auto latest = reader->Latest();
  const auto step =
      latest.ok()
          ? reader->OpenStep(latest->version.step)
          : absl::StatusOr<std::unique_ptr<StepReader>>(latest.status());
  return absl::NotFoundError(absl::StrCat(
      context.store, ": no step has a ", table,
      step.ok() ? DidYouMean(row_.table, ItemNames(**step, Item::Kind::kRows))
                : ""));
}

absl::Status History::Run(const Context& context) {
  CKPTDB_ASSIGN_OR_RETURN(auto reader, OpenReader(context));
  RowHistory history(reader.get(), row_.table, row_.id());
  absl::Status status = ReadAll(context, *reader, &history);
  if (status.ok() && history.skipped() > 0) {
    // Exit code 5: the remaining steps are printed, but the history has gaps.
    status = absl::AbortedError(absl::StrCat(
        context.store, ": ", history.skipped(),
        " steps were removed while they were being read, and are missing"));
  }
  // Prints the events even after an error: an unreadable step does not hide the
  // earlier ones.
  if (history.events().empty()) {
    return status.ok() ? NotFound(context, reader.get(), history.found_table())
                       : status;
  }
  if (context.json) {
    PrintJson(HistoryJson(context.store, row_, history, status.ok()),
              context.out);
  } else {
    PrintText(history.events(), context.out);
  }
  return status;
}

}  // namespace

std::unique_ptr<Command> NewHistory() { return std::make_unique<History>(); }

}  // namespace ckptdb::tool
