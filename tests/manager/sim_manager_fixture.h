// SPDX-License-Identifier: Apache-2.0
// A manager over a simulated disk.
#ifndef CKPTDB_TESTS_MANAGER_SIM_MANAGER_FIXTURE_H_
#define CKPTDB_TESTS_MANAGER_SIM_MANAGER_FIXTURE_H_

#include <memory>

#include "tests/db/sim_store.h"
#include "tests/manager/manager_fixture.h"

namespace ckptdb::testing {

class SimManagerTest : public ManagerTest {
 protected:
  void SetUp() override {
    ManagerTest::SetUp();
    options_.path = SimStore::kPath;
    options_.store.environment = disk_.environment();
    options_.store.stage_threads = 1;
  }
  void TearDown() override {
    manager_.reset();
    ManagerTest::TearDown();
  }

  // Reopens the store; the newest step must be `step`, undamaged.
  void ExpectRestores(int64_t step) {
    Start();
    ASSERT_OK_AND_ASSIGN(const RestoreReport report, manager_->Restore());
    EXPECT_EQ(report.version.step, step);
    ExpectTrained(*model_, step);
  }

  SimStore disk_{std::make_shared<SimFileSystem>()};
};

}  // namespace ckptdb::testing

#endif  // CKPTDB_TESTS_MANAGER_SIM_MANAGER_FIXTURE_H_
