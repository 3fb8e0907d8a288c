// SPDX-License-Identifier: Apache-2.0
// Measures elapsed time for reports; internal to manager/.
#ifndef CKPTDB_MANAGER_STATE_MICROS_SINCE_H_
#define CKPTDB_MANAGER_STATE_MICROS_SINCE_H_

#include <chrono>
#include <cstdint>

namespace ckptdb::internal {

inline int64_t MicrosSince(std::chrono::steady_clock::time_point begin) {
  return std::chrono::duration_cast<std::chrono::microseconds>(
             std::chrono::steady_clock::now() - begin)
      .count();
}

}  // namespace ckptdb::internal

#endif  // CKPTDB_MANAGER_STATE_MICROS_SINCE_H_
