// SPDX-License-Identifier: Apache-2.0
#include "db/quirks/given_up_compactions.h"

#include <thread>

#include "gtest/gtest.h"

namespace ckptdb::internal {
namespace {

TEST(GivenUpCompactionsTest, TellsEachErrorOnce) {
  GivenUpCompactions compactions;
  EXPECT_FALSE(compactions.TakeError());
  compactions.Completed(/*given_up=*/true);
  EXPECT_TRUE(compactions.TakeError());
  EXPECT_FALSE(compactions.TakeError());
}

TEST(GivenUpCompactionsTest, ErrorBelongsToTheLastCompactionOfItsThread) {
  GivenUpCompactions compactions;
  compactions.Completed(/*given_up=*/true);
  compactions.Completed(/*given_up=*/false);
  EXPECT_FALSE(compactions.TakeError());
  compactions.Completed(/*given_up=*/true);
  std::thread([&] { EXPECT_FALSE(compactions.TakeError()); }).join();
  EXPECT_TRUE(compactions.TakeError());
}

}  // namespace
}  // namespace ckptdb::internal
