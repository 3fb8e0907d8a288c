// SPDX-License-Identifier: Apache-2.0
// ckptdb ls: the committed steps of a store.
#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "remote/remote_store.h"
#include "schema/status.h"
#include "tools/chain_length.h"
#include "tools/command.h"
#include "tools/format.h"
#include "tools/json.h"
#include "tools/open_store.h"
#include "tools/step_totals.h"
#include "tools/text_table.h"

namespace ckptdb::tool {
namespace {

// A step and its line.
struct Listed {
  StepRecord record;
  Reader::Posted posted;
  // The rows that its delta runs erase; nullopt if its rank records are
  // damaged.
  std::optional<uint64_t> erased;
};

// Only delta steps erase rows, so the rank records of other steps are not read.
std::optional<uint64_t> ErasedOf(const Reader& reader,
                                 const StepRecord& record) {
  if (record.kind == StepRecord::Kind::kFull) return 0;
  const auto ranks = reader.FindRanks(record.version.step);
  if (!ranks.ok()) return std::nullopt;
  return TotalsOf(*ranks).erased;
}

std::vector<Listed> ListAll(const Reader& reader) {
  std::vector<Listed> all;
  for (StepRecord& record : reader.Steps()) {
    const std::optional<uint64_t> erased = ErasedOf(reader, record);
    Reader::Posted posted = reader.FindPosted(record.version.step);
    all.push_back({std::move(record), std::move(posted), erased});
  }
  return all;
}

Json ListedJson(const Listed& listed) {
  const StepRecord& record = listed.record;
  Json json = SummaryJson(record);
  json["chain_length"] = record.chain.size();
  json["items"] = record.items;
  json["rows"] = record.rows;
  json["erased_rows"] =
      listed.erased.has_value() ? Json(*listed.erased) : Json();
  json["raw_bytes"] = record.raw_bytes;
  json["exclusive_bytes"] = record.exclusive_bytes;
  json["metrics"] = MetricsJson(record.metrics);
  SetPosted(listed.posted, &json);
  return json;
}

std::string ErasedText(const Listed& listed) {
  return listed.erased.has_value() ? FormatCount(*listed.erased) : "?";
}

// "auc 0.731, loss 0.42*, 5 more"
std::string MetricsText(const Listed& listed) {
  constexpr size_t kShown = 3;
  std::vector<std::string> texts;
  for (const auto& [name, value] : listed.record.metrics) {
    if (texts.size() == kShown) {
      const size_t more = listed.record.metrics.size() - kShown;
      texts.push_back(absl::StrCat(more, " more"));
      break;
    }
    const bool posted = listed.posted.metrics.contains(name);
    texts.push_back(absl::StrCat(Printable(name), " ",
                                 absl::StrFormat("%.6g", value),
                                 posted ? "*" : ""));
  }
  return texts.empty() ? "-" : absl::StrJoin(texts, ", ");
}

// The changed rows of a delta step have a plus sign.
std::string RowsText(const StepRecord& step) {
  const bool delta = step.kind == StepRecord::Kind::kDelta;
  return absl::StrCat(delta ? "+" : "", FormatCount(step.rows));
}

void PrintTable(const std::vector<Listed>& steps, const Context& context) {
  TextTable table({">STEP", "KIND", ">CHAIN", "FLAGS", ">RANKS", ">ROWS",
                   ">ERASED", ">BYTES", ">OWN", "COMMITTED (UTC)", ">AGE",
                   ">SAVED IN", "METRICS"});
  for (const Listed& listed : steps) {
    const StepRecord& step = listed.record;
    table.AddRow(
        {absl::StrCat(step.version.step), Str(StepKindName(step.kind)),
         absl::StrCat(step.chain.size()), FlagsText(step, listed.posted),
         absl::StrCat(step.world_size), RowsText(step), ErasedText(listed),
         FormatBytes(step.raw_bytes), FormatBytes(step.exclusive_bytes),
         FormatUtc(step.committed_at_micros),
         FormatAge(step.committed_at_micros, context.now_micros),
         FormatDuration(step.save_micros), MetricsText(listed)});
  }
  *context.out << table.ToString();
}

// Where the steps are shipped, and those that wait.
struct Shipping {
  ShipNote note;
  std::vector<int64_t> waiting;
  int64_t oldest_micros = 0;  // commit of the oldest of these; 0 without one
};

// A damaged note is reported, and does not hide the steps.
std::optional<Shipping> FindShipping(const std::vector<Listed>& steps,
                                     const Context& context) {
  const auto read = ReadShipNote(context.store);
  if (!read.ok()) context.PrintError(read.status());
  if (!read.ok() || !read->has_value()) return std::nullopt;
  const ShipNote& note = **read;
  Shipping shipping = {note, {}};
  for (const Listed& listed : steps) {
    const StepRecord& step = listed.record;
    const bool skipped = std::find(note.skipped.begin(), note.skipped.end(),
                                   step.version.step) != note.skipped.end();
    if (step.version.attempt <= note.last_attempt && !skipped) continue;
    shipping.waiting.push_back(step.version.step);
    if (shipping.oldest_micros == 0 ||
        step.committed_at_micros < shipping.oldest_micros) {
      shipping.oldest_micros = step.committed_at_micros;
    }
  }
  return shipping;
}

void PrintShipping(const Shipping& shipping, const Context& context) {
  *context.out << "shipped to " << Printable(shipping.note.url) << "; ";
  if (shipping.waiting.empty()) {
    *context.out << "no step waits";
  } else {
    *context.out << shipping.waiting.size() << " steps wait, the oldest for "
                 << FormatAge(shipping.oldest_micros, context.now_micros);
  }
  if (!shipping.note.error.empty()) {
    *context.out << "; the last attempt failed: "
                 << Printable(shipping.note.error);
  }
  *context.out << '\n';
}

Json ShippingJson(const Shipping& shipping, const Context& context) {
  const int64_t lag = shipping.waiting.empty()
                          ? 0
                          : context.now_micros - shipping.oldest_micros;
  return {{"url", shipping.note.url},
          {"waiting", shipping.waiting},
          {"lag_micros", lag},
          {"noted_at_micros", shipping.note.written_at_micros},
          {"error", ReasonJson(shipping.note.error)}};
}

constexpr char kLsNotes[] =
    "CHAIN is the number of versions from which the step is\n"
    "restored, including itself.\n"
    "ROWS and BYTES of a delta step count only its changed rows;\n"
    "ERASED counts the rows that it removes.\n"
    "METRICS and FLAGS with an asterisk were posted; the store's\n"
    "owner applies them with its next save.\n"
    "If a process ships the steps, the last line shows where and how far.\n";

class Ls : public Command {
 public:
  Ls()
      : Command({.name = "ls",
                 .summary = "List the committed steps of a store",
                 .notes = kLsNotes,
                 .examples = "  ckptdb ls --store /checkpoints/ctr\n"
                             "  ckptdb ls -s /checkpoints/ctr --json\n",
                 .paged = true}) {}
  absl::Status Run(const Context& context) override {
    CKPTDB_ASSIGN_OR_RETURN(auto reader, OpenReader(context));
    const std::vector<Listed> steps = ListAll(*reader);
    const std::optional<Shipping> shipping = FindShipping(steps, context);
    if (!context.json) {
      PrintTable(steps, context);
      if (shipping.has_value()) PrintShipping(*shipping, context);
      return absl::OkStatus();
    }
    Json document = {{"store", context.store}, {"uuid", reader->uuid()}};
    document["store_metadata"] = MetadataJson(reader->user_metadata());
    document["steps"] = Json::array();
    for (const Listed& step : steps) {
      document["steps"].push_back(ListedJson(step));
    }
    if (shipping.has_value()) {
      document["shipping"] = ShippingJson(*shipping, context);
    }
    PrintJson(document, context.out);
    return absl::OkStatus();
  }
};

}  // namespace

std::unique_ptr<Command> NewLs() { return std::make_unique<Ls>(); }

}  // namespace ckptdb::tool
