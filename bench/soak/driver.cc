// SPDX-License-Identifier: Apache-2.0
#include "bench/soak/driver.h"

#include <algorithm>
#include <iostream>
#include <memory>
#include <set>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "db/reader.h"
#include "schema/bytes/annotate.h"
#include "schema/status.h"

namespace ckptdb::soak {
namespace {

constexpr int64_t kMicrosPerMs = 1000;
// Longer than any save takes on the busy machine.
constexpr int64_t kStandstillMs = 120'000;
constexpr uint64_t kSavesPerSample = 20;
constexpr uint64_t kSavesPerLine = 1000;

absl::Status Over(absl::string_view figure, uint64_t value,
                  absl::string_view of, uint64_t bound) {
  return absl::ResourceExhaustedError(absl::StrCat(
      figure, ": ", value, " is over the bound ", bound, ", ", of));
}

}  // namespace

Halves::Halves(const std::vector<Sample>& samples) {
  for (const Sample& sample : samples) {
    auto& half = sample.saves <= samples.back().saves / 2 ? first : second;
    for (size_t f = 0; f < half.size(); ++f) {
      half[f] = std::max(half[f], sample.figures[f]);
    }
  }
}

absl::Status CheckBounds(const std::vector<Sample>& samples,
                         uint64_t needed_bytes) {
  // The store's SPARE and its logs, and the files of a save and of a fold in
  // progress, are on the disk whatever its steps are.
  constexpr uint64_t kFixedDiskBytes = 48 << 20;
  constexpr uint64_t kDiskFactor = 3;
  // The halves of a shorter run differ by what was drawn for each.
  constexpr uint64_t kGrowthSaves = 1000;
  const Halves most(samples);
  const uint64_t bound = kDiskFactor * needed_bytes + kFixedDiskBytes;
  const uint64_t disk = std::max(most.first[0], most.second[0]);
  if (disk > bound) {
    return Over(kFigures[0].name, disk,
                "3 times what the steps need, and 48 MiB", bound);
  }
  if (samples.empty() || samples.back().saves < kGrowthSaves) {
    return absl::OkStatus();
  }
  for (size_t f = 0; f < kFigures.size(); ++f) {
    const uint64_t limit = most.first[f] * 3 / 2 + kFigures[f].slack;
    if (most.second[f] <= limit) continue;
    return Over(kFigures[f].name, most.second[f],
                "1.5 times that of the first half", limit);
  }
  return absl::OkStatus();
}

absl::Status Driver::Run() {
  // The numbers are those at the time of the error.
  const auto annotate = [this](const absl::Status& status,
                               absl::string_view what) {
    return internal::Annotate(
        status, absl::StrCat(what, " ", lives_, ", after ", saves_, " saves"));
  };
  while (saves_ < options_.saves) {
    CKPTDB_RETURN_IF_ERROR(annotate(Live(), "life"));
    CKPTDB_RETURN_IF_ERROR(annotate(CheckStore(), "after kill"));
    CKPTDB_RETURN_IF_ERROR(Operate());
  }
  return CheckBounds(samples_, needed_bytes_);
}

absl::Status Driver::Live() {
  constexpr uint64_t kLeastSaves = 5;
  constexpr uint64_t kDoublings = 8;
  const uint64_t left = options_.saves - saves_;
  const uint64_t drawn = DrawSpan(Next("life"), kLeastSaves, kDoublings);
  const uint64_t saves = options_.steady ? left : std::min(drawn, left);
  std::vector<std::string> words = {options_.program,
                                    "write",
                                    volume_->store(),
                                    "--seed",
                                    absl::StrCat(options_.seed),
                                    "--life",
                                    absl::StrCat(++lives_)};
  if (options_.steady) words.emplace_back("--steady");
  CKPTDB_ASSIGN_OR_RETURN(const auto writer, Child::Start(words));
  saving_.reset();
  CKPTDB_RETURN_IF_ERROR(ReadUntilKill(writer.get(), saves_ + saves));
  writer->Kill();
  ++counts_["kills"];
  CKPTDB_RETURN_IF_ERROR(ReadRest(writer.get()));
  if (saving_) ++counts_["kills while saving"];
  const std::string ending = writer->Wait();
  if (ending == "signal 9") return absl::OkStatus();
  return absl::InternalError("the writer ended unexpectedly: " + ending);
}

// Kills between two saves are as likely as kills within one.
absl::Status Driver::ReadUntilKill(Child* writer, uint64_t saves) {
  constexpr uint64_t kLongestDelayMicros = 20'000;
  std::optional<int64_t> kill_at;
  while (true) {
    CKPTDB_RETURN_IF_ERROR(FillOrFree());
    const int64_t now = SteadyMicros();
    if (!kill_at && saves_ >= saves) {
      kill_at = now + static_cast<int64_t>(Next("kill") % kLongestDelayMicros);
    }
    if (kill_at && now >= *kill_at) return absl::OkStatus();
    int64_t until = kill_at.value_or(now + kStandstillMs * kMicrosPerMs);
    if (filling_) until = std::min(until, free_at_micros_);
    const auto line =
        writer->ReadLine(std::max<int64_t>((until - now) / kMicrosPerMs, 0));
    if (line.ok()) {
      CKPTDB_RETURN_IF_ERROR(NoteLine(*line));
      if (saves_ % kSavesPerSample == 0) TakeSample(writer->pid());
    } else if (!absl::IsDeadlineExceeded(line.status())) {
      return absl::InternalError("the writer ended unexpectedly: " +
                                 writer->Wait());
    } else if (!kill_at && !filling_) {
      return absl::DeadlineExceededError(absl::StrCat(
          "the writer reported nothing for ", kStandstillMs, " ms"));
    }
  }
}

absl::Status Driver::ReadRest(Child* writer) {
  while (true) {
    const auto line = writer->ReadLine(kStandstillMs);
    if (absl::IsNotFound(line.status())) return absl::OkStatus();
    CKPTDB_RETURN_IF_ERROR(line.status());
    CKPTDB_RETURN_IF_ERROR(NoteLine(*line));
  }
}

absl::Status Driver::NoteLine(const std::string& line) {
  constexpr size_t kLines = 30;
  lines_.push_back(line);
  if (lines_.size() > kLines) lines_.pop_front();
  CKPTDB_ASSIGN_OR_RETURN(const Event event, DecodeEvent(line));
  return internal::Annotate(Note(event), "reported \"" + line + "\"");
}

absl::Status Driver::Note(const Event& event) {
  switch (event.kind) {
    case Event::Kind::kOpened: {
      ++counts_["openings"];
      std::optional<int64_t> latest;
      if (event.step >= 0) latest = event.step;
      return ledger_.Settle({event.steps.begin(), event.steps.end()}, latest);
    }
    case Event::Kind::kBegan:
      saving_ = event.step;
      ledger_.Began(event.step);
      return absl::OkStatus();
    case Event::Kind::kSaved:
      NoteSave(event);
      return absl::OkStatus();
    case Event::Kind::kFolded:
      ++counts_["folds"];
      return absl::OkStatus();
    case Event::Kind::kFailed:
      return NoteFailure(event);
  }
  return absl::OkStatus();
}

void Driver::NoteSave(const Event& event) {
  saving_.reset();
  ++saves_;
  if (saves_ % kSavesPerLine == 0) {
    std::cerr << saves_ << " saves, " << lives_ << " lives" << std::endl;
  }
  ++counts_["saves: " + event.text];
  counts_["steps retired"] += event.steps.size();
  ledger_.Saved(event.step, event.steps);
  if (!volume_->WasFull(event.began_micros)) recovering_ = false;
}

absl::Status Driver::NoteFailure(const Event& event) {
  ++counts_["failures for room"];
  // A fold fails as well.
  if (saving_ == event.step) {
    saving_.reset();
    if (absl::StartsWith(event.text, "RESOURCE_EXHAUSTED")) {
      ledger_.Failed(event.step);
    }
  }
  if (recovering_ || volume_->WasFull(event.began_micros)) {
    return absl::OkStatus();
  }
  return absl::InternalError("failed although the disk was not full; " +
                             volume_->Describe());
}

absl::Status Driver::FillOrFree() {
  constexpr uint64_t kRooms = uint64_t{3} << 20;
  constexpr uint64_t kShortestMs = 20;
  constexpr uint64_t kLongestMs = 300;
  constexpr uint64_t kFewestSaves = 50;
  constexpr uint64_t kMostSaves = 400;
  if (!volume_->mounted()) return absl::OkStatus();
  const int64_t now = SteadyMicros();
  if (filling_ && now >= free_at_micros_) {
    CKPTDB_RETURN_IF_ERROR(volume_->Free());
    filling_ = false;
    fill_at_save_ = saves_ + kFewestSaves + Next("fill") % kMostSaves;
  } else if (!filling_ && saves_ >= fill_at_save_) {
    filling_ = recovering_ = true;
    ++counts_["fillings of the disk"];
    free_at_micros_ =
        now + kMicrosPerMs *
                  static_cast<int64_t>(kShortestMs + Next("full") % kLongestMs);
    return volume_->Fill(Next("room") % kRooms);
  }
  return absl::OkStatus();
}

void Driver::TakeSample(int64_t writer) {
  const FolderSize size = MeasureFolder(volume_->store());
  samples_.push_back({saves_,
                      {size.disk_bytes, size.files, size.manifest_bytes,
                       ResidentBytes(writer)}});
}

absl::Status Driver::CheckStore() {
  CKPTDB_ASSIGN_OR_RETURN(const auto reader, Reader::Open(volume_->store()));
  std::set<int64_t> found;
  for (const StepRecord& record : reader->Steps()) {
    found.insert(record.version.step);
  }
  std::optional<int64_t> latest;
  if (const auto record = reader->Latest(); record.ok()) {
    latest = record->version.step;
  }
  CKPTDB_RETURN_IF_ERROR(ledger_.Settle(found, latest));
  for (const int64_t number : found) {
    CKPTDB_ASSIGN_OR_RETURN(const auto step, reader->OpenStep(number));
    CKPTDB_RETURN_IF_ERROR(content_.Check(*step));
  }
  counts_["steps compared"] += found.size();
  CKPTDB_ASSIGN_OR_RETURN(const Usage usage, reader->GetUsage());
  uint64_t needed = 0;
  for (const Usage::Step& step : usage.steps) needed += step.exclusive_bytes;
  for (const Usage::Held& held : usage.held_versions) {
    if (held.reason != Usage::Held::Reason::kReferenced) continue;
    needed += held.stored_bytes;
  }
  needed_bytes_ = std::max(needed_bytes_, needed);
  return absl::OkStatus();
}

// The disk may be full; then the operator tries again after the next life.
absl::Status Driver::Operate() {
  const int64_t began = SteadyMicros();
  const auto run = [&]() -> absl::Status {
    CKPTDB_ASSIGN_OR_RETURN(const auto store, Store::Open(volume_->store()));
    const uint64_t drawn = Next("operate");
    if (drawn % 3 == 0) CKPTDB_RETURN_IF_ERROR(PinOrUnpin(store.get()));
    if (drawn / 3 % 4 == 0) {
      CKPTDB_RETURN_IF_ERROR(store->Fold(*ledger_.steps().rbegin()).status());
    }
    return drawn / 12 % 2 == 0 ? store->Sweep().status() : absl::OkStatus();
  };
  const absl::Status status = run();
  const bool room =
      !absl::IsResourceExhausted(status) && !absl::IsFailedPrecondition(status);
  if (status.ok() || (!room && volume_->WasFull(began))) {
    return absl::OkStatus();
  }
  return internal::Annotate(status, "between two writers");
}

absl::Status Driver::PinOrUnpin(Store* store) {
  constexpr size_t kMostPins = 3;
  if (ledger_.pinned().size() < kMostPins) {
    const int64_t step = *ledger_.steps().rbegin();
    CKPTDB_RETURN_IF_ERROR(store->Pin(step));
    ++counts_["pins"];
    ledger_.Pinned(step);
    return absl::OkStatus();
  }
  const int64_t step = *ledger_.pinned().begin();
  CKPTDB_RETURN_IF_ERROR(store->Unpin(step));
  ledger_.Unpinned(step);
  return absl::OkStatus();
}

std::string Driver::Report() const {
  std::string text = absl::StrFormat("%-29s %14u\n", "saves", saves_);
  for (const auto& [name, count] : counts_) {
    absl::StrAppendFormat(&text, "%-29s %14u\n", name, count);
  }
  absl::StrAppendFormat(&text, "\n%-29s %14s %14s\n", "at most", "first half",
                        "second half");
  const Halves most(samples_);
  for (size_t f = 0; f < kFigures.size(); ++f) {
    absl::StrAppendFormat(&text, "%-29s %14u %14u\n", kFigures[f].name,
                          most.first[f], most.second[f]);
  }
  return text;
}

std::string Driver::LastLines() const {
  return absl::StrCat(absl::StrJoin(lines_, "\n"), "\n");
}

}  // namespace ckptdb::soak
