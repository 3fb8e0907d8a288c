// SPDX-License-Identifier: Apache-2.0
#include "bench/soak/driver.h"

#include <algorithm>
#include <csignal>
#include <iostream>
#include <optional>
#include <set>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "bench/soak/check.h"
#include "bench/soak/draw.h"
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

}  // namespace

Driver::Driver(const DriverOptions& options, Volume* volume)
    : options_(options), volume_(volume), content_(options.seed) {}

uint64_t Driver::Draw(DrawKind kind, uint64_t number) const {
  return soak::Draw(options_.seed, kind, number);
}

absl::Status Driver::Run() {
  constexpr uint64_t kFirstFill = 30;
  fill_at_save_ = kFirstFill;
  follower_ = std::make_unique<Follower>(volume_->store(), content_);
  while (counts_.saves < options_.saves) {
    CKPTDB_RETURN_IF_ERROR(internal::Annotate(
        Live(), absl::StrCat("life ", lives_, " of the writer, after ",
                             counts_.saves, " saves")));
    CKPTDB_RETURN_IF_ERROR(internal::Annotate(
        CheckStore(), absl::StrCat("after kill ", counts_.kills, " and ",
                                   counts_.saves, " saves")));
    if (commands_ == nullptr) {
      commands_ = std::make_unique<Commands>(volume_, options_.seed);
    }
    CKPTDB_RETURN_IF_ERROR(RunCommands());
  }
  return figures_.CheckBounds();
}

absl::Status Driver::Live() {
  constexpr uint64_t kLeastSaves = 5;
  constexpr uint64_t kDoublings = 8;
  const uint64_t left = options_.saves - counts_.saves;
  const uint64_t drawn =
      DrawSpan(Next(DrawKind::kLife), kLeastSaves, kDoublings);
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
  CKPTDB_RETURN_IF_ERROR(ReadUntilKill(writer.get(), counts_.saves + saves));
  writer->Kill();
  ++counts_.kills;
  CKPTDB_RETURN_IF_ERROR(ReadRest(writer.get()));
  if (saving_) ++counts_.kills_in_saves;
  const Ending ending = writer->Wait();
  if (ending.by_signal && ending.code == SIGKILL) return absl::OkStatus();
  return absl::InternalError("the writer ended by itself: " +
                             ending.ToString());
}

