// SPDX-License-Identifier: Apache-2.0
// Mounts that only this process sees, for a test in a separate process.
#ifndef CKPTDB_TESTS_SUPPORT_NAME_SPACE_H_
#define CKPTDB_TESTS_SUPPORT_NAME_SPACE_H_

#include <sched.h>
#include <sys/mount.h>

#include <cerrno>
#include <cstring>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace ckptdb::testing {

// Returns Unimplemented, for tests that are not allowed to mount.
inline absl::Status CannotMount(absl::string_view what) {
  return absl::UnimplementedError(
      absl::StrCat("cannot mount: ", what, ": ", std::strerror(errno)));
}

// As root, or in a user namespace otherwise. Call it before any thread starts.
inline absl::Status EnterNameSpace() {
  if (unshare(CLONE_NEWNS) != 0 && unshare(CLONE_NEWUSER | CLONE_NEWNS) != 0) {
    return CannotMount("a name space");
  }
  if (mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0) {
    return CannotMount("private mounts");
  }
  return absl::OkStatus();
}

inline absl::Status BindFolder(const std::string& from, const std::string& to) {
  if (mount(from.c_str(), to.c_str(), nullptr, MS_BIND, nullptr) == 0) {
    return absl::OkStatus();
  }
  return CannotMount(to);
}

}  // namespace ckptdb::testing

#endif  // CKPTDB_TESTS_SUPPORT_NAME_SPACE_H_
