// SPDX-License-Identifier: Apache-2.0
#include "bench/soak/figures.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "schema/status.h"

namespace ckptdb::soak {
namespace {

constexpr uint64_t kMiB = uint64_t{1} << 20;

// The store's SPARE and its logs, and the files of a save and of a fold in
// progress: what it has on the disk whatever its steps are.
constexpr uint64_t kFixedDiskBytes = 48 * kMiB;
constexpr uint64_t kDiskFactor = 3;
// The difference between halves that random choices cause.
constexpr uint64_t kMemorySlack = 32 * kMiB;
// The least number of saves of a run whose halves are compared: those of a
// shorter one differ by what was drawn for each.
constexpr uint64_t kGrowthSaves = 1000;
constexpr double kHalvesFactor = 1.5;

absl::Status Over(absl::string_view figure, uint64_t value,
                  absl::string_view of, uint64_t bound) {
  return absl::ResourceExhaustedError(absl::StrCat(
      figure, ": ", value, " is over the bound ", bound, ", ", of));
}

absl::Status CheckHalves(absl::string_view figure, const Range& range,
                         uint64_t slack) {
  const auto bound = static_cast<uint64_t>(
      static_cast<double>(range.first_half) * kHalvesFactor + slack);
  if (range.second_half <= bound) return absl::OkStatus();
  return Over(figure, range.second_half, "1.5 times that of the first half",
              bound);
}

std::string InMiB(uint64_t bytes) {
  return absl::StrFormat(
      "%.1f MiB", static_cast<double>(bytes) / static_cast<double>(kMiB));
}

std::string Line(absl::string_view figure, const Range& range, bool bytes) {
  const auto text = [&](uint64_t value) {
    return bytes ? InMiB(value) : absl::StrCat(value);
  };
  return absl::StrFormat("%-24s %14s %14s\n", figure, text(range.first_half),
                         text(range.second_half));
}

}  // namespace

uint64_t Range::most() const { return std::max(first_half, second_half); }

template <typename Of>
Range Figures::Most(const Of& of) const {
  Range range;
  const uint64_t half = samples_.empty() ? 0 : samples_.back().saves / 2;
  for (const Sample& sample : samples_) {
    uint64_t& most =
        sample.saves <= half ? range.first_half : range.second_half;
    most = std::max(most, of(sample));
  }
  return range;
}

Range Figures::disk() const {
  return Most([](const Sample& s) { return s.folder.disk_bytes; });
}
Range Figures::files() const {
  return Most([](const Sample& s) { return s.folder.files; });
}
Range Figures::manifest() const {
  return Most([](const Sample& s) { return s.folder.manifest_bytes; });
}
Range Figures::memory() const {
  return Most([](const Sample& s) { return s.writer_bytes; });
}

uint64_t Figures::MostNeeded() const {
  return Most([](const Sample& s) { return s.needed_bytes; }).most();
}

absl::Status Figures::CheckBounds() const {
  constexpr uint64_t kFiles = 100;
  const uint64_t bound = kDiskFactor * MostNeeded() + kFixedDiskBytes;
  if (disk().most() > bound) {
    return Over("bytes on the disk", disk().most(),
                "3 times what the steps need, and 48 MiB", bound);
  }
  if (samples_.empty() || samples_.back().saves < kGrowthSaves) {
    return absl::OkStatus();
  }
  CKPTDB_RETURN_IF_ERROR(CheckHalves("bytes on the disk", disk(), kMiB));
  CKPTDB_RETURN_IF_ERROR(CheckHalves("files", files(), kFiles));
  CKPTDB_RETURN_IF_ERROR(
      CheckHalves("bytes of the MANIFEST", manifest(), kMiB));
  return CheckHalves("resident bytes of the writer", memory(), kMemorySlack);
}

std::string Report(const Counts& counts, const Figures& figures) {
  std::string text;
  const auto add = [&](absl::string_view name, uint64_t value) {
    absl::StrAppendFormat(&text, "%-24s %14u\n", name, value);
  };
  add("saves", counts.saves);
  add("  full", counts.full);
  add("  ephemeral", counts.ephemeral);
  add("steps retired", counts.retired);
  add("evaluations saved", counts.evaluations);
  add("folds", counts.folds);
  add("openings", counts.sessions);
  add("kills", counts.kills);
  add("  while saving", counts.kills_in_saves);
  add("fillings of the disk", counts.fillings);
  add("failures for room", counts.failed_for_room);
  add("steps compared", counts.steps_checked);
  add("followed by changes", counts.followed_by_changes);
  add("followed whole", counts.followed_whole);
  add("  overtaken", counts.overtaken);
  add("commands", counts.commands);
  add("  busy", counts.busy_commands);
  add("  overtaken", counts.overtaken_commands);
  add("pins", counts.pins);
  absl::StrAppendFormat(&text, "\n%-24s %14s %14s\n", "at most", "first half",
                        "second half");
  absl::StrAppend(&text, Line("disk", figures.disk(), /*bytes=*/true),
                  Line("files", figures.files(), /*bytes=*/false),
                  Line("MANIFEST", figures.manifest(), /*bytes=*/true),
                  Line("memory of the writer", figures.memory(),
                       /*bytes=*/true));
  return text;
}

}  // namespace ckptdb::soak
