// SPDX-License-Identifier: Apache-2.0
// Runs a part of a test as another user than root.
#ifndef CKPTDB_TESTS_SUPPORT_AS_NOBODY_H_
#define CKPTDB_TESTS_SUPPORT_AS_NOBODY_H_

#include <unistd.h>

#include "gtest/gtest.h"

namespace ckptdb::testing {

// Becomes the user nobody until it is destroyed, because root may read and
// write everything. Does nothing if the test does not run as root.
class AsNobody {
 public:
  AsNobody() : user_(geteuid()) {
    constexpr uid_t kNobody = 65534;
    if (user_ == 0) failed_ = seteuid(kNobody) != 0;
  }
  ~AsNobody() {
    if (user_ == 0) {
      EXPECT_EQ(seteuid(user_), 0);
    }
  }
  AsNobody(const AsNobody&) = delete;
  AsNobody& operator=(const AsNobody&) = delete;

  // Returns whether the system refused the change, as in some containers.
  bool failed() const { return failed_; }

 private:
  const uid_t user_;
  bool failed_ = false;
};

}  // namespace ckptdb::testing

#endif  // CKPTDB_TESTS_SUPPORT_AS_NOBODY_H_
