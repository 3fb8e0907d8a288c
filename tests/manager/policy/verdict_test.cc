// SPDX-License-Identifier: Apache-2.0
#include "manager/policy/verdict.h"

#include "gtest/gtest.h"

namespace ckptdb::internal {
namespace {

const Verdict kYes{true, "a"};
const Verdict kAlso{true, "b"};
const Verdict kNo{false, "c"};
const Verdict kNeither{false, "d"};

TEST(Verdict, AnyOf) {
  EXPECT_EQ(AnyOf(kNo, kYes), kYes);
  EXPECT_EQ(AnyOf(kYes, kNo), kYes);
  EXPECT_EQ(AnyOf(kYes, kAlso), (Verdict{true, "a; b"}));
  EXPECT_EQ(AnyOf(kNo, kNeither), (Verdict{false, "c; d"}));
  EXPECT_EQ(AnyOf(AnyOf(AnyOf(kNo, kYes), kNeither), kAlso),
            (Verdict{true, "a; b"}));
}

TEST(Verdict, AllOf) {
  EXPECT_EQ(internal::AllOf(kNo, kYes), kNo);
  EXPECT_EQ(internal::AllOf(kYes, kNo), kNo);
  EXPECT_EQ(internal::AllOf(kYes, kAlso), (Verdict{true, "a; b"}));
  EXPECT_EQ(internal::AllOf(
                internal::AllOf(internal::AllOf(kNo, kYes), kNeither), kAlso),
            (Verdict{false, "c; d"}));
}

TEST(Verdict, Negate) {
  EXPECT_EQ(Negate(kYes), (Verdict{false, "a"}));
  EXPECT_EQ(Negate(kNo), (Verdict{true, "c"}));
}

}  // namespace
}  // namespace ckptdb::internal
