// SPDX-License-Identifier: Apache-2.0
// train_ctr: trains a click-through-rate model and checkpoints it in a ckptdb
// store, alone or as the ranks of "mpirun train_ctr", or follows a process that
// does. Exit codes: 0 done, 1 failed or called wrongly, with the reason on
// stderr.
#include <ckptdb/schema/status.h>

#include <CLI/CLI.hpp>
#include <atomic>
#include <cstdio>
#include <string>

#include "absl/time/time.h"
#include "ranks/ranks.h"
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
  train_ctr::Follower follower(options.store, options.follow_options);
  const train_ctr::StopSignals signals([&follower] { follower.Stop(); });
  CKPTDB_ASSIGN_OR_RETURN(const auto report, follower.Run());
  return Write(report, options);
}

// Trains as one process, or as one of mpirun's ranks.
int Train(const train_ctr::Options& options) {
  std::atomic<bool> stopped = false;
  // Before MPI, whose threads would take the signals.
  const train_ctr::StopSignals signals([&stopped] { stopped = true; });
  return examples::RunRanks(
      {.program = "train_ctr",
       .deadline = absl::Seconds(options.deadline_seconds)},
      [&](examples::Ranks* own) -> absl::Status {
        CKPTDB_ASSIGN_OR_RETURN(const auto report,
                                train_ctr::RunJob(options, own, &stopped));
        return own->is_owner() ? Write(report, options) : absl::OkStatus();
      });
}

int Fail(const std::string& why) {
  std::fprintf(stderr, "train_ctr: %s\n", why.c_str());
  return 1;
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app(
      "Trains a click-through-rate model and checkpoints it, or follows a "
      "process that does.\n"
      "Example: train_ctr --store ctr_store --steps 1000 --batch 256 "
      "--save-every 100 --delta --resume\n"
      "         mpirun -np 4 train_ctr --store ctr_store --steps 1000 "
      "--save-every 100 --resume\n"
      "         train_ctr --store ctr_store --follow --until-step 1000");
  train_ctr::Options options;
  train_ctr::AddOptions(&app, &options);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() == 0) return app.exit(error);  // --help
    return Fail(error.what());
  }

  absl::Status done = train_ctr::CheckOptions(options);
  if (done.ok() && !options.json.empty()) {
    done = train_ctr::CheckJsonPath(options.json);
  }
  if (done.ok() && !options.follow) return Train(options);
  if (done.ok()) done = Follow(options);
  return done.ok() ? 0 : Fail(done.ToString());
}
