// SPDX-License-Identifier: Apache-2.0
// ckptdb report: a page with charts of a store.
#include <memory>
#include <string>

#include "CLI/App.hpp"
#include "CLI/Validators.hpp"
#include "schema/status.h"
#include "tools/command.h"
#include "tools/format.h"
#include "tools/open_store.h"
#include "tools/report/page.h"
#include "tools/report/report_data.h"

namespace ckptdb::tool {
namespace {

constexpr char kReportNotes[] =
    "The page works without a network: timeline of steps and branches,\n"
    "metrics, bytes and changed rows, durations and, with --file,\n"
    "stalls, sizes of tables and slots, distributions of tensors, and\n"
    "what is wrong with the store. It reads the tensors of some steps.\n";

class Report : public Command {
 public:
  Report()
      : Command({.name = "report",
                 .summary = "Write a page with charts of a store",
                 .notes = kReportNotes,
                 .examples =
                     "  ckptdb report /tmp/ctr.html --store /checkpoints/ctr\n"
                     "  ckptdb report ctr.html --file saves.jsonl --force\n"
                     "  ckptdb report --json > ctr.json\n"}) {}
  void AddArguments(CLI::App* app) override {
    app->add_option("OUT", out_, "the page, an HTML file");
    app->add_option("--file", options_.statistics_path,
                    "the manager's statistics_path: stalls")
        ->type_name("FILE");
    app->add_option("--steps", options_.max_steps, "show the newest N steps")
        ->type_name("N")
        ->capture_default_str()
        ->check(CLI::Range(1, 1000000));
    app->add_option("--tensor-steps", options_.tensor_steps,
                    "read the tensors of N steps; 0: of none")
        ->type_name("N")
        ->capture_default_str()
        ->check(CLI::Range(0, 100));
    app->add_flag("--force", force_, "replace the page if it exists");
  }
  absl::Status Run(const Context& context) override {
    if (out_.empty() && !context.json) {
      return absl::InvalidArgumentError(
          "the page has no name: ckptdb report OUT.html");
    }
    CKPTDB_ASSIGN_OR_RETURN(const auto reader, OpenReader(context));
    options_.terminal = context.terminal;
    CKPTDB_ASSIGN_OR_RETURN(const Json data,
                            ReportData(reader.get(), options_));
    if (!out_.empty()) {
      CKPTDB_RETURN_IF_ERROR(WriteReport(data, out_, force_));
    }
    if (context.json) {
      PrintJson(data, context.out);
    } else {
      *context.out << "wrote " << Printable(out_) << ": "
                   << FormatCount(data["steps"].size()) << " steps, "
                   << FormatCount(data["findings"].size()) << " findings\n";
    }
    return absl::OkStatus();
  }

 private:
  std::string out_;
  bool force_ = false;
  ReportOptions options_;
};

}  // namespace

std::unique_ptr<Command> NewReport() { return std::make_unique<Report>(); }

}  // namespace ckptdb::tool
