#include "ckptdb/manager/verdict.h"

#include "gtest/gtest.h"

namespace ckptdb {
namespace {

const Verdict kYes{true, "a"};
const Verdict kAlso{true, "b"};
const Verdict kNo{false, "c"};
const Verdict kNeither{false, "d"};

TEST(Verdict, AnyOf) {
  EXPECT_EQ(AnyOf({kNo, kYes, kNeither, kAlso}), (Verdict{true, "a; b"}));
  EXPECT_EQ(AnyOf({kNo, kNeither}), (Verdict{false, "c; d"}));
  EXPECT_EQ(AnyOf({kYes}), kYes);
  EXPECT_EQ(AnyOf({kNo}), kNo);
}

TEST(Verdict, AllOf) {
  EXPECT_EQ(ckptdb::AllOf({kNo, kYes, kNeither, kAlso}),
            (Verdict{false, "c; d"}));
  EXPECT_EQ(ckptdb::AllOf({kYes, kAlso}), (Verdict{true, "a; b"}));
  EXPECT_EQ(ckptdb::AllOf({kYes}), kYes);
  EXPECT_EQ(ckptdb::AllOf({kNo}), kNo);
}

TEST(Verdict, Negate) {
  EXPECT_EQ(Negate(kYes), (Verdict{false, "a"}));
  EXPECT_EQ(Negate(kNo), (Verdict{true, "c"}));
}

}  // namespace
}  // namespace ckptdb
