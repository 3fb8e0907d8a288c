// SPDX-License-Identifier: Apache-2.0
// The seed of a test process: CKPTDB_SEED if set, otherwise a random one.
// Printed in either case, so that a failure can be reproduced.
//
//   std::mt19937_64 random(TestSeed());
#ifndef CKPTDB_TESTS_SUPPORT_SEED_H_
#define CKPTDB_TESTS_SUPPORT_SEED_H_

#include <cstdint>
#include <cstdlib>
#include <iostream>
#include <random>

namespace ckptdb::testing {

inline uint64_t TestSeed() {
  static const uint64_t kSeed = [] {
    const char* given = std::getenv("CKPTDB_SEED");
    const uint64_t chosen = given != nullptr ? std::strtoull(given, nullptr, 0)
                                             : std::random_device{}();
    std::cout << "CKPTDB_SEED=" << chosen << std::endl;
    return chosen;
  }();
  return kSeed;
}

}  // namespace ckptdb::testing

#endif  // CKPTDB_TESTS_SUPPORT_SEED_H_
