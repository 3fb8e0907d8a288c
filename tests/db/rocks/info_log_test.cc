// SPDX-License-Identifier: Apache-2.0
#include "db/rocks/info_log.h"

#include <stdexcept>

#include "db/disk/spare_space.h"
#include "tests/db/store_fixture.h"

namespace ckptdb::testing {
namespace {

namespace fs = std::filesystem;

class InfoLogTest : public StoreFixture {
 protected:
  void SetUp() override {}
  std::string log() const { return dir_.path() + "/LOG"; }
};

TEST_F(InfoLogTest, KeepsWarningsAndErrors) {
  const auto opened = internal::OpenInfoLog(log(), 0640);
  rocksdb::Header(opened.get(), "header %d", 1);
  rocksdb::Info(opened.get(), "info %d", 2);
  rocksdb::Warn(opened.get(), "warning %d", 3);
  rocksdb::Error(opened.get(), "error %d", 4);
  rocksdb::Warn(opened.get(), "%s", std::string(100'000, 'x').c_str());
  EXPECT_THAT(ReadFile(log()),
              AllOf(HasSubstr("Z warning 3\n"), HasSubstr("Z error 4\n"),
                    Not(HasSubstr("header")), Not(HasSubstr("info"))));
  EXPECT_LT(fs::file_size(log()), 5000U);
}

TEST_F(InfoLogTest, TakesTwiceItsLimitAtMost) {
  const std::string line(1000, 'x');
  for (int opening = 0; opening < 3; ++opening) {
    const auto opened = internal::OpenInfoLog(log(), 0600);
    for (int i = 0; i < 1500; ++i)
      rocksdb::Warn(opened.get(), "%s %d", line.c_str(), i);
  }
  EXPECT_LE(fs::file_size(log()), internal::kMaxInfoLogBytes);
  EXPECT_LE(fs::file_size(log() + ".old"), internal::kMaxInfoLogBytes);
  EXPECT_THAT(ReadFile(log()), HasSubstr("x 1499\n"));
}

TEST_F(InfoLogTest, DropsWhatDoesNotFit) {
  if (!fs::exists("/dev/full")) GTEST_SKIP() << "no /dev/full";
  for (const char* path : {"/dev/full", "/no/such/folder/LOG"}) {
    const auto opened = internal::OpenInfoLog(path, 0600);
    for (int i = 0; i < 3; ++i) rocksdb::Error(opened.get(), "line %d", i);
  }
}

TEST_F(InfoLogTest, FollowsNoLink) {
  const std::string other = dir_.path() + "/other";
  std::ofstream(other) << "mine";
  fs::create_symlink(other, log());
  const auto opened = internal::OpenInfoLog(log(), 0600);
  rocksdb::Error(opened.get(), "line");
  EXPECT_EQ(ReadFile(other), "mine");
}

struct Recorder {
  void Log(absl::LogSeverity severity, absl::string_view message) {
    const std::lock_guard<std::mutex> lock(mutex);
    severities.push_back(severity);
    messages.emplace_back(message);
    throw std::runtime_error("a logger of bad manners");
  }
  std::mutex mutex;
  std::vector<absl::LogSeverity> severities;
  std::vector<std::string> messages;
};

TEST_F(InfoLogTest, GoesToTheCallersLogger) {
  Recorder recorder;
  options_.logger = [&](absl::LogSeverity severity, absl::string_view message) {
    recorder.Log(severity, message);
  };
  const auto log = internal::ForwardInfoLog(options_.logger);
  rocksdb::Warn(log.get(), "warning %d", 3);
  rocksdb::Error(log.get(), "error %d", 4);
  EXPECT_THAT(recorder.messages, ElementsAre("warning 3", "error 4"));
  EXPECT_THAT(recorder.severities, ElementsAre(absl::LogSeverity::kWarning,
                                               absl::LogSeverity::kError));
  Reopen();
  ASSERT_OK(Save(1, SmallContent(1)));
  EXPECT_FALSE(fs::exists(path() + "/db/LOG"));
  store_.reset();  // logs no more
}

// What another program has filled is given back to remove steps with.
TEST_F(InfoLogTest, AStoreSetsSpaceAside) {
  const std::string spare = path() + "/SPARE";
  Reopen();
  EXPECT_EQ(fs::file_size(spare), options_.spare_bytes);
  fs::remove(spare);
  ASSERT_OK(Save(1, SmallContent(1)));
  EXPECT_TRUE(fs::exists(spare));
  store_.reset();
  fs::remove(spare);
  options_.spare_bytes = 0;
  Reopen();
  ASSERT_OK(store_->Sweep());
  EXPECT_FALSE(fs::exists(spare));
}

// Whoever fills the disk takes what is given back.
TEST_F(InfoLogTest, ItIsGivenBackInParts) {
  constexpr uint64_t kSpare = uint64_t{8} << 20;
  const std::string file = dir_.path() + "/spare";
  const internal::SpareSpace spare(file, kSpare, /*mode=*/0600);
  EXPECT_FALSE(spare.Release(1));
  spare.SetAside(2 * kSpare);
  ASSERT_EQ(fs::file_size(file), kSpare);
  uint64_t left = kSpare;
  int given = 0;
  for (; fs::exists(file); ++given) {
    EXPECT_TRUE(spare.Release(100'000));
    if (!fs::exists(file)) break;
    EXPECT_LE(fs::file_size(file), left - 100'000);
    left = fs::file_size(file);
    EXPECT_FALSE(spare.IsSetAside());
  }
  EXPECT_GE(given, 10);
  spare.SetAside(2 * kSpare);
  EXPECT_TRUE(spare.IsSetAside());
  EXPECT_TRUE(spare.Release(2 * kSpare));
  EXPECT_FALSE(fs::exists(file));
}

}  // namespace
}  // namespace ckptdb::testing
