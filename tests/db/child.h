// SPDX-License-Identifier: Apache-2.0
// Another process of a test: tests/db/child_main.cc with a command.
//
//   Child child({"hold", store_path});
//   EXPECT_EQ(child.ReadLine(), "ok");
//   child.Kill();
#ifndef CKPTDB_TESTS_DB_CHILD_H_
#define CKPTDB_TESTS_DB_CHILD_H_

#include <sys/types.h>

#include <string>
#include <vector>

#include "absl/strings/string_view.h"

namespace ckptdb::testing {

class Child {
 public:
  explicit Child(std::vector<std::string> arguments);
  // Kills it unless it was waited for.
  ~Child();
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;
  pid_t pid() const { return pid_; }
  void Write(absl::string_view bytes);
  void CloseInput();
  // Without the newline; what there is when the output ends.
  std::string ReadLine();
  std::string ReadAll();
  // SIGKILL, and waits.
  void Kill();
  int Wait();

 private:
  pid_t pid_ = -1;
  int input_ = -1;
  int output_ = -1;
};

}  // namespace ckptdb::testing

#endif  // CKPTDB_TESTS_DB_CHILD_H_
