// SPDX-License-Identifier: Apache-2.0
// ckptdb row: the values of one row.
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "CLI/App.hpp"
#include "absl/strings/str_cat.h"
#include "schema/status.h"
#include "tools/command.h"
#include "tools/format.h"
#include "tools/json.h"
#include "tools/open_store.h"
#include "tools/row_argument.h"
#include "tools/step_argument.h"
#include "tools/suggestion.h"
#include "tools/text_table.h"
#include "tools/values.h"

namespace ckptdb::tool {
namespace {

// The number of elements per slot that a line shows.
constexpr size_t kShownElements = 8;

void PrintText(const Version& version, const RowArgument& argument,
               const StepReader::TableSpec& table,
               const std::vector<std::string>& row, std::ostream* out) {
  *out << ToString(version) << ", table " << Printable(argument.table)
       << ", row " << argument.id() << '\n';
  TextTable text({"SLOT", "DTYPE", ">ELEMENTS", "VALUES"}, 2);
  for (size_t i = 0; i < table.slots.size(); ++i) {
    const Slot& slot = table.slots[i];
    text.AddRow({Printable(slot.name), Str(DTypeName(slot.dtype)),
                 FormatCount(slot.elements),
                 ElementsText(slot.dtype, row[i], kShownElements)});
  }
  *out << text.ToString();
}

Json RowJson(const std::string& store, const Version& version,
             const RowArgument& argument, const StepReader::TableSpec& table,
             const std::vector<std::string>& row) {
  Json json = {{"store", store}};
  json.update(ToJson(version));
  json["table"] = argument.table;
  json["id"] = argument.id();
  json["slots"] = ValuesJson(table.slots, row);
  return json;
}

class RowCommand : public Command {
 public:
  RowCommand()
      : Command({.name = "row",
                 .summary = "Show the values of a row, slot by slot",
                 .examples = "  ckptdb row user 4711 --store /checkpoints/ctr\n"
                             "  ckptdb row user -3 --step 1000 -s "
                             "/checkpoints/ctr --json\n",
                 .paged = true}) {}
  void AddArguments(CLI::App* app) override {
    AddRow(app, &row_);
    AddStepOption(app, &step_);
  }
  absl::Status Run(const Context& context) override {
    CKPTDB_ASSIGN_OR_RETURN(auto reader, OpenReader(context));
    CKPTDB_ASSIGN_OR_RETURN(auto step, OpenStep(context, reader.get(), step_));
    CKPTDB_ASSIGN_OR_RETURN(const StepReader::TableSpec table,
                            FindTable(*step, row_.table));
    const auto row = step->LookupRow(row_.table, row_.id());
    if (!row.ok()) return ReadingStatus(row.status());
    const Version& version = step->record().version;
    if (context.json) {
      PrintJson(RowJson(context.store, version, row_, table, *row),
                context.out);
    } else {
      PrintText(version, row_, table, *row, context.out);
    }
    return absl::OkStatus();
  }

 private:
  RowArgument row_;
  std::string step_ = "latest";
};

}  // namespace

std::unique_ptr<Command> NewRow() { return std::make_unique<RowCommand>(); }

}  // namespace ckptdb::tool
