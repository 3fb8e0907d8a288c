// train_ctr: trains a click-through-rate model and checkpoints it in a ckptdb
// store, or follows a process that does. Exit codes: 0 done, 1 failed or called
// wrongly, with the reason on stderr.
#include <ckptdb/schema/status.h>

#include <CLI/CLI.hpp>
#include <cstdio>

#include "train_ctr/follower.h"
#include "train_ctr/job.h"
#include "train_ctr/json_report.h"
#include "train_ctr/options.h"
#include "train_ctr/stop_signals.h"

namespace {

template <typename Report>
absl::Status Write(const Report& report, const train_ctr::Options& options) {
  return options.json.empty() ? absl::OkStatus()
                              : train_ctr::WriteJson(report, options.json);
}

absl::Status Follow(const train_ctr::Options& options) {
  CKPTDB_RETURN_IF_ERROR(train_ctr::CheckOptions(options));
  train_ctr::Follower follower(options.store, options.follow_options);
  const train_ctr::StopSignals signals([&follower] { follower.Stop(); });
  CKPTDB_ASSIGN_OR_RETURN(const auto report, follower.Run());
  return Write(report, options);
}

absl::Status Train(const train_ctr::Options& options) {
  CKPTDB_ASSIGN_OR_RETURN(const auto report, train_ctr::RunJob(options));
  return Write(report, options);
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app(
      "Trains a click-through-rate model and checkpoints it, or follows a "
      "process that does.\n"
      "Example: train_ctr --store ctr_store --steps 1000 --batch 256 "
      "--save-every 100 --delta --resume\n"
      "         train_ctr --store ctr_store --follow --until-step 1000");
  train_ctr::Options options;
  train_ctr::AddOptions(&app, &options);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() == 0) return app.exit(error);  // --help
    std::fprintf(stderr, "train_ctr: %s\n", error.what());
    return 1;
  }

  absl::Status done;
  if (!options.json.empty()) done = train_ctr::CheckJsonPath(options.json);
  if (done.ok()) done = options.follow ? Follow(options) : Train(options);
  if (done.ok()) return 0;
  std::fprintf(stderr, "train_ctr: %s\n", done.ToString().c_str());
  return 1;
}
