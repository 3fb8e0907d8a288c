// SPDX-License-Identifier: Apache-2.0
// Ends a program in an orderly way on Ctrl-C or SIGTERM.
#ifndef CKPTDB_EXAMPLES_TRAIN_CTR_STOP_SIGNALS_H_
#define CKPTDB_EXAMPLES_TRAIN_CTR_STOP_SIGNALS_H_

#include <atomic>
#include <csignal>
#include <functional>
#include <thread>

namespace train_ctr {

// As long as it lives, SIGINT and SIGTERM call `stop`, in a thread of their
// own, instead of killing the process. Make it before other threads, which then
// leave the signals to it.
class StopSignals {
 public:
  explicit StopSignals(std::function<void()> stop);
  ~StopSignals();
  StopSignals(const StopSignals&) = delete;
  StopSignals& operator=(const StopSignals&) = delete;

 private:
  sigset_t signals_;
  sigset_t before_;
  std::atomic<bool> ending_ = false;
  std::thread waiter_;
};

}  // namespace train_ctr

#endif  // CKPTDB_EXAMPLES_TRAIN_CTR_STOP_SIGNALS_H_
