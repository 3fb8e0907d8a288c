// SPDX-License-Identifier: Apache-2.0
// A thread in the place of the one that sweeps, which counts what it is asked.
#ifndef CKPTDB_TESTS_DB_STORE_SWEEP_COUNTER_H_
#define CKPTDB_TESTS_DB_STORE_SWEEP_COUNTER_H_

#include <chrono>
#include <semaphore>
#include <thread>

#include "db/store/sweep_requests.h"

namespace ckptdb::internal {

class SweepCounter {
 public:
  explicit SweepCounter(SweepRequests* requests)
      : requests_(requests), thread_([this] {
          while (requests_->Wait()) sweeps_.release();
        }) {}
  ~SweepCounter() {
    requests_->Stop();
    thread_.join();
  }
  SweepCounter(const SweepCounter&) = delete;
  SweepCounter& operator=(const SweepCounter&) = delete;
  // Returns true when a sweep was due, once for each; false after a minute.
  bool Take() { return sweeps_.try_acquire_for(std::chrono::minutes(1)); }
  // Returns whether no sweep is due. It waits a moment for one.
  bool None() {
    return !sweeps_.try_acquire_for(std::chrono::milliseconds(20));
  }

 private:
  SweepRequests* const requests_;
  std::counting_semaphore<> sweeps_{0};
  std::thread thread_;
};

}  // namespace ckptdb::internal

#endif  // CKPTDB_TESTS_DB_STORE_SWEEP_COUNTER_H_
