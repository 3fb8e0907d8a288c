// SPDX-License-Identifier: Apache-2.0
// A file system without hard links: data files are copied into the database. In
// a process of its own, whose system calls are filtered.
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include <cerrno>

#include "tests/db/store_fixture.h"
#include "tests/support/exit_folder.h"

namespace ckptdb::testing {
namespace {

constexpr int kSkipped = 77;

// Has link() and linkat() fail in all threads. Returns false where it may not.
bool FailLinks(uint32_t error) {
  // Each of these jumps over so many of those below when the call is that one.
  std::array<sock_filter, 5> filter = {{
      {BPF_LD | BPF_W | BPF_ABS, 0, 0, offsetof(seccomp_data, nr)},
      {BPF_JMP | BPF_JEQ | BPF_K, 2, 0, SYS_linkat},
      {BPF_JMP | BPF_JEQ | BPF_K, 1, 0, SYS_link},
      {BPF_RET | BPF_K, 0, 0, SECCOMP_RET_ALLOW},
      {BPF_RET | BPF_K, 0, 0, SECCOMP_RET_ERRNO | error},
  }};
  const sock_fprog program = {filter.size(), filter.data()};
  return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
         syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER,
                 SECCOMP_FILTER_FLAG_TSYNC, &program) == 0;
}

class NoLinksTest : public StoreFixture,
                    public ::testing::WithParamInterface<int> {
 protected:
  void SetUp() override {
    ::testing::FLAGS_gtest_death_test_style = "threadsafe";
    folder_ = ExitFolder(dir_) + "/store";
  }
  int SaveWithoutLinks() const {
    const auto store = Store::Open(folder_);
    EXPECT_OK(store);
    if (!FailLinks(static_cast<uint32_t>(GetParam()))) return kSkipped;
    EXPECT_EQ(link("/proc/self/exe", folder_.c_str()), -1);
    EXPECT_EQ(errno, GetParam());
    const HeldState held(BulkContent(1));
    const absl::Status saved =
        (*store)->Save({.step = 1}, held.state()).status();
    if (!saved.ok()) std::cerr << saved << std::endl;
    return saved.ok() ? 0 : 1;
  }
  std::string folder_;
};

TEST_P(NoLinksTest, FilesAreCopied) {
  const auto is_end = [](int status) {
    return WIFEXITED(status) &&
           (WEXITSTATUS(status) == 0 || WEXITSTATUS(status) == kSkipped);
  };
  EXPECT_EXIT(std::_Exit(SaveWithoutLinks()), is_end, "");
  ASSERT_OK_AND_ASSIGN(const auto store, Store::Open(folder_));
  if (store->Steps().empty()) GTEST_SKIP() << "calls cannot be filtered";
  ExpectHolds(*store->OpenStep(1).value(), {BulkContent(1)});
}

INSTANTIATE_TEST_SUITE_P(Errors, NoLinksTest,
                         ::testing::Values(EPERM, ENOSYS, EMLINK, ENOTSUP,
                                           EXDEV));

}  // namespace
}  // namespace ckptdb::testing
