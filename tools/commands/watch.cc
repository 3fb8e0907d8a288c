// SPDX-License-Identifier: Apache-2.0
// ckptdb watch: a live view of a store.
#include <poll.h>
#include <termios.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <iostream>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "CLI/App.hpp"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "schema/status.h"
#include "tools/command.h"
#include "tools/format.h"
#include "tools/interrupt.h"
#include "tools/json.h"
#include "tools/open_store.h"
#include "tools/step_totals.h"
#include "tools/store_series.h"
#include "tools/text_table.h"
#include "tools/value_checks.h"

namespace ckptdb::tool {
namespace {

// Reads single keys without echo while it lives.
class KeyInput {
 public:
  explicit KeyInput(bool wanted) {
    if (!wanted || isatty(STDIN_FILENO) == 0) return;
    if (tcgetattr(STDIN_FILENO, &before_) != 0) return;
    termios raw = before_;
    raw.c_lflag &= ~static_cast<tcflag_t>(ICANON | ECHO);
    active_ = tcsetattr(STDIN_FILENO, TCSANOW, &raw) == 0;
  }
  ~KeyInput() {
    if (active_) tcsetattr(STDIN_FILENO, TCSANOW, &before_);
  }
  KeyInput(const KeyInput&) = delete;
  KeyInput& operator=(const KeyInput&) = delete;

  // Waits, and returns whether "q" was pressed. A signal ends the wait early.
  bool WaitForQuit(int64_t millis) const {
    pollfd input = {STDIN_FILENO, POLLIN, 0};
    if (poll(&input, active_ ? 1 : 0, static_cast<int>(millis)) <= 0) {
      return false;
    }
    char key = 0;
    return read(STDIN_FILENO, &key, 1) == 1 && (key == 'q' || key == 'Q');
  }

 private:
  termios before_ = {};
  bool active_ = false;
};

// The differences between two looks at the store.
struct Watched {
  std::vector<StepRecord> steps;
  std::vector<StepRecord> added;
  std::vector<Version> removed;
};

class WatchCommand : public Command {
 public:
  WatchCommand()
      : Command(
            {.name = "watch",
             .summary = "Show the steps of a store as they are saved",
             .notes =
                 "On a terminal, shows the newest steps and the trends of\n"
                 "their numbers until \"q\" or Ctrl-C. Otherwise prints a\n"
                 "line for each step that is saved or removed; with --json\n"
                 "a document on each look.\n",
             .examples = "  ckptdb watch -s /checkpoints/ctr\n"
                         "  ckptdb watch -s /checkpoints/ctr --interval 10 "
                         "| tee saves.log\n"}) {}
  void AddArguments(CLI::App* app) override {
    app->add_option("--interval", seconds_, "seconds between two looks")
        ->type_name("SECONDS")
        ->check(CLI::Range(0.05, 86400.0))
        ->capture_default_str();
    app->add_option("--count", count_, "end after N looks")
        ->type_name("N")
        ->check(AtLeast(1));
    app->add_option("--file", file_, "statistics file of the manager")
        ->type_name("FILE");
  }
  absl::Status Run(const Context& context) override;

 private:
  absl::Status Look(const Context& context, Reader* reader,
                    Watched* seen) const;
  absl::Status Draw(const Context& context, const Reader& reader,
                    const Watched& seen) const;

