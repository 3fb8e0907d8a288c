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

absl::StatusOr<std::unique_ptr<Child>> Child::Start(
    std::vector<std::string> arguments, bool with_errors) {
  std::array<int, 2> out{};
  if (pipe2(out.data(), O_CLOEXEC) != 0) {
    return absl::UnavailableError(absl::StrCat("pipe: ", std::strerror(errno)));
  }
  std::vector<char*> argv;
  for (std::string& argument : arguments) argv.push_back(argument.data());
  argv.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, out[1], STDOUT_FILENO);
  if (with_errors) {
    posix_spawn_file_actions_adddup2(&actions, out[1], STDERR_FILENO);
  }
  pid_t pid = -1;
  const int error =
      posix_spawn(&pid, argv[0], &actions, nullptr, argv.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
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

absl::StatusOr<std::string> Child::ReadLine(int64_t timeout_ms) {
  constexpr int64_t kMicrosPerMs = 1000;
  const int64_t deadline = SteadyMicros() + timeout_ms * kMicrosPerMs;
  while (true) {
    if (const size_t end = read_.find('\n'); end != std::string::npos) {
      std::string line = read_.substr(0, end);
      read_.erase(0, end + 1);
      return line;
    }
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

void Child::Kill() {
  if (ending_.empty()) kill(pid_, SIGKILL);
}

std::string Child::Wait() {
  if (!ending_.empty()) return ending_;
  int status = 0;
  while (waitpid(pid_, &status, 0) < 0 && errno == EINTR) {
  }
  ending_ = WIFSIGNALED(status) ? absl::StrCat("signal ", WTERMSIG(status))
                                : absl::StrCat("exit ", WEXITSTATUS(status));
  return ending_;
}

}  // namespace ckptdb::soak
