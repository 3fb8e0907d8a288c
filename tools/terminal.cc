// SPDX-License-Identifier: Apache-2.0
#include "tools/terminal.h"

#include <fcntl.h>
#include <sys/ioctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <iostream>
#include <string>

#include "absl/strings/string_view.h"

namespace ckptdb::tool {
namespace {

TerminalStyle& CurrentStyle() {
  static TerminalStyle style;
  return style;
}

std::string Variable(const char* name, const char* missing) {
  const char* value = std::getenv(name);
  return value == nullptr ? missing : value;
}

// Runs the pager, which is $1. Shows the output without one if the shell cannot
// parse or find it; a missing pager has read none of the output. The trap makes
// the shell wait for a pager that handles Ctrl-C.
constexpr char kRunPager[] =
    "trap : INT\n"
    "if sh -n -c \"$1\"; then\n"
    "  sh -c \"$1\"\n"
    "  case $? in 126 | 127) ;; *) exit ;; esac\n"
    "fi\n"
    "echo 'ckptdb: PAGER cannot be run; showing the output without it' >&2\n"
    "exec cat\n";

// Runs in the child process: replaces it with the pager. If the shell cannot be
// started, copies the output to the terminal.
[[noreturn]] void BecomePager(const std::string& command, int input) {
  // Flags for a less that the user's PAGER names without any, as git does.
  setenv("LESS", "FRX", /*overwrite=*/0);
  if (dup2(input, STDIN_FILENO) >= 0) {
    execl("/bin/sh", "sh", "-c", kRunPager, "sh", command.c_str(), nullptr);
  }
  std::array<char, 4096> part = {};
  ssize_t bytes = 0;
  while ((bytes = read(input, part.data(), part.size())) > 0) {
    if (write(STDOUT_FILENO, part.data(), static_cast<size_t>(bytes)) < 0)
      break;
  }
  _exit(127);
}

}  // namespace

void SetTerminalStyle(const TerminalStyle& style) { CurrentStyle() = style; }
const TerminalStyle& GetTerminalStyle() { return CurrentStyle(); }

TerminalStyle StandardOutputStyle() {
  if (isatty(STDOUT_FILENO) != 1) return {};
  TerminalStyle style;
  struct winsize size {};
  if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0) style.columns = size.ws_col;
  style.bold_titles =
      Variable("NO_COLOR", "").empty() && Variable("TERM", "dumb") != "dumb";
  return style;
}

bool Pager::Start() {
  const std::string command =
      Variable("PAGER", "command -v less >/dev/null && exec less -FRX || cat");
  if (isatty(STDOUT_FILENO) != 1 || command.empty() || command == "cat") {
    return false;
  }
  std::array<int, 2> pipe = {};
  if (pipe2(pipe.data(), O_CLOEXEC) != 0) return false;
  std::cout.flush();
  child_ = fork();
  if (child_ == 0) BecomePager(command, pipe[0]);
  if (child_ > 0) {
    std::signal(SIGPIPE, SIG_IGN);
    if (dup2(pipe[1], STDOUT_FILENO) < 0) std::cout.setstate(std::ios::badbit);
  }
  close(pipe[0]);
  close(pipe[1]);
  return child_ > 0;
}

Pager::~Pager() {
  if (child_ < 0) return;
  std::cout.flush();
  close(STDOUT_FILENO);
  // The pager receives Ctrl-C, too, and does not end.
  std::signal(SIGINT, SIG_IGN);
  while (waitpid(child_, nullptr, 0) < 0 && errno == EINTR) {
  }
}

}  // namespace ckptdb::tool
