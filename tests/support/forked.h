// SPDX-License-Identifier: Apache-2.0
// A forked child of the test's process, in which all its objects exist.
#ifndef CKPTDB_TESTS_SUPPORT_FORKED_H_
#define CKPTDB_TESTS_SUPPORT_FORKED_H_

#include <sys/wait.h>
#include <unistd.h>

#include <functional>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"

namespace ckptdb::testing {

// Runs `run` in a forked child, and fails the test if the text that it returns,
// a description of errors, is not empty. Kills a child that hangs after a
// minute.
inline void ExpectInChild(const std::function<std::string()>& run) {
  constexpr unsigned kSeconds = 60;
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    alarm(kSeconds);
    const std::string wrong = run();
    if (!wrong.empty() &&
        write(STDERR_FILENO, wrong.data(), wrong.size()) < 0) {
      _exit(2);
    }
    _exit(wrong.empty() ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status)) << "signal " << WTERMSIG(status);
  EXPECT_EQ(WEXITSTATUS(status), 0);
}

// Returns what is wrong with the result of `call` in a forked child, or "".
inline std::string WhyNotRefused(const std::string& call,
                                 const absl::Status& status) {
  if (absl::IsFailedPrecondition(status) &&
      status.message().find("was forked from process") !=
          absl::string_view::npos) {
    return "";
  }
  return absl::StrCat(call, ": ", status.ToString(), "\n");
}

}  // namespace ckptdb::testing

#endif  // CKPTDB_TESTS_SUPPORT_FORKED_H_
