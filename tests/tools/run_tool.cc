// SPDX-License-Identifier: Apache-2.0
#include "tests/tools/run_tool.h"

#include <fcntl.h>
#include <grp.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <ctime>
#include <fstream>
#include <iterator>

#include "absl/strings/str_split.h"
#include "tests/support/temp_dir.h"

namespace ckptdb::testing {
namespace {

constexpr int kCannotRun = 127;

bool Redirect(const std::string& path, int to) {
  const int file = open(path.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
  return file >= 0 && dup2(file, to) == to;
}

bool BecomeNobody() {
  constexpr gid_t kNobody = 65534;
  return setgroups(0, nullptr) == 0 && setgid(kNobody) == 0 &&
         setuid(kNobody) == 0;
}

// In the child: executes the command, or exits.
[[noreturn]] void Become(std::vector<char*> arguments,
                         const ToolSetting& setting, const std::string& out,
                         const std::string& err) {
  // Background commands of a shell ignore SIGINT.
  std::signal(SIGINT, SIG_DFL);
  const bool ready =
      Redirect(out, STDOUT_FILENO) && Redirect(err, STDERR_FILENO) &&
      (setting.folder.empty() || chdir(setting.folder.c_str()) == 0) &&
      (setting.store_variable.empty()
           ? unsetenv("CKPTDB_STORE")
           : setenv("CKPTDB_STORE", setting.store_variable.c_str(), 1)) == 0 &&
      (!setting.as_nobody || BecomeNobody());
  if (setting.closed) close(STDOUT_FILENO);
  if (ready) execv(CKPTDB_TOOL_PATH, arguments.data());
  _exit(kCannotRun);
}

std::string ReadFile(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

}  // namespace

std::string ToolPath() { return CKPTDB_TOOL_PATH; }

ToolResult RunTool(const std::vector<std::string>& arguments,
                   const ToolSetting& setting) {
  const TempDir outputs;
  const std::string out =
      setting.out_path.empty() ? outputs.path() + "/out" : setting.out_path;
  const std::string err = outputs.path() + "/err";
  std::vector<std::string> words = {"ckptdb"};
  words.insert(words.end(), arguments.begin(), arguments.end());
  std::vector<char*> pointers;
  pointers.reserve(words.size() + 1);
  for (std::string& word : words) pointers.push_back(word.data());
  pointers.push_back(nullptr);

  ToolResult result;
  const pid_t child = fork();
  if (child == 0) Become(pointers, setting, out, err);
  if (child > 0 && setting.kill_after.has_value()) {
    const auto micros = setting.kill_after->count();
    const timespec pause = {micros / 1'000'000, micros % 1'000'000 * 1000};
    nanosleep(&pause, nullptr);
    kill(child, setting.signal);
  }
  int status = 0;
  if (child < 0 || waitpid(child, &status, 0) != child) return result;
  if (WIFEXITED(status)) result.code = WEXITSTATUS(status);
  if (setting.out_path.empty()) result.out = ReadFile(out);
  result.err = ReadFile(err);
  return result;
}

ToolResult RunLine(const std::string& line,
                   const std::vector<std::string>& more) {
  std::vector<std::string> words = absl::StrSplit(line, ' ');
  words.insert(words.end(), more.begin(), more.end());
  return RunTool(words);
}

}  // namespace ckptdb::testing
