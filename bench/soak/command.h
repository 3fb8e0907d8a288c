// SPDX-License-Identifier: Apache-2.0
// Runs the command `ckptdb` on the store while a writer and a follower use it.
#ifndef CKPTDB_BENCH_SOAK_COMMAND_H_
#define CKPTDB_BENCH_SOAK_COMMAND_H_

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "bench/soak/volume.h"

namespace ckptdb::soak {

// The exit codes of docs/tool.md that a soak may meet.
enum class CommandResult {
  kDone,    // 0
  kBusy,    // 4: commands that need exclusive access
  kNoRoom,  // 5, while the disk was full
  // 5, as the writer changed the store each time it was opened: Reader::Open
  kOvertaken,
};

// Runs `ckptdb -s STORE ARGUMENTS`. Internal with what it printed for another
// exit code, also for 5 when the disk was not full.
absl::StatusOr<CommandResult> RunCommand(
    const Volume& volume, const std::vector<std::string>& arguments);

// A thread that runs randomly chosen commands, one after the other.
class Commands {
 public:
  // `volume`, which has a store, outlives this.
  Commands(const Volume* volume, uint64_t seed);
  // Stops after the command that runs.
  ~Commands();
  Commands(const Commands&) = delete;
  Commands& operator=(const Commands&) = delete;

  // Returns the error that ended it, or OK while it runs.
  absl::Status status() const;
  uint64_t run() const { return run_; }
  uint64_t busy() const { return busy_; }
  uint64_t overtaken() const { return overtaken_; }

 private:
  void Run();
  bool Pause(uint64_t number);

  const Volume* const volume_;
  const uint64_t seed_;
  std::atomic<uint64_t> run_ = 0;
  std::atomic<uint64_t> busy_ = 0;
  std::atomic<uint64_t> overtaken_ = 0;
  mutable std::mutex mutex_;
  std::condition_variable stops_;
  bool stopped_ = false;  // under mutex_, and so is status_
  absl::Status status_;
  std::thread thread_;
};

}  // namespace ckptdb::soak

#endif  // CKPTDB_BENCH_SOAK_COMMAND_H_
