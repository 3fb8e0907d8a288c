// SPDX-License-Identifier: Apache-2.0
#include "tests/db/child.h"

#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>

#include "gtest/gtest.h"

namespace ckptdb::testing {

Child::Child(std::vector<std::string> arguments) {
  signal(SIGPIPE, SIG_IGN);
  arguments.insert(arguments.begin(), CKPTDB_TEST_CHILD);
  std::vector<char*> argv;
  for (std::string& argument : arguments) argv.push_back(argument.data());
  argv.push_back(nullptr);
  std::array<int, 2> in{};
  std::array<int, 2> out{};
  EXPECT_EQ(pipe2(in.data(), O_CLOEXEC), 0);
  EXPECT_EQ(pipe2(out.data(), O_CLOEXEC), 0);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, in[0], STDIN_FILENO);
  posix_spawn_file_actions_adddup2(&actions, out[1], STDOUT_FILENO);
  EXPECT_EQ(
      posix_spawn(&pid_, argv[0], &actions, nullptr, argv.data(), environ), 0);
  posix_spawn_file_actions_destroy(&actions);
  close(in[0]);
  close(out[1]);
  input_ = in[1];
  output_ = out[0];
}

Child::~Child() {
  Kill();
  close(output_);
}

void Child::Write(absl::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t written = write(input_, bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    ASSERT_GT(written, 0) << "the child has closed its input";
    bytes.remove_prefix(static_cast<size_t>(written));
  }
}

void Child::CloseInput() {
  if (input_ >= 0) close(input_);
  input_ = -1;
}

std::string Child::ReadLine() {
  std::string line;
  char byte = 0;
  while (read(output_, &byte, 1) == 1 && byte != '\n') line += byte;
  return line;
}

std::string Child::ReadAll() {
  std::string all;
  std::array<char, 65536> buffer{};
  ssize_t bytes = 0;
  while ((bytes = read(output_, buffer.data(), buffer.size())) > 0)
    all.append(buffer.data(), static_cast<size_t>(bytes));
  return all;
}

void Child::Kill() {
  if (pid_ > 0) kill(pid_, SIGKILL);
  Wait();
}

int Child::Wait() {
  CloseInput();
  if (pid_ <= 0) return -1;
  int status = 0;
  while (waitpid(pid_, &status, 0) < 0 && errno == EINTR) {
  }
  pid_ = -1;
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

}  // namespace ckptdb::testing
