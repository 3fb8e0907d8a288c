// SPDX-License-Identifier: Apache-2.0
// train_ctr: trains a click-through-rate model and checkpoints it in a ckptdb
// store, alone or as the ranks of "mpirun train_ctr", or follows a process that
// does. Exit codes: 0 done, 1 failed or called wrongly, with the reason on
// stderr.
#include <ckptdb/schema/status.h>

#include <CLI/CLI.hpp>
#include <atomic>
#include <csignal>
#include <cstdio>
#include <fstream>
#include <functional>
#include <string>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "ranks/ranks.h"
#include "train_ctr/follower.h"
#include "train_ctr/job.h"
#include "train_ctr/options.h"

namespace {

// As long as it lives, SIGINT and SIGTERM call `stop`, in a separate thread,
// instead of killing the process. Make it before other threads, which then
// leave the signals to it.
class StopSignals {
 public:
  explicit StopSignals(std::function<void()> stop) {
    sigemptyset(&signals_);
    sigaddset(&signals_, SIGINT);
    sigaddset(&signals_, SIGTERM);
    pthread_sigmask(SIG_BLOCK, &signals_, &before_);
    waiter_ = std::thread([this, stop = std::move(stop)] {
      int signal = 0;
      while (sigwait(&signals_, &signal) == 0 && !ending_) stop();
    });
  }
  ~StopSignals() {
    ending_ = true;
    pthread_kill(waiter_.native_handle(), SIGINT);
    waiter_.join();
    pthread_sigmask(SIG_SETMASK, &before_, nullptr);
  }
  StopSignals(const StopSignals&) = delete;
  StopSignals& operator=(const StopSignals&) = delete;

 private:
  sigset_t signals_;
  sigset_t before_;
  std::atomic<bool> ending_ = false;
  std::thread waiter_;
};

// Returns InvalidArgument if the report cannot be written.
absl::Status CheckReport(const std::string& path) {
  if (path.empty() || std::ofstream(path, std::ios::app)) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(
      absl::StrCat("--json \"", path, "\" cannot be written"));
}

absl::Status WriteReport(const nlohmann::ordered_json& report,
                         const std::string& path) {
  if (path.empty()) return absl::OkStatus();
  std::ofstream file(path, std::ios::trunc);
  file << report.dump(2) << '\n';
  file.close();
  if (file) return absl::OkStatus();
  return absl::InternalError(absl::StrCat("cannot write ", path));
}

absl::Status Follow(const train_ctr::Options& options) {
  train_ctr::Follower follower(options.checkpoint.store,
                               options.follow_options);
  const StopSignals signals([&follower] { follower.Stop(); });
  CKPTDB_ASSIGN_OR_RETURN(const auto report, follower.Run());
  return WriteReport(report, options.json);
}

// Trains as one process, or as one of mpirun's ranks.
int Train(const train_ctr::Options& options) {
  std::atomic<bool> stopped = false;
  // Before MPI, whose threads would take the signals.
  const StopSignals signals([&stopped] { stopped = true; });
  return examples::RunRanks(
      {.program = "train_ctr",
       .deadline = absl::Seconds(options.deadline_seconds)},
      [&](examples::Ranks* own) -> absl::Status {
        CKPTDB_ASSIGN_OR_RETURN(const auto report,
                                train_ctr::RunJob(options, own, &stopped));
        return own->is_owner() ? WriteReport(report, options.json)
                               : absl::OkStatus();
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
  if (done.ok()) done = CheckReport(options.json);
  if (done.ok() && !options.follow) return Train(options);
  if (done.ok()) done = Follow(options);
  return done.ok() ? 0 : Fail(done.ToString());
}
