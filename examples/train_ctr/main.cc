// train_ctr: trains a click-through-rate model and checkpoints it in a ckptdb
// store. Exit codes: 0 done, 1 failed (the reason on stderr), CLI11's above
// 100 for a wrong command line.
#include <CLI/CLI.hpp>
#include <cstdio>

#include "train_ctr/job.h"
#include "train_ctr/options.h"

namespace {

int Fail(const absl::Status& status) {
  std::fprintf(stderr, "train_ctr: %s\n", status.ToString().c_str());
  return 1;
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app(
      "Trains a click-through-rate model and checkpoints it.\n"
      "Example: train_ctr --store /tmp/ctr --steps 1000 --batch 256 "
      "--save-every 100 --resume");
  train_ctr::Options options;
  train_ctr::AddOptions(&app, &options);
  CLI11_PARSE(app, argc, argv);

  const auto report = train_ctr::RunJob(options);
  if (!report.ok()) return Fail(report.status());
  if (options.json.empty()) return 0;
  const absl::Status written = train_ctr::WriteJson(*report, options.json);
  return written.ok() ? 0 : Fail(written);
}