// Kills between two saves are as likely as kills within one.
absl::Status Driver::ReadUntilKill(Child* writer, uint64_t saves) {
  constexpr uint64_t kLongestDelayMicros = 20'000;
  std::optional<int64_t> kill_at;
  while (true) {
    CKPTDB_RETURN_IF_ERROR(StatusBeside());
    CKPTDB_RETURN_IF_ERROR(FillOrFree());
    const int64_t now = SteadyMicros();
    if (!kill_at && counts_.saves >= saves) {
      kill_at = now + static_cast<int64_t>(Next(DrawKind::kKill) %
                                           kLongestDelayMicros);
    }
    if (kill_at && now >= *kill_at) return absl::OkStatus();
    int64_t until = kill_at.value_or(now + kStandstillMs * kMicrosPerMs);
    if (filling_) until = std::min(until, free_at_micros_);
    const auto line =
        writer->ReadLine(std::max<int64_t>((until - now) / kMicrosPerMs, 0));
    if (line.ok()) {
      CKPTDB_RETURN_IF_ERROR(NoteLine(*line));
      if (counts_.saves % kSavesPerSample == 0) TakeSample(writer->pid());
    } else if (!absl::IsDeadlineExceeded(line.status())) {
      return absl::InternalError("the writer ended by itself: " +
                                 writer->Wait().ToString());
    } else if (!kill_at && !filling_) {
      return absl::DeadlineExceededError(
          absl::StrCat("the writer told nothing for ", kStandstillMs, " ms"));
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
  return internal::Annotate(Note(event), "told \"" + line + "\"");
}

absl::Status Driver::Note(const Event& event) {
  switch (event.kind) {
    case Event::Kind::kOpened: {
      ++counts_.sessions;
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
    case Event::Kind::kEvaluated:
      ++counts_.evaluations;
      ledger_.Evaluated(event.step, event.count);
      return absl::OkStatus();
    case Event::Kind::kFolded:
      ++counts_.folds;
      return absl::OkStatus();
    case Event::Kind::kFailed:
      return NoteFailure(event);
    case Event::Kind::kClosed:
      return absl::OkStatus();
  }
  return absl::OkStatus();
}

void Driver::NoteSave(const Event& event) {
  saving_.reset();
  ++counts_.saves;
  if (counts_.saves % kSavesPerLine == 0) {
    std::cerr << counts_.saves << " saves, " << counts_.kills << " kills"
              << std::endl;
  }
  if (absl::StartsWith(event.text, "full")) ++counts_.full;
  if (absl::EndsWith(event.text, "ephemeral")) ++counts_.ephemeral;
  counts_.retired += event.steps.size();
  ledger_.Saved(event.step, event.steps);
  if (!volume_->WasFull(event.began_micros)) recovering_ = false;
}

bool Driver::MayFail(int64_t began_micros) const {
  return recovering_ || volume_->WasFull(began_micros);
}

absl::Status Driver::NoteFailure(const Event& event) {
  ++counts_.failed_for_room;
  // An evaluation or a fold fails as well.
  if (saving_ == event.step) {
    saving_.reset();
    if (absl::StartsWith(event.text, "RESOURCE_EXHAUSTED")) {
      ledger_.Failed(event.step);
    }
  }
  if (MayFail(event.began_micros)) return absl::OkStatus();
  return absl::InternalError("failed although the disk was not full");
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
    fill_at_save_ =
        counts_.saves + kFewestSaves + Next(DrawKind::kFill) % kMostSaves;
  } else if (!filling_ && counts_.saves >= fill_at_save_) {
    filling_ = recovering_ = true;
    ++counts_.fillings;
    free_at_micros_ =
        now +
        kMicrosPerMs * static_cast<int64_t>(kShortestMs +
                                            Next(DrawKind::kFull) % kLongestMs);
    return volume_->Fill(Next(DrawKind::kRoom) % kRooms);
  }
  return absl::OkStatus();
}

void Driver::TakeSample(int64_t writer) {
  figures_.Add({.saves = counts_.saves,
                .folder = MeasureFolder(volume_->store()),
                .writer_bytes = ResidentBytes(writer),
                .needed_bytes = needed_bytes_});
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
  CKPTDB_ASSIGN_OR_RETURN(const auto evaluated,
                          CheckAllSteps(reader.get(), content_));
  counts_.steps_checked += evaluated.size();
  CKPTDB_RETURN_IF_ERROR(ledger_.SettleEvaluations(evaluated));
  CKPTDB_ASSIGN_OR_RETURN(const Usage usage, reader->GetUsage());
  needed_bytes_ = 0;
  for (const Usage::Step& step : usage.steps)
    needed_bytes_ += step.exclusive_bytes;
  for (const Usage::Held& held : usage.held_versions) {
    const bool needed = held.reason == Usage::Held::Reason::kReferenced;
    if (needed) needed_bytes_ += held.stored_bytes;
  }
  return absl::OkStatus();
}

std::string Driver::LastLines() const {
  return absl::StrCat(absl::StrJoin(lines_, "\n"), "\n");
}

Counts Driver::counts() const {
  Counts counts = counts_;
  if (follower_ != nullptr) {
    counts.followed_by_changes = follower_->by_changes();
    counts.followed_whole = follower_->whole();
    counts.overtaken = follower_->overtaken();
  }
  if (commands_ != nullptr) {
    counts.commands += commands_->run();
    counts.busy_commands += commands_->busy();
    counts.overtaken_commands += commands_->overtaken();
  }
  return counts;
}

absl::Status Driver::StatusBeside() const {
  CKPTDB_RETURN_IF_ERROR(follower_->status());
  return commands_ == nullptr ? absl::OkStatus() : commands_->status();
}

absl::StatusOr<CommandResult> Driver::Command(
    const std::vector<std::string>& words) {
  auto result = RunCommand(*volume_, words);
  ++counts_.commands;
  if (result.ok() && *result == CommandResult::kBusy) ++counts_.busy_commands;
  return result;
}

absl::Status Driver::Pin() {
  const int64_t step = *ledger_.steps().rbegin();
  CKPTDB_ASSIGN_OR_RETURN(const CommandResult result,
                          Command({"pin", absl::StrCat(step)}));
  if (result != CommandResult::kDone) return absl::OkStatus();
  ++counts_.pins;
  ledger_.Pinned(step);
  return absl::OkStatus();
}

absl::Status Driver::Unpin() {
  const int64_t step = *ledger_.pinned().begin();
  CKPTDB_ASSIGN_OR_RETURN(const CommandResult result,
                          Command({"unpin", absl::StrCat(step)}));
  if (result == CommandResult::kDone) ledger_.Unpinned(step);
  return absl::OkStatus();
}

absl::Status Driver::RunCommands() {
  constexpr size_t kMostPins = 3;
  const uint64_t drawn = Next(DrawKind::kBetween);
  if (drawn % 3 == 0) {
    CKPTDB_RETURN_IF_ERROR(ledger_.pinned().size() < kMostPins ? Pin()
                                                               : Unpin());
  }
  if (drawn / 3 % 4 == 0) {
    CKPTDB_RETURN_IF_ERROR(Command({"fold", "latest"}).status());
  }
  if (drawn / 12 % 4 == 0) {
    CKPTDB_RETURN_IF_ERROR(Command({"verify"}).status());
  }
  return drawn / 48 % 2 == 0 ? Command({"gc"}).status() : absl::OkStatus();
}

}  // namespace ckptdb::soak
