// SPDX-License-Identifier: Apache-2.0
// ckptdb_bench: how far the store is from the raw limit of this machine.
#include <cstdio>
#include <functional>
#include <string>
#include <vector>

#include "CLI/CLI.hpp"
#include "bench/cases.h"
#include "bench/report.h"
#include "schema/status.h"

namespace ckptdb::bench {
namespace {

struct Case {
  const char* name;
  const char* help;
  absl::Status (*run)(const BenchOptions&, Report*);
};

constexpr Case kCases[] = {
    {"full", "save a table; and the alternatives to it", RunFull},
    {"dense", "save tensors", RunDense},
    {"restore", "read both back, cold", RunRestore},
    {"retention", "delete a step; open a store of many steps", RunRetention},
    {"tiny", "save 1,000 rows and 1 MiB of tensors", RunTiny},
    {"delta", "save 1 % of the rows, against all", RunDelta},
    {"chain", "restore a base with 10 and 100 deltas", RunChain},
    {"scale", "commits of up to 1,024 ranks", RunScalePublish},
    {"follow", "read one delta over what is held", RunFollow},
    {"fold", "fold 10 deltas into a base", RunFold},
    {"stall", "how long a manager blocks the training", RunStall},
    {"marks", "mark rows as changed", RunMarks},
    {"lossy", "encode and decode with lossy codecs", RunLossy},
};

constexpr char kExample[] =
    "Every repetition measures the store and the raw limit in turns: the same\n"
    "bytes, written and synced or read. Seconds are medians.\n"
    "Example: ckptdb_bench full --dir /mnt/disk --json\n"
    "Exit status: 0 measured, 1 a case failed, 2 bad arguments.";

void AddOptions(BenchOptions* options, bool* json, CLI::App* app) {
  app->add_option("--dir", options->dir,
                  "Work in a new folder in this one, removed at the end")
      ->capture_default_str();
  app->add_option("--repetitions", options->repetitions)
      ->check(CLI::Range(1, 1000))
      ->capture_default_str();
  app->add_option("--alternative-repetitions", options->alternative_repetitions,
                  "Repetitions of the slow alternatives; 0 skips them")
      ->check(CLI::Range(0, 1000))
      ->capture_default_str();
  app->add_option("--threads", options->threads,
                  "Worker threads of the store; 0: the defaults")
      ->check(CLI::Range(0, 1024))
      ->capture_default_str();
  app->add_option("--rows", options->rows, "Rows of the table")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  app->add_option("--dense-bytes", options->dense_bytes, "Bytes of the tensors")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  app->add_option("--retention-bytes", options->retention_bytes,
                  "Bytes of the step that `retention` deletes")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  app->add_option("--steps", options->steps,
                  "Steps of the stores that are opened")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  app->add_option("--max-ranks", options->max_ranks,
                  "Largest number of ranks in `scale`")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  app->add_option("--seed", options->seed)->capture_default_str();
  app->add_flag("--json", *json, "One JSON object a case, one a line");
}

int Run(const BenchOptions& options, bool json,
        const std::vector<const Case*>& chosen) {
  Report report;
  int exit_status = 0;
  for (const Case* one : chosen) {
    const absl::Status status = one->run(options, &report);
    if (status.ok()) continue;
    std::fprintf(stderr, "ckptdb_bench %s: %s\n", one->name,
                 status.ToString().c_str());
    exit_status = 1;
  }
  const std::string text = json ? report.Json() : report.Text();
  std::fwrite(text.data(), 1, text.size(), stdout);
  return exit_status;
}

int Main(int argc, char** argv) {
  CLI::App app("Measures ckptdb against the raw limit of this machine.");
  app.footer(kExample);
  app.fallthrough();
  app.require_subcommand(1, static_cast<int>(std::size(kCases)));
  BenchOptions options;
  bool json = false;
  AddOptions(&options, &json, &app);
  std::vector<const Case*> chosen;
  for (const Case& one : kCases) {
    app.add_subcommand(one.name, one.help)->callback([&chosen, &one] {
      chosen.push_back(&one);
    });
  }
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : 2;
  }
  return Run(options, json, chosen);
}

}  // namespace
}  // namespace ckptdb::bench

int main(int argc, char** argv) { return ckptdb::bench::Main(argc, argv); }
