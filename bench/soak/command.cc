// SPDX-License-Identifier: Apache-2.0
#include "bench/soak/command.h"

#include <chrono>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "bench/soak/child.h"
#include "bench/soak/draw.h"
#include "bench/soak/event.h"
#include "schema/status.h"

namespace ckptdb::soak {
namespace {

constexpr int kBusyCode = 4;
constexpr int kOtherCode = 5;
// The text of the error of a reader that gave up opening a busy store.
constexpr char kEachTime[] = "its owner wrote to it during each";

using Words = std::vector<std::string>;

const std::vector<Words>& Choices() {
  static const std::vector<Words> kChoices = {
      {"ls"},
      {"show", "latest"},
      {"items", "latest"},
      {"chain", "latest", "--tables"},
      {"plan", "latest", "--world", "3"},
      {"verify", "latest"},
      {"du", "--tables"},
      {"gc"},
      {"fold", "latest"},
  };
  return kChoices;
}

}  // namespace

absl::StatusOr<CommandResult> RunCommand(const Volume& volume,
                                         const Words& arguments) {
  Words words = {CKPTDB_TOOL_PATH, "-s", volume.store()};
  words.insert(words.end(), arguments.begin(), arguments.end());
  const int64_t began = SteadyMicros();
  CKPTDB_ASSIGN_OR_RETURN(const auto child,
                          Child::Start(words, /*with_errors=*/true));
  const std::string output = child->ReadAll();
  const Ending ending = child->Wait();
  if (!ending.by_signal) {
    if (ending.code == 0) return CommandResult::kDone;
    if (ending.code == kBusyCode) return CommandResult::kBusy;
    if (ending.code == kOtherCode && volume.WasFull(began)) {
      return CommandResult::kNoRoom;
    }
    if (ending.code == kOtherCode && absl::StrContains(output, kEachTime)) {
      return CommandResult::kOvertaken;
    }
  }
  return absl::InternalError(absl::StrCat("ckptdb ",
                                          absl::StrJoin(arguments, " "), ": ",
                                          ending.ToString(), ": ", output));
}

Commands::Commands(const Volume* volume, uint64_t seed)
    : volume_(volume), seed_(seed), thread_([this] { Run(); }) {}

Commands::~Commands() {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    stopped_ = true;
  }
  stops_.notify_all();
  thread_.join();
}

absl::Status Commands::status() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return status_;
}

bool Commands::Pause(uint64_t number) {
  constexpr uint64_t kLeastMs = 50;
  constexpr uint64_t kMostMs = 500;
  const std::chrono::milliseconds pause(
      kLeastMs + Draw(seed_, DrawKind::kPause, number) % kMostMs);
  std::unique_lock<std::mutex> lock(mutex_);
  return !stops_.wait_for(lock, pause, [this] { return stopped_; });
}

void Commands::Run() {
  for (uint64_t number = 0; Pause(number); ++number) {
    const uint64_t drawn = Draw(seed_, DrawKind::kCommand, number);
    const auto result =
        RunCommand(*volume_, Choices()[drawn % Choices().size()]);
    if (!result.ok()) {
      const std::lock_guard<std::mutex> lock(mutex_);
      status_ = result.status();
      return;
    }
    ++run_;
    if (*result == CommandResult::kBusy) ++busy_;
    if (*result == CommandResult::kOvertaken) ++overtaken_;
  }
}

}  // namespace ckptdb::soak
