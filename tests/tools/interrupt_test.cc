// SPDX-License-Identifier: Apache-2.0
#include "tools/interrupt.h"

#include <csignal>

#include "gtest/gtest.h"

namespace ckptdb::tool {
namespace {

TEST(Interrupt, IsRequestedByASignal) {
  for (const int signal : {SIGINT, SIGTERM}) {
    const Interrupt interrupt;
    EXPECT_FALSE(Interrupt::asked());
    ASSERT_EQ(std::raise(signal), 0);
    EXPECT_TRUE(Interrupt::asked());
  }
}

TEST(InterruptDeathTest, TheSecondSignalEndsTheProcess) {
  EXPECT_EXIT(
      {
        const Interrupt interrupt;
        std::raise(SIGINT);
        std::raise(SIGINT);
      },
      ::testing::KilledBySignal(SIGINT), "");
}

TEST(InterruptDeathTest, RestoresTheSignalHandler) {
  EXPECT_EXIT(
      {
        { const Interrupt interrupt; }
        std::raise(SIGTERM);
      },
      ::testing::KilledBySignal(SIGTERM), "");
}

TEST(Interrupt, LeavesAnIgnoredSignalIgnored) {
  ASSERT_NE(std::signal(SIGINT, SIG_IGN), SIG_ERR);
  {
    const Interrupt interrupt;
    ASSERT_EQ(std::raise(SIGINT), 0);
    EXPECT_FALSE(Interrupt::asked());
  }
  EXPECT_EQ(std::signal(SIGINT, SIG_DFL), SIG_IGN);
}

}  // namespace
}  // namespace ckptdb::tool
