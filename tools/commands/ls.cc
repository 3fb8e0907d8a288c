// ckptdb ls: the committed steps of a store.
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "ckptdb/schema/status.h"
#include "ckptdb/tools/chain_length.h"
#include "ckptdb/tools/command.h"
#include "ckptdb/tools/format.h"
#include "ckptdb/tools/json.h"
#include "ckptdb/tools/open_store.h"
#include "ckptdb/tools/step_totals.h"
#include "ckptdb/tools/text_table.h"

namespace ckptdb::tool {
namespace {

Json ListedJson(const StepRecord& record) {
  Json json = SummaryJson(record);
  json["chain_length"] = record.chain.size();
  json["items"] = record.items;
  json["rows"] = record.rows;
  json["raw_bytes"] = record.raw_bytes;
  json["exclusive_bytes"] = record.exclusive_bytes;
  return json;
}

// Rows of a delta step are those that changed, and are marked with a plus sign.
std::string RowsText(const StepRecord& step) {
  const bool delta = step.kind == StepRecord::Kind::kDelta;
  return absl::StrCat(delta ? "+" : "", FormatCount(step.rows));
}

void PrintTable(const std::vector<StepRecord>& steps, const Context& context) {
  TextTable table({{"STEP", TextTable::kRight},
                   {"KIND"},
                   {"CHAIN", TextTable::kRight},
                   {"FLAGS"},
                   {"RANKS", TextTable::kRight},
                   {"ROWS", TextTable::kRight},
                   {"BYTES", TextTable::kRight},
                   {"OWN", TextTable::kRight},
                   {"COMMITTED (UTC)"},
                   {"AGE", TextTable::kRight},
                   {"SAVED IN", TextTable::kRight}});
  for (const StepRecord& step : steps) {
    table.AddRow({absl::StrCat(step.version.step), Str(StepKindName(step.kind)),
                  absl::StrCat(step.chain.size()), FlagsText(step),
                  absl::StrCat(step.world_size), RowsText(step),
                  FormatBytes(step.raw_bytes),
                  FormatBytes(step.exclusive_bytes),
                  FormatUtc(step.committed_at_micros),
                  FormatAge(step.committed_at_micros, context.now_micros),
                  FormatDuration(step.save_micros)});
  }
  *context.out << table.ToString();
}

class Ls : public Command {
 public:
  std::string name() const override { return "ls"; }
  std::string summary() const override {
    return "List the committed steps of a store";
  }
  std::string examples() const override {
    return "  ckptdb ls --store /checkpoints/ctr\n"
           "  ckptdb ls -s /checkpoints/ctr --json\n";
  }
  void AddArguments(CLI::App*) override {}
  std::string notes() const override {
    return "CHAIN is the number of versions that the step is restored from, "
           "its own included.\n"
           "ROWS and BYTES of a delta step count only what changed.\n";
  }
  absl::Status Run(const Context& context) override {
    CKPTDB_ASSIGN_OR_RETURN(auto reader, OpenReader(context));
    const std::vector<StepRecord> steps = reader->Steps();
    if (!context.json) {
      PrintTable(steps, context);
      return absl::OkStatus();
    }
    Json document = {{"store", context.store}, {"uuid", reader->uuid()}};
    document["store_metadata"] = MetadataJson(reader->user_metadata());
    document["steps"] = Json::array();
    for (const StepRecord& step : steps) {
      document["steps"].push_back(ListedJson(step));
    }
    PrintJson(document, context.out);
    return absl::OkStatus();
  }
};

}  // namespace

std::unique_ptr<Command> NewLs() { return std::make_unique<Ls>(); }

}  // namespace ckptdb::tool
