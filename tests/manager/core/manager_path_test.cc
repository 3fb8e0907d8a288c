// SPDX-License-Identifier: Apache-2.0
// A manager keeps using the store that its path named when it was opened.
#include <filesystem>

#include "tests/manager/manager_fixture.h"

namespace ckptdb::testing {
namespace {

namespace fs = std::filesystem;

class ManagerPathTest : public ManagerTest {
 protected:
  void SetUp() override {
    ManagerTest::SetUp();
    before_ = fs::current_path();
    fs::create_directories(dir_.path() + "/a");
    fs::create_directories(dir_.path() + "/b");
    fs::current_path(dir_.path() + "/a");
  }
  void TearDown() override {
    manager_.reset();
    fs::current_path(before_);
    ManagerTest::TearDown();
  }

 private:
  fs::path before_;
};

TEST_F(ManagerPathTest, SavesAndRestoresWorkAfterAChdir) {
  options_.path = "store";
  options_.observers.statistics_path = "statistics.json";
  Start();
  TrainTo(2);
  fs::current_path(dir_.path() + "/b");
  TrainAndWait(5);
  ASSERT_OK_AND_ASSIGN(
      const RestoreReport report,
      manager_->Restore({.path = dir_.path() + "/a/../a/store"}));
  EXPECT_EQ(report.version.step, 4);
  EXPECT_EQ(report.store, dir_.path() + "/a/store");
  TrainAndClose(6);
  manager_.reset();
  EXPECT_TRUE(fs::is_empty(dir_.path() + "/b"));
  std::ifstream statistics(dir_.path() + "/a/statistics.json");
  EXPECT_EQ(std::count(std::istreambuf_iterator<char>(statistics), {}, '\n'),
            4);
  const auto reader = Reader::Open(dir_.path() + "/a/store").value();
  std::vector<int64_t> steps;
  for (const StepRecord& record : reader->Steps()) {
    steps.push_back(record.version.step);
  }
  EXPECT_THAT(steps, ElementsAre(2, 4, 6));
}

}  // namespace
}  // namespace ckptdb::testing
