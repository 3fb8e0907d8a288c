// SPDX-License-Identifier: Apache-2.0
#include "train_ctr/stop_signals.h"

#include <utility>

namespace train_ctr {

StopSignals::StopSignals(std::function<void()> stop) {
  sigemptyset(&signals_);
  sigaddset(&signals_, SIGINT);
  sigaddset(&signals_, SIGTERM);
  pthread_sigmask(SIG_BLOCK, &signals_, &before_);
  waiter_ = std::thread([this, stop = std::move(stop)] {
    int signal = 0;
    while (sigwait(&signals_, &signal) == 0 && !ending_) stop();
  });
}

StopSignals::~StopSignals() {
  ending_ = true;
  pthread_kill(waiter_.native_handle(), SIGINT);
  waiter_.join();
  pthread_sigmask(SIG_SETMASK, &before_, nullptr);
}

}  // namespace train_ctr
