// SPDX-License-Identifier: Apache-2.0
#include "remote/s3/run_shell.h"

#include <fcntl.h>
#include <poll.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "schema/status.h"

namespace ckptdb::internal::s3 {

namespace {

constexpr size_t kMaxOutputBytes = size_t{1} << 20;

absl::Status TookTooLong() {
  return absl::UnavailableError("it took too long, and was killed");
}

// A command that runs in its own process group, and the read end of the pipe
// for its output. The destructor kills and reaps the command.
class ShellProcess {
 public:
  ~ShellProcess() {
    if (pipe_ >= 0) close(pipe_);
    if (child_ <= 0) return;
    kill(-child_, SIGKILL);
    while (waitpid(child_, nullptr, 0) < 0 && errno == EINTR) {
    }
  }

  absl::Status Start(const std::string& command);
  // Appends to `output` until the command closes it.
  absl::Status Read(SteadyClock::time_point end, const Poll& poll,
                    std::string* output);
  // Returns the status of the command when it has ended.
  absl::StatusOr<int> Wait(SteadyClock::time_point end, const Poll& poll);

 private:
  pid_t child_ = 0;
  int pipe_ = -1;
};

absl::Status ShellProcess::Start(const std::string& command) {
  std::array<int, 2> ends = {-1, -1};
  if (pipe2(ends.data(), O_CLOEXEC) != 0) {
    return absl::UnavailableError(
        absl::StrCat("cannot make a pipe: ", std::strerror(errno)));
  }
  pipe_ = ends[0];
  posix_spawn_file_actions_t files;
  posix_spawnattr_t attributes;
  posix_spawn_file_actions_init(&files);
  posix_spawnattr_init(&attributes);
  posix_spawn_file_actions_addopen(&files, STDIN_FILENO, "/dev/null", O_RDONLY,
                                   0);
  posix_spawn_file_actions_adddup2(&files, ends[1], STDOUT_FILENO);
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETPGROUP);
  std::string shell = "sh";
  std::string flag = "-c";
  std::string line = command;
  const std::array<char*, 4> words = {shell.data(), flag.data(), line.data(),
                                      nullptr};
  const int error = posix_spawn(&child_, "/bin/sh", &files, &attributes,
                                words.data(), environ);
  posix_spawnattr_destroy(&attributes);
  posix_spawn_file_actions_destroy(&files);
  close(ends[1]);
  if (error == 0) return absl::OkStatus();
  child_ = 0;
  return absl::UnavailableError(
      absl::StrCat("cannot start /bin/sh: ", std::strerror(error)));
}

absl::StatusOr<int> ShellProcess::Wait(SteadyClock::time_point end,
                                       const Poll& poll) {
  constexpr std::chrono::milliseconds kLookEvery(5);
  int status = 0;
  while (waitpid(child_, &status, WNOHANG) != child_) {
    if (SteadyClock::now() >= end) return TookTooLong();
    CKPTDB_RETURN_IF_ERROR(Pause(kLookEvery, poll));
  }
  child_ = 0;
  return status;
}

absl::Status ShellProcess::Read(SteadyClock::time_point end, const Poll& poll,
                                std::string* output) {
  std::array<char, 4096> buffer;
  while (output->size() < kMaxOutputBytes) {
    CKPTDB_RETURN_IF_ERROR(poll());
    if (SteadyClock::now() >= end) return TookTooLong();
    pollfd waited = {.fd = pipe_, .events = POLLIN, .revents = 0};
    if (::poll(&waited, 1, int{kPollEvery.count()}) <= 0) continue;
    const ssize_t got = read(pipe_, buffer.data(), buffer.size());
    if (got == 0) return absl::OkStatus();
    if (got > 0) output->append(buffer.data(), static_cast<size_t>(got));
  }
  return absl::UnavailableError(
      absl::StrCat("it wrote more than ", kMaxOutputBytes, " bytes"));
}

}  // namespace

absl::StatusOr<std::string> RunShell(const std::string& command,
                                     SteadyClock::duration limit,
                                     const Poll& poll) {
  ShellProcess process;
  CKPTDB_RETURN_IF_ERROR(process.Start(command));
  std::string output;
  const SteadyClock::time_point end = SteadyClock::now() + limit;
  CKPTDB_RETURN_IF_ERROR(process.Read(end, poll, &output));
  CKPTDB_ASSIGN_OR_RETURN(const int status, process.Wait(end, poll));
  if (WIFEXITED(status) && WEXITSTATUS(status) == 0) return output;
  return absl::UnavailableError(
      WIFEXITED(status)
          ? absl::StrCat("it exited with code ", WEXITSTATUS(status))
          : absl::StrCat("it was ended by signal ", WTERMSIG(status)));
}

}  // namespace ckptdb::internal::s3
