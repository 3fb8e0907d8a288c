// SPDX-License-Identifier: Apache-2.0
// The steps of a remote, for assertions.
#ifndef CKPTDB_TESTS_REMOTE_REMOTE_STEPS_H_
#define CKPTDB_TESTS_REMOTE_REMOTE_STEPS_H_

#include <cstdint>
#include <vector>

#include "remote/remote_store.h"
#include "tests/support/test.h"

namespace ckptdb::testing {

// Returns the steps that can be fetched, in ascending order.
inline std::vector<int64_t> StepsOfRemote(ObjectStore* remote) {
  std::vector<int64_t> steps;
  const auto listed = ListRemote(remote);
  EXPECT_OK(listed);
  if (!listed.ok()) return steps;
  for (const RemoteStep& step : listed->steps) {
    steps.push_back(step.version.step);
  }
  return steps;
}

}  // namespace ckptdb::testing

#endif  // CKPTDB_TESTS_REMOTE_REMOTE_STEPS_H_
