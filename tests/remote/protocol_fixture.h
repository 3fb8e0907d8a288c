// SPDX-License-Identifier: Apache-2.0
// A remote in memory, and a source whose steps are pushed to it.
#ifndef CKPTDB_TESTS_REMOTE_PROTOCOL_FIXTURE_H_
#define CKPTDB_TESTS_REMOTE_PROTOCOL_FIXTURE_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/match.h"
#include "gtest/gtest.h"
#include "remote/remote_store.h"
#include "remote/sync/shipper.h"
#include "tests/remote/fake_source.h"
#include "tests/remote/memory_store.h"
#include "tests/remote/remote_steps.h"
#include "tests/support/status_matchers.h"

namespace ckptdb::testing {

class ProtocolFixture : public ::testing::Test {
 protected:
  ProtocolFixture() { remote_.set_names_as_files(true); }

  absl::StatusOr<PushResult> Push(const FakeSource& source,
                                  const PushOptions& options = {}) {
    return internal::Shipper(&remote_, &options).Push(source);
  }
  std::vector<int64_t> Steps() { return StepsOfRemote(&remote_); }
  void ExpectSound() {
    ASSERT_OK_AND_ASSIGN(const VerifyRemoteResult verified,
                         VerifyRemote(&remote_, {.data = true}));
    for (const auto& damage : verified.damage) {
      ADD_FAILURE() << damage.key << ": " << damage.problem;
    }
  }
  size_t CountOf(const std::string& prefix) {
    size_t count = 0;
    for (const auto& [key, object] : remote_.objects()) {
      if (absl::StartsWith(key, prefix)) ++count;
    }
    return count;
  }

  MemoryStore remote_;
  FakeSource source_{"store-1"};
};

}  // namespace ckptdb::testing

#endif  // CKPTDB_TESTS_REMOTE_PROTOCOL_FIXTURE_H_
