// SPDX-License-Identifier: Apache-2.0
#include <memory>
#include <string>
#include <vector>

#include "tests/examples/train_ctr/log_files.h"
#include "tests/support/status_matchers.h"
#include "tests/support/temp_dir.h"
#include "train_ctr/log.h"

namespace train_ctr {
namespace {

using ::ckptdb::testing::StatusIs;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::StartsWith;
using ::testing::StrEq;

constexpr auto kBadFile = absl::StatusCode::kInvalidArgument;

class FileLogTest : public ::testing::Test {
 protected:
  absl::StatusOr<std::unique_ptr<Log>> Open(const std::string& text,
                                            Format format,
                                            double holdout = 0.2) {
    WriteFile(path_, text);
    return OpenFileLog(path_, format, holdout);
  }

  // The first ids from `from` on.
  static std::vector<int64_t> ReadTo(Log& source, LogPosition from,
                                     LogPosition stop) {
    std::vector<int64_t> ids;
    EXPECT_OK(source.Seek(from));
    Example example;
    while (true) {
      const auto found = source.Next(stop, &example);
      EXPECT_OK(found);
      if (!found.ok() || !*found) return ids;
      ids.push_back(example.ids[0]);
    }
  }

  ckptdb::testing::TempDir dir_;
  std::string path_ = dir_.path() + "/log";
};

std::vector<int64_t> Users(int begin, int end) {
  std::vector<int64_t> ids;
  for (int user = begin; user < end; ++user) {
    ids.push_back(HashFeature(0, user));
  }
  return ids;
}

std::string Ratings(int users, const std::string& line_end) {
  std::string text;
  for (int user = 0; user < users; ++user) {
    text += std::to_string(user) + "\t1\t5\t0" + line_end;
  }
  return text;
}

TEST_F(FileLogTest, SplitsOffTheTail) {
  ASSERT_OK_AND_ASSIGN(auto source,
                       Open(Ratings(10, "\n"), Format::kMovieLens));
  EXPECT_EQ(ReadTo(*source, source->begin(), source->tail()), Users(0, 8));
  EXPECT_EQ(ReadTo(*source, source->tail(), source->end()), Users(8, 10));
}

TEST_F(FileLogTest, TakesEveryLineEnd) {
  const std::string text = Ratings(3, "\r\n") + "\n\r\n" + "3::1::5::0";
  ASSERT_OK_AND_ASSIGN(auto source, Open(text, Format::kMovieLens));
  EXPECT_EQ(ReadTo(*source, source->begin(), source->end()), Users(0, 4));
  EXPECT_EQ(ReadTo(*source, source->tail(), source->end()), Users(3, 4));
}

TEST_F(FileLogTest, SeeksToEveryPosition) {
  ASSERT_OK_AND_ASSIGN(auto source,
                       Open(Ratings(12, "\n"), Format::kMovieLens));
  LogPosition position = source->begin();
  Example example;
  for (int user = 0; user < 12; ++user) {
    EXPECT_EQ(ReadTo(*source, position, source->end()), Users(user, 12));
    ASSERT_OK(source->Seek(position));
    ASSERT_OK(source->Next(source->end(), &example));
    position = source->position();
  }
}

TEST_F(FileLogTest, PassesTheCriteoHeader) {
  ASSERT_OK_AND_ASSIGN(auto source, Open(CriteoLog(5, 1), Format::kCriteo));
  EXPECT_EQ(ReadTo(*source, source->begin(), source->end()).size(), 5u);
  EXPECT_EQ(source->begin().line, 1u);
}

TEST_F(FileLogTest, ErrorsNameFileLineAndValue) {
  const std::string text = Ratings(2, "\n") + "\n7\t1\tbad\t0\n";
  ASSERT_OK_AND_ASSIGN(auto source, Open(text, Format::kMovieLens));
  ASSERT_OK(source->Seek(source->tail()));
  Example example;
  EXPECT_THAT(source->Next(source->end(), &example),
              StatusIs(kBadFile, StrEq(path_ + ":4: rating \"bad\" is not a "
                                               "finite number")));
}

TEST_F(FileLogTest, RejectsFilesWithoutALog) {
  EXPECT_THAT(OpenFileLog(dir_.path() + "/none", Format::kCriteo, 0.1),
              StatusIs(absl::StatusCode::kNotFound, HasSubstr("/none")));
  EXPECT_THAT(OpenFileLog(dir_.path(), Format::kCriteo, 0.1),
              StatusIs(kBadFile, HasSubstr("is a folder")));
  EXPECT_THAT(Open("", Format::kCriteo),
              StatusIs(kBadFile, HasSubstr("is empty")));
  EXPECT_THAT(Open("", Format::kMovieLens),
              StatusIs(kBadFile, HasSubstr("has 0 examples")));
  EXPECT_THAT(Open(Ratings(1, "\n"), Format::kMovieLens),
              StatusIs(kBadFile, HasSubstr("has 1 examples")));
  EXPECT_THAT(Open(Ratings(2, "\n"), Format::kCriteo),
              StatusIs(kBadFile, AllOf(StartsWith(path_ + ":1: "),
                                       HasSubstr("not \"label\""))));
  EXPECT_THAT(Open(Ratings(9, "\n"), Format::kMovieLens, 1.0),
              StatusIs(kBadFile, HasSubstr("holdout 1 ")));
}

TEST_F(FileLogTest, LimitsLines) {
  const std::string rest(kMaxLineBytes, '0');
  EXPECT_OK(Open(Ratings(2, "\n") + rest + "\n", Format::kMovieLens));
  EXPECT_THAT(Open(Ratings(2, "\n") + rest + "0\n", Format::kMovieLens),
              StatusIs(kBadFile, StrEq(path_ + ":3: the line is longer than "
                                               "65536 bytes")));
}

TEST_F(FileLogTest, NoticesATruncatedFile) {
  ASSERT_OK_AND_ASSIGN(auto source, Open(Ratings(9, "\n"), Format::kMovieLens));
  WriteFile(path_, Ratings(2, "\n"));
  ASSERT_OK(source->Seek(source->begin()));
  absl::StatusOr<bool> found = true;
  Example example;
  while (found.ok() && *found) found = source->Next(source->end(), &example);
  EXPECT_THAT(found, StatusIs(absl::StatusCode::kDataLoss,
                              HasSubstr(path_ + " ends at byte")));
}

TEST_F(FileLogTest, IdentityDistinguishesLogs) {
  ASSERT_OK_AND_ASSIGN(auto a, Open(Ratings(9, "\n"), Format::kMovieLens));
  ASSERT_OK_AND_ASSIGN(auto b, Open(Ratings(8, "\n"), Format::kMovieLens));
  ASSERT_OK_AND_ASSIGN(auto c, Open(Ratings(9, "\n"), Format::kMovieLens, 0.5));
  EXPECT_NE(a->identity(), b->identity());
  EXPECT_NE(a->identity(), c->identity());
}

}  // namespace
}  // namespace train_ctr
