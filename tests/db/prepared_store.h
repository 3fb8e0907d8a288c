// SPDX-License-Identifier: Apache-2.0
// A store on a simulated disk, prepared by actions, and the model of it.
#ifndef CKPTDB_TESTS_DB_PREPARED_STORE_H_
#define CKPTDB_TESTS_DB_PREPARED_STORE_H_

#include <gtest/gtest.h>

#include <memory>
#include <vector>

#include "tests/db/sim_store.h"
#include "tests/support/status_matchers.h"

namespace ckptdb::testing {

class PreparedStoreTest : public ::testing::Test {
 protected:
  // Does these without a fault, and closes the store.
  void Prepare(const std::vector<Action>& actions) {
    SimStore sim(files_);
    ASSERT_OK(sim.Open());
    for (const Action& action : actions) {
      ASSERT_OK(action.run(&sim)) << action.name;
      action.apply(&model_);
    }
    sim.Close();
  }

  std::shared_ptr<SimFileSystem> files_ = std::make_shared<SimFileSystem>();
  StoreModel model_;
};

}  // namespace ckptdb::testing

#endif  // CKPTDB_TESTS_DB_PREPARED_STORE_H_
