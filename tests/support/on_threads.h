// SPDX-License-Identifier: Apache-2.0
#ifndef CKPTDB_TESTS_SUPPORT_ON_THREADS_H_
#define CKPTDB_TESTS_SUPPORT_ON_THREADS_H_

#include <cstdint>
#include <functional>
#include <thread>
#include <vector>

namespace ckptdb::testing {

// Calls body(0) to body(count - 1), each on a separate thread.
inline void RunOnThreads(uint32_t count,
                         const std::function<void(uint32_t)>& body) {
  std::vector<std::thread> threads;
  for (uint32_t i = 0; i < count; ++i) threads.emplace_back(body, i);
  for (std::thread& thread : threads) thread.join();
}

}  // namespace ckptdb::testing

#endif  // CKPTDB_TESTS_SUPPORT_ON_THREADS_H_
