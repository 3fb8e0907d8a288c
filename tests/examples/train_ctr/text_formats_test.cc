// SPDX-License-Identifier: Apache-2.0
#include <limits>
#include <set>
#include <string>

#include "tests/examples/train_ctr/log_files.h"
#include "tests/support/status_matchers.h"
#include "train_ctr/log.h"

namespace train_ctr {
namespace {

using ::ckptdb::testing::StatusIs;
using ::testing::HasSubstr;
using ::testing::StrEq;

constexpr auto kBadText = absl::StatusCode::kInvalidArgument;

// A line of empty columns but for the label and one other.
std::string CriteoLine(const std::string& label, int column = 0,
                       const std::string& value = "") {
  std::string line = label;
  for (int c = 1; c <= 39; ++c) line += "," + (c == column ? value : "");
  return line;
}

TEST(CriteoTest, ReadsLabelAndFields) {
  Example example;
  ASSERT_OK(
      ParseLine(Format::kCriteo, CriteoLine("1", 14, "05db9164"), &example));
  EXPECT_EQ(example.label, 1);
  ASSERT_EQ(example.ids.size(), 39u);
  EXPECT_EQ(example.ids[13], HashFeature(13, "05db9164"));
  EXPECT_EQ(example.ids[14], HashFeature(14, ""));
  ASSERT_OK(ParseLine(Format::kCriteo, CriteoLine("0", 3, "260.0"), &example));
  EXPECT_EQ(example.label, 0);
  EXPECT_EQ(example.ids[2], HashFeature(2, LogBucket(260)));
}

TEST(CriteoTest, EqualValuesOfTwoFieldsHaveTwoIds) {
  Example example;
  ASSERT_OK(ParseLine(Format::kCriteo, CriteoLine("0"), &example));
  const std::set<int64_t> distinct(example.ids.begin(), example.ids.end());
  EXPECT_EQ(distinct.size(), example.ids.size());
}

TEST(CriteoTest, RefusesWrongValues) {
  Example example;
  EXPECT_THAT(ParseLine(Format::kCriteo, CriteoLine("2"), &example),
              StatusIs(kBadText, StrEq("label \"2\" is not 0 or 1")));
  EXPECT_THAT(ParseLine(Format::kCriteo, CriteoLine("1", 3, "x1"), &example),
              StatusIs(kBadText, StrEq("I3 \"x1\" is not a finite number")));
  EXPECT_THAT(ParseLine(Format::kCriteo, CriteoLine("1", 13, "inf"), &example),
              StatusIs(kBadText, StrEq("I13 \"inf\" is not a finite number")));
  EXPECT_THAT(ParseLine(Format::kCriteo, "1,2,3", &example),
              StatusIs(kBadText, StrEq("the line has 3 columns, not 40")));
  EXPECT_THAT(ParseLine(Format::kCriteo, CriteoLine("1") + ",", &example),
              StatusIs(kBadText, StrEq("the line has 41 columns, not 40")));
}

TEST(CriteoTest, ChecksHeader) {
  EXPECT_OK(CheckHeader(Format::kCriteo, CriteoHeader()));
  EXPECT_THAT(CheckHeader(Format::kCriteo, "label,I1,X2"),
              StatusIs(kBadText, HasSubstr("column 3 of the header is \"X2\", "
                                           "not \"I2\"")));
  EXPECT_THAT(CheckHeader(Format::kCriteo, "label,I1"),
              StatusIs(kBadText, HasSubstr("2 columns, not 40")));
  EXPECT_THAT(CheckHeader(Format::kCriteo, CriteoHeader() + ",C27"),
              StatusIs(kBadText, HasSubstr("41 columns, not 40")));
}

TEST(CriteoTest, BucketsGrowWithTheValue) {
  EXPECT_EQ(LogBucket(-1), -1);
  EXPECT_EQ(LogBucket(0), 0);
  EXPECT_EQ(LogBucket(2), 2);
  EXPECT_EQ(LogBucket(3), 3);
  int64_t last = LogBucket(-5);
  for (int value = -4; value < 100000; ++value) {
    const int64_t bucket = LogBucket(value);
    ASSERT_LE(last, bucket) << value;
    last = bucket;
  }
  EXPECT_LT(last, 200);
  EXPECT_EQ(LogBucket(-1e300), -1000);
  EXPECT_LT(LogBucket(std::numeric_limits<double>::max()), 1000000);
}

TEST(MovieLensTest, ReadsBothSeparators) {
  Example tabs;
  Example colons;
  ASSERT_OK(ParseLine(Format::kMovieLens, "196\t242\t3\t881250949", &tabs));
  ASSERT_OK(ParseLine(Format::kMovieLens, "196::242::3::881250949", &colons));
  EXPECT_EQ(tabs.ids, colons.ids);
  EXPECT_EQ(tabs.ids[0], HashFeature(0, 196));
  EXPECT_EQ(tabs.ids[1], HashFeature(1, 242));
  EXPECT_EQ(tabs.ids[2], HashFeature(2, 881250949 / 3600 % 24));
}

TEST(MovieLensTest, FourIsAClick) {
  Example example;
  ASSERT_OK(ParseLine(Format::kMovieLens, "1\t2\t3.5\t4", &example));
  EXPECT_EQ(example.label, 0);
  ASSERT_OK(ParseLine(Format::kMovieLens, "1\t2\t4\t4", &example));
  EXPECT_EQ(example.label, 1);
}

TEST(MovieLensTest, RefusesWrongValues) {
  Example example;
  EXPECT_THAT(ParseLine(Format::kMovieLens, "a\t2\t3\t4", &example),
              StatusIs(kBadText, StrEq("user \"a\" is not an integer")));
  EXPECT_THAT(ParseLine(Format::kMovieLens, "1\t2.5\t3\t4", &example),
              StatusIs(kBadText, StrEq("item \"2.5\" is not an integer")));
  EXPECT_THAT(
      ParseLine(Format::kMovieLens, "1::2::good::4", &example),
      StatusIs(kBadText, StrEq("rating \"good\" is not a finite number")));
  EXPECT_THAT(ParseLine(Format::kMovieLens, "1::2::3::", &example),
              StatusIs(kBadText, StrEq("timestamp \"\" is not an integer")));
  EXPECT_THAT(ParseLine(Format::kMovieLens, "1 2 3 4", &example),
              StatusIs(kBadText, StrEq("the line has 1 columns, not 4")));
}

TEST(FormatTest, NamesThem) {
  ASSERT_OK_AND_ASSIGN(const Format format, ParseFormat("movielens"));
  EXPECT_EQ(format, Format::kMovieLens);
  EXPECT_THAT(
      ParseFormat("csv"),
      StatusIs(kBadText, StrEq("format \"csv\" is not criteo or movielens")));
}

}  // namespace
}  // namespace train_ctr
