// SPDX-License-Identifier: Apache-2.0
#include "db/store/background_thread.h"

#include "db/base/call_guard.h"

namespace ckptdb::internal {

absl::Status BackgroundThread::Start() {
  // The first sweep runs immediately and removes what the previous owner left
  // behind.
  requests_->Request();
  return CallGuarded("starting the sweep thread", [&] {
    const MutexLock lock(&mutex_);
    thread_ = std::thread([this] { Run(); });
  });
}

void BackgroundThread::Stop() {
  requests_->Stop();
  const MutexLock lock(&mutex_);
  // The thread does not take this mutex, so waiting for it here cannot
  // deadlock.
  if (thread_.joinable()) thread_.join();
}

void BackgroundThread::Run() {
  while (requests_->Wait()) {
    absl::Status status = CallGuarded("the background sweep", [&] {
      return sweeper_->Sweep(Sweeper::Depth::kQuick).status();
    });
    // Sweeps first, to free space that a fold may need.
    if (fold_) {
      status.Update(CallGuarded("the background fold", [&] {
        return folds_->FoldNewest([this] { return requests_->stopped(); });
      }));
    }
    // An error does not end the thread: the next request tries again, and
    // Store::sweep_status() returns it until then.
    sweeper_->SetStatus(status);
  }
}

}  // namespace ckptdb::internal
