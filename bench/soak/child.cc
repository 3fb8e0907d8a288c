// SPDX-License-Identifier: Apache-2.0
#include "bench/soak/child.h"

#include <fcntl.h>
#include <poll.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "bench/soak/event.h"

namespace ckptdb::soak {
namespace {

int Spawn(std::vector<std::string>* arguments, int output, bool with_errors,
          pid_t* pid) {
  std::vector<char*> argv;
  for (std::string& argument : *arguments) argv.push_back(argument.data());
  argv.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, output, STDOUT_FILENO);
  if (with_errors) {
    posix_spawn_file_actions_adddup2(&actions, output, STDERR_FILENO);
  }
  const int error =
      posix_spawn(pid, argv[0], &actions, nullptr, argv.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  return error;
}

}  // namespace

std::string Ending::ToString() const {
  return absl::StrCat(by_signal ? "signal " : "exit ", code);
}

absl::StatusOr<std::unique_ptr<Child>> Child::Start(
    std::vector<std::string> arguments, bool with_errors) {
  std::array<int, 2> out{};
  if (pipe2(out.data(), O_CLOEXEC) != 0) {
    return absl::UnavailableError(absl::StrCat("pipe: ", std::strerror(errno)));
  }
  pid_t pid = -1;
  const int error = Spawn(&arguments, out[1], with_errors, &pid);
  close(out[1]);
  if (error == 0) return std::unique_ptr<Child>(new Child(pid, out[0]));
  close(out[0]);
  return absl::UnavailableError(
      absl::StrCat("cannot start ", arguments[0], ": ", std::strerror(error)));
}

Child::~Child() {
  Kill();
  Wait();
  close(output_);
}

std::optional<std::string> Child::TakeLine() {
  const size_t end = read_.find('\n');
  if (end == std::string::npos) return std::nullopt;
  std::string line = read_.substr(0, end);
  read_.erase(0, end + 1);
  return line;
}

absl::StatusOr<std::string> Child::ReadLine(int64_t timeout_ms) {
  constexpr int64_t kMicrosPerMs = 1000;
  const int64_t deadline = SteadyMicros() + timeout_ms * kMicrosPerMs;
  while (true) {
    if (std::optional<std::string> line = TakeLine()) return *std::move(line);
    const int64_t left_ms =
        std::max<int64_t>((deadline - SteadyMicros()) / kMicrosPerMs, 0);
    pollfd ready = {output_, POLLIN, 0};
    if (poll(&ready, 1, static_cast<int>(left_ms)) == 0) {
      return absl::DeadlineExceededError("no line came");
    }
    std::array<char, 4096> buffer{};
    const ssize_t got = read(output_, buffer.data(), buffer.size());
    if (got == 0) return absl::NotFoundError("the output is closed");
    if (got > 0) read_.append(buffer.data(), static_cast<size_t>(got));
  }
}

std::string Child::ReadAll() {
  constexpr int64_t kTimeoutMs = 600'000;
  std::string all;
  while (true) {
    const auto line = ReadLine(kTimeoutMs);
    if (!line.ok()) return all + read_;
    absl::StrAppend(&all, *line, "\n");
  }
}

void Child::Kill() {
  if (!ending_) kill(pid_, SIGKILL);
}

Ending Child::Wait() {
  if (ending_) return *ending_;
  int status = 0;
  while (waitpid(pid_, &status, 0) < 0 && errno == EINTR) {
  }
  ending_ = WIFSIGNALED(status) ? Ending{true, WTERMSIG(status)}
                                : Ending{false, WEXITSTATUS(status)};
  return *ending_;
}

}  // namespace ckptdb::soak
