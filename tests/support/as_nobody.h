// A scope in which a test that runs as root is another user.
#ifndef CKPTDB_TESTS_SUPPORT_AS_NOBODY_H_
#define CKPTDB_TESTS_SUPPORT_AS_NOBODY_H_

#include <unistd.h>

#include "gtest/gtest.h"

namespace ckptdb::testing {

// Becomes the user nobody until it is destroyed, as root may read and write
// everything. A test that does not run as root stays the user that it is.
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

  // Returns whether the machine refused the change, as in some containers.
  bool failed() const { return failed_; }

 private:
  const uid_t user_;
  bool failed_ = false;
};

}  // namespace ckptdb::testing

#endif  // CKPTDB_TESTS_SUPPORT_AS_NOBODY_H_