  double seconds_ = 2;
  uint64_t count_ = 0;  // 0: no end
  std::string file_;
};

Watched Compare(const std::vector<StepRecord>& before,
                std::vector<StepRecord> now) {
  Watched seen;
  std::set<Version> old;
  std::set<Version> current;
  for (const StepRecord& record : before) old.insert(record.version);
  for (const StepRecord& record : now) {
    current.insert(record.version);
    if (!old.contains(record.version)) seen.added.push_back(record);
  }
  for (const Version& version : old) {
    if (!current.contains(version)) seen.removed.push_back(version);
  }
  seen.steps = std::move(now);
  return seen;
}

std::string NumbersText(const StepRecord& record) {
  constexpr size_t kShown = 3;
  std::string text;
  size_t shown = 0;
  for (const auto& [name, value] : record.metrics) {
    if (++shown > kShown) break;
    absl::StrAppend(&text, "  ", Printable(name), " ",
                    absl::StrFormat("%.6g", value));
  }
  return text;
}

void PrintLines(const Watched& seen, std::ostream* out) {
  for (const StepRecord& record : seen.added) {
    *out << FormatUtc(record.committed_at_micros) << "  step "
         << record.version.step << " " << StepKindName(record.kind) << "  "
         << FormatBytes(record.exclusive_bytes) << " in "
         << FormatDuration(record.save_micros) << "  "
         << FormatCount(record.rows) << " rows" << NumbersText(record) << '\n';
  }
  for (const Version& version : seen.removed) {
    *out << FormatUtc(absl::ToUnixMicros(absl::Now())) << "  "
         << ToString(version) << " is no longer a step\n";
  }
  out->flush();
}

Json SeenJson(const Context& context, const Reader& reader,
              const Watched& seen) {
  Json json = {{"store", context.store},
               {"at", FormatIsoUtc(absl::ToUnixMicros(absl::Now()))},
               {"steps", seen.steps.size()}};
  const auto latest = reader.Latest();
  json["latest_step"] = latest.ok() ? Json(latest->version.step) : Json();
  json["added_versions"] = Json::array();
  for (const StepRecord& record : seen.added) {
    json["added_versions"].push_back(ToJson(record.version));
  }
  json["removed_versions"] = Json::array();
  for (const Version& version : seen.removed) {
    json["removed_versions"].push_back(ToJson(version));
  }
  return json;
}

std::string StepsTable(const Watched& seen) {
  constexpr size_t kMostLines = 12;
  TextTable table({">STEP", "KIND", ">CHAIN", "FLAGS", ">ROWS", ">OWN", ">AGE",
                   ">SAVED IN", "METRICS"});
  const size_t first =
      seen.steps.size() - std::min(seen.steps.size(), kMostLines);
  const int64_t now = absl::ToUnixMicros(absl::Now());
  for (size_t i = first; i < seen.steps.size(); ++i) {
    const StepRecord& step = seen.steps[i];
    table.AddRow({absl::StrCat(step.version.step), Str(StepKindName(step.kind)),
                  absl::StrCat(step.chain.size()), FlagsText(step),
                  FormatCount(step.rows), FormatBytes(step.exclusive_bytes),
                  FormatAge(step.committed_at_micros, now),
                  FormatDuration(step.save_micros), NumbersText(step)});
  }
  return table.ToString();
}

// Draws over the last view.
absl::Status WatchCommand::Draw(const Context& context, const Reader& reader,
                                const Watched& seen) const {
  constexpr size_t kTrend = 30;
  CKPTDB_ASSIGN_OR_RETURN(const StoreSeries series, LoadSeries(reader, file_));
  TextTable trends({"COLUMN", ">LAST", "TREND"});
  for (const std::string& column : series.columns) {
    const std::vector<double> values = series.ValuesOf(column);
    if (values.empty()) continue;
    trends.AddRow({Printable(column), ColumnText(column, values.back()),
                   Sparkline(values, kTrend)});
  }
  *context.out << "\x1b[H\x1b[2J" << Printable(context.store) << "  "
               << FormatUtc(absl::ToUnixMicros(absl::Now())) << " UTC  "
               << seen.steps.size() << " steps  (q ends)\n\n"
               << StepsTable(seen) << '\n'
               << trends.ToString() << std::flush;
  return absl::OkStatus();
}

absl::Status WatchCommand::Look(const Context& context, Reader* reader,
                                Watched* seen) const {
  const absl::Status refreshed = reader->Refresh();
  if (!refreshed.ok()) return ReadingStatus(refreshed);
  *seen = Compare(seen->steps, reader->Steps());
  const bool draws =
      context.out == &std::cout && isatty(STDOUT_FILENO) == 1 && !context.json;
  if (draws) return Draw(context, *reader, *seen);
  if (context.json) {
    *context.out << LineOfJson(SeenJson(context, *reader, *seen)) << std::endl;
  } else {
    PrintLines(*seen, context.out);
  }
  return absl::OkStatus();
}

absl::Status WatchCommand::Run(const Context& context) {
  constexpr double kMillis = 1000;
  const Interrupt interrupt;
  const KeyInput keys(context.out == &std::cout);
  CKPTDB_ASSIGN_OR_RETURN(auto reader, OpenReader(context));
  Watched seen;
  for (uint64_t looks = 1;; ++looks) {
    CKPTDB_RETURN_IF_ERROR(Look(context, reader.get(), &seen));
    // A reader of the output, such as `head`, may have ended.
    if (looks == count_ || !context.out->good()) break;
    if (keys.WaitForQuit(static_cast<int64_t>(seconds_ * kMillis))) break;
    // Ctrl-C is the way to end it, and no error.
    if (Interrupt::asked()) break;
  }
  return absl::OkStatus();
}

}  // namespace

std::unique_ptr<Command> NewWatch() { return std::make_unique<WatchCommand>(); }

}  // namespace ckptdb::tool
