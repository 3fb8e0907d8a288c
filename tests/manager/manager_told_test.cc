// What a manager tells a user who would not notice it otherwise.
#include <gmock/gmock.h>

#include <string>
#include <thread>
#include <vector>

#include "absl/strings/match.h"
#include "ckptdb/schema/slice.h"
#include "ckptdb/tests/manager/manager_fixture.h"

namespace ckptdb::testing {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

class ManagerToldTest : public ManagerTest {
 protected:
  void SetUp() override {
    ManagerTest::SetUp();
    options_.on_warning = [this](const std::string& warning) {
      warnings_.push_back(warning);
    };
  }
  void FailSaves() {
    model_->users.FailWith(absl::UnavailableError("no rows today"));
  }
  void FailNoSaves() { model_->users.FailWith(absl::OkStatus()); }

  std::vector<std::string> warnings_;
};

TEST_F(ManagerToldTest, AManagerWithoutAScheduleWarns) {
  Start();
  EXPECT_THAT(warnings_, IsEmpty());
  options_.schedule = {};
  Start();
  EXPECT_THAT(warnings_,
              ElementsAre(AllOf(HasSubstr(options_.path),
                                HasSubstr("ManagerOptions::schedule is empty"),
                                HasSubstr("Step saves nothing"))));
}

TEST_F(ManagerToldTest, NoScheduleIsNothingToWarnOfWhereNothingIsSaved) {
  Start();
  options_.schedule = {};
  options_.saving = false;
  Start();
  manager_.reset();
  options_.saving = true;
  ASSERT_OK_AND_ASSIGN(options_.schedule.ephemeral, FixedInterval(5));
  Start();
  manager_.reset();
  options_.schedule = {};
  options_.read_only = true;
  Start();
  // Whoever saves by hand alone says so.
  manager_.reset();
  options_.read_only = false;
  ASSERT_OK_AND_ASSIGN(options_.schedule.permanent, SpecificSteps({}));
  Start();
  EXPECT_THAT(warnings_, IsEmpty());
}

}  // namespace
}  // namespace ckptdb::testing
