// SPDX-License-Identifier: Apache-2.0
// The process that starts the writer, kills it, fills its disk, and looks
// whether all that was acknowledged is there.
#ifndef CKPTDB_BENCH_SOAK_DRIVER_H_
#define CKPTDB_BENCH_SOAK_DRIVER_H_

#include <array>
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "bench/soak/child.h"
#include "bench/soak/content.h"
#include "bench/soak/event.h"
#include "bench/soak/ledger.h"
#include "bench/soak/volume.h"
#include "db/store.h"

namespace ckptdb::soak {

// The figures that must not grow, each with the difference between halves of a
// run that random choices cause.
struct Figure {
  const char* name;
  uint64_t slack;
};
inline constexpr std::array<Figure, 4> kFigures = {
    {{"bytes on the disk", 1 << 20},
     {"files", 100},
     {"bytes of the MANIFEST", 1 << 20},
     {"resident bytes of the writer", 32 << 20}}};

// The figures at one time.
struct Sample {
  uint64_t saves = 0;                             // acknowledged by then
  std::array<uint64_t, kFigures.size()> figures;  // in the order of kFigures
};

// The most of each figure in each half of the saves.
struct Halves {
  explicit Halves(const std::vector<Sample>& samples);
  std::array<uint64_t, kFigures.size()> first{};
  std::array<uint64_t, kFigures.size()> second{};
};

// Returns ResourceExhausted naming a figure that is over its bound, its value
// and the bound: the disk according to the bytes that the steps need, and in
// runs of at least 1,000 saves each by its maximum in the first half.
absl::Status CheckBounds(const std::vector<Sample>& samples,
                         uint64_t needed_bytes);

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
  Driver(const DriverOptions& options, Volume* volume)
      : options_(options), volume_(volume), content_(options.seed) {}

  // Lives of the writer until so many saves were acknowledged. Returns
  // the first error.
  absl::Status Run();

  // Returns the number of saves, kills and so on, and the figures.
  std::string Report() const;
  // Returns the last lines of the writer, for an error.
  std::string LastLines() const;

 private:
  // Starts the writer and runs it until its SIGKILL.
  absl::Status Live();
  absl::Status ReadUntilKill(Child* writer, uint64_t saves);
  absl::Status ReadRest(Child* writer);
  absl::Status NoteLine(const std::string& line);
  absl::Status Note(const Event& event);
  absl::Status NoteFailure(const Event& event);
  void NoteSave(const Event& event);
  absl::Status FillOrFree();
  void TakeSample(int64_t writer);
  // Compares the store that a killed writer has left with the content.
  absl::Status CheckStore();
  // Acts as an operator between two lives: pins, folds, sweeps.
  absl::Status Operate();
  absl::Status PinOrUnpin(Store* store);
  uint64_t Next(absl::string_view what) {
    return Draw(options_.seed, what, ++draws_);
  }

  const DriverOptions options_;
  Volume* const volume_;
  const Content content_;
  Ledger ledger_;
  uint64_t saves_ = 0;
  std::map<std::string, uint64_t> counts_;
  std::vector<Sample> samples_;
  std::deque<std::string> lines_;  // the most recent
  uint64_t draws_ = 0;
  uint64_t lives_ = 0;
  uint64_t needed_bytes_ = 0;      // the most of all checks
  std::optional<int64_t> saving_;  // began, and has not ended
  // The filler takes the free space at this number of saves, and gives it back
  // at free_at_micros_.
  uint64_t fill_at_save_ = 30;
  bool filling_ = false;
  int64_t free_at_micros_ = 0;
  // No save that began after the filler went was acknowledged yet.
  bool recovering_ = false;
};

}  // namespace ckptdb::soak

#endif  // CKPTDB_BENCH_SOAK_DRIVER_H_
