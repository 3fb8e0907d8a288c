// Runs train_ctr as a process of its own.
#ifndef CKPTDB_TESTS_EXAMPLES_TRAIN_CTR_PROGRAM_H_
#define CKPTDB_TESTS_EXAMPLES_TRAIN_CTR_PROGRAM_H_

#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>

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

// Runs the program in `folder`, where its report and stderr go.
inline ProgramResult RunProgram(const std::string& folder,
                                std::vector<std::string> arguments) {
  const std::string json = folder + "/report.json";
  const std::string errors = folder + "/stderr";
  std::remove(json.c_str());
  arguments.insert(arguments.begin(), TRAIN_CTR_PROGRAM);
  arguments.insert(arguments.end(), {"--json", json});
  std::vector<char*> argv;
  argv.reserve(arguments.size() + 1);
  for (std::string& argument : arguments) argv.push_back(argument.data());
  argv.push_back(nullptr);

  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, 2, errors.c_str(),
                                   O_WRONLY | O_CREAT | O_TRUNC, 0600);
  pid_t pid = 0;
  const int spawned =
      posix_spawn(&pid, argv[0], &actions, nullptr, argv.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  ProgramResult result;
  int status = 0;
  if (spawned != 0 || waitpid(pid, &status, 0) != pid) {
    ADD_FAILURE() << "cannot run " << argv[0];
    return result;
  }
  if (WIFEXITED(status)) result.exit_code = WEXITSTATUS(status);
  if (WIFSIGNALED(status)) result.signal = WTERMSIG(status);
  result.errors = ReadFile(errors);
  result.json = nlohmann::json::parse(ReadFile(json), nullptr, false);
  if (result.json.is_discarded()) result.json = nullptr;
  return result;
}

}  // namespace train_ctr

#endif  // CKPTDB_TESTS_EXAMPLES_TRAIN_CTR_PROGRAM_H_
