// The seed of a process that tests: CKPTDB_SEED when set, else a new one;
// printed either way, so that a failure can be run again.
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
