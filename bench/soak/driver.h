// SPDX-License-Identifier: Apache-2.0
// The process that starts the writer, kills it, fills its disk, and looks
// whether all that was acknowledged is there.
#ifndef CKPTDB_BENCH_SOAK_DRIVER_H_
#define CKPTDB_BENCH_SOAK_DRIVER_H_

#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "bench/soak/child.h"
#include "bench/soak/command.h"
#include "bench/soak/content.h"
#include "bench/soak/draw.h"
#include "bench/soak/event.h"
#include "bench/soak/figures.h"
#include "bench/soak/follower.h"
#include "bench/soak/ledger.h"
#include "bench/soak/volume.h"

namespace ckptdb::soak {

struct DriverOptions {
  std::string program;  // of the writer: this one
  uint64_t saves = 0;
  uint64_t seed = 0;
  // One writer makes all saves with the store open, and is killed at the end:
  // finds data that grows until a store is closed.
  bool steady = false;
};

class Driver {
 public:
  // The store is on `volume`, which must outlive the driver.
  Driver(const DriverOptions& options, Volume* volume);

  // Lives of the writer until so many saves were acknowledged. Returns
  // the first error.
  absl::Status Run();

  Counts counts() const;
  // Returns the last lines of the writer, for an error.
  std::string LastLines() const;
  const Figures& figures() const { return figures_; }

 private:
  // Starts the writer and runs it until its SIGKILL.
  absl::Status Live();
  absl::Status ReadUntilKill(Child* writer, uint64_t saves);
  absl::Status ReadRest(Child* writer);
  absl::Status NoteLine(const std::string& line);
  absl::Status Note(const Event& event);
  absl::Status NoteFailure(const Event& event);
  void NoteSave(const Event& event);
  // Returns whether what began then may have failed because the disk was full.
  bool MayFail(int64_t began_micros) const;
  absl::Status FillOrFree();
  void TakeSample(int64_t writer);
  // Compares the store that a killed writer has left with the content.
  absl::Status CheckStore();
  // Acts as an operator between two lives: pins, folds, sweeps.
  absl::Status RunCommands();
  absl::Status Pin();
  absl::Status Unpin();
  absl::StatusOr<CommandResult> Command(const std::vector<std::string>& words);
  // The error of the follower or of a command.
  absl::Status StatusBeside() const;
  uint64_t Next(DrawKind kind) { return Draw(kind, ++draws_); }
  uint64_t Draw(DrawKind kind, uint64_t number) const;

  const DriverOptions options_;
  Volume* const volume_;
  const Content content_;
  Ledger ledger_;
  Counts counts_;
  Figures figures_;
  std::deque<std::string> lines_;  // the most recent
  std::unique_ptr<Follower> follower_;
  std::unique_ptr<Commands> commands_;
  uint64_t draws_ = 0;
  uint64_t lives_ = 0;
  uint64_t needed_bytes_ = 0;
  std::optional<int64_t> saving_;  // began, and has not ended
  // The filler takes the free space at this number of saves, and gives it back
  // at free_at_micros_.
  uint64_t fill_at_save_ = 0;
  bool filling_ = false;
  int64_t free_at_micros_ = 0;
  // No save that began after the filler went was acknowledged yet.
  bool recovering_ = false;
};

}  // namespace ckptdb::soak

#endif  // CKPTDB_BENCH_SOAK_DRIVER_H_
