// SPDX-License-Identifier: Apache-2.0
// The figures that a soak measures, and whether they stay within bounds.
#ifndef CKPTDB_BENCH_SOAK_FIGURES_H_
#define CKPTDB_BENCH_SOAK_FIGURES_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "bench/soak/volume.h"

namespace ckptdb::soak {

struct Sample {
  uint64_t saves = 0;  // acknowledged by then
  FolderSize folder;
  uint64_t writer_bytes = 0;  // resident
  // Stored bytes of all steps and of what they need, when last looked at.
  uint64_t needed_bytes = 0;
};

struct Counts {
  uint64_t saves = 0;
  uint64_t full = 0;       // of saves
  uint64_t ephemeral = 0;  // of saves
  uint64_t retired = 0;
  uint64_t evaluations = 0;
  uint64_t folds = 0;
  uint64_t sessions = 0;
  uint64_t kills = 0;
  uint64_t kills_in_saves = 0;
  uint64_t fillings = 0;
  uint64_t failed_for_room = 0;
  uint64_t steps_checked = 0;
  uint64_t followed_by_changes = 0;
  uint64_t followed_whole = 0;
  uint64_t overtaken = 0;
  uint64_t commands = 0;
  uint64_t busy_commands = 0;
  uint64_t overtaken_commands = 0;
  uint64_t pins = 0;
};

// The most of a figure in each half of the saves.
struct Range {
  uint64_t first_half = 0;
  uint64_t second_half = 0;

  uint64_t most() const;
};

class Figures {
 public:
  void Add(const Sample& sample) { samples_.push_back(sample); }
  const std::vector<Sample>& samples() const { return samples_; }

  Range disk() const;
  Range files() const;
  Range manifest() const;
  Range memory() const;

  // Returns ResourceExhausted naming a figure that is over its bound, its value
  // and the bound: disk and memory by what the steps need, and each by its
  // maximum in the first half of the saves, when they were at least 1,000.
  absl::Status CheckBounds() const;

 private:
  template <typename Of>
  Range Most(const Of& of) const;
  uint64_t MostNeeded() const;

  std::vector<Sample> samples_;
};

std::string Report(const Counts& counts, const Figures& figures);

}  // namespace ckptdb::soak

#endif  // CKPTDB_BENCH_SOAK_FIGURES_H_
