// SPDX-License-Identifier: Apache-2.0
// Runs train_ctr as a process of its own.
#ifndef CKPTDB_TESTS_EXAMPLES_TRAIN_CTR_PROGRAM_H_
#define CKPTDB_TESTS_EXAMPLES_TRAIN_CTR_PROGRAM_H_

#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "gtest/gtest.h"

namespace train_ctr {

struct ProgramResult {
  int exit_code = -1;  // -1 when a signal ended it
  int signal = 0;
  std::string errors;   // its stderr
  nlohmann::json json;  // null unless it wrote a report
};

inline std::string ReadFile(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

// Returns the path of the program, which is beside the test's own: a build may
// have been carried from another machine.
inline std::string ProgramPath() {
  return std::filesystem::read_symlink("/proc/self/exe").parent_path() /
         TRAIN_CTR_PROGRAM;
}

// A process of the program, killed at the end unless it was waited for. Its
// report is written to `json`.
class Program {
 public:
  Program(std::string json, std::vector<std::string> arguments)
      : json_(std::move(json)) {
    std::remove(json_.c_str());
    arguments.insert(arguments.begin(), ProgramPath());
    arguments.insert(arguments.end(), {"--json", json_});
    std::array<int, 2> pipe{};
    if (pipe2(pipe.data(), O_CLOEXEC) != 0) {
      ADD_FAILURE() << "no pipe";
      return;
    }
    Spawn(&arguments, pipe[1]);
    close(pipe[1]);
    errors_fd_ = pipe[0];
  }
  ~Program() {
    if (pid_ > 0) Signal(SIGKILL);
    if (pid_ > 0) Finish();
    close(errors_fd_);
  }
  Program(const Program&) = delete;
  Program& operator=(const Program&) = delete;

  // Waits for the next line that it writes to stderr; empty when it ends
  // without.
  std::string NextLine() {
    size_t end = errors_.find('\n', seen_);
    while (end == std::string::npos) {
      if (!ReadErrors()) return "";
      end = errors_.find('\n', seen_);
    }
    std::string line = errors_.substr(seen_, end - seen_);
    seen_ = end + 1;
    return line;
  }

  void Signal(int signal) const { kill(pid_, signal); }
  // Returns when the process has stopped; SIGCONT lets it go on.
  void Pause() const {
    Signal(SIGSTOP);
    int status = 0;
    waitpid(pid_, &status, WUNTRACED);
    EXPECT_TRUE(WIFSTOPPED(status)) << status;
  }

  // Waits for its end.
  ProgramResult Finish() {
    while (ReadErrors()) {
    }
    ProgramResult result;
    int status = 0;
    if (pid_ <= 0 || waitpid(pid_, &status, 0) != pid_) {
      ADD_FAILURE() << "cannot run " << ProgramPath();
      return result;
    }
    pid_ = 0;
    if (WIFEXITED(status)) result.exit_code = WEXITSTATUS(status);
    if (WIFSIGNALED(status)) result.signal = WTERMSIG(status);
    result.errors = errors_;
    result.json = nlohmann::json::parse(ReadFile(json_), nullptr, false);
    if (result.json.is_discarded()) result.json = nullptr;
    return result;
  }

 private:
  void Spawn(std::vector<std::string>* arguments, int errors) {
    std::vector<char*> argv;
    argv.reserve(arguments->size() + 1);
    for (std::string& argument : *arguments) argv.push_back(argument.data());
    argv.push_back(nullptr);
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, errors, 2);
    // Background commands of a shell ignore SIGINT.
    posix_spawnattr_t attributes;
    posix_spawnattr_init(&attributes);
    sigset_t interrupt;
    sigemptyset(&interrupt);
    sigaddset(&interrupt, SIGINT);
    posix_spawnattr_setsigdefault(&attributes, &interrupt);
    posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGDEF);
    if (posix_spawn(&pid_, argv[0], &actions, &attributes, argv.data(),
                    environ) != 0) {
      pid_ = 0;
    }
    posix_spawnattr_destroy(&attributes);
    posix_spawn_file_actions_destroy(&actions);
  }

  // False at the end of its stderr.
  bool ReadErrors() {
    std::array<char, 4096> bytes{};
    const ssize_t count = read(errors_fd_, bytes.data(), bytes.size());
    if (count <= 0) return false;
    errors_.append(bytes.data(), static_cast<size_t>(count));
    return true;
  }

  const std::string json_;
  pid_t pid_ = 0;
  int errors_fd_ = -1;
  std::string errors_;
  size_t seen_ = 0;  // of errors_, by NextLine
};

// Runs the program to its end; its report goes to `folder`.
inline ProgramResult RunProgram(const std::string& folder,
                                std::vector<std::string> arguments) {
  return Program(folder + "/report.json", std::move(arguments)).Finish();
}

}  // namespace train_ctr

#endif  // CKPTDB_TESTS_EXAMPLES_TRAIN_CTR_PROGRAM_H_
