#include "ckptdb/db/store/background_thread.h"

#include "ckptdb/db/base/call_guard.h"

namespace ckptdb::internal {

absl::Status BackgroundThread::Start() {
  requests_->Request();
  return CallGuarded("starting the thread that sweeps", [&] {
    const MutexLock lock(&mutex_);
    thread_ = std::thread([this] { Run(); });
  });
}

void BackgroundThread::Stop() {
  requests_->Stop();
  const MutexLock lock(&mutex_);
  if (thread_.joinable()) thread_.join();
}

void BackgroundThread::Run() {
  while (requests_->Wait()) {
    absl::Status status = CallGuarded("the background sweep", [&] {
      return sweeper_->Sweep(Sweeper::Depth::kQuick).status();
    });
    if (fold_) {
      status.Update(CallGuarded("the background fold", [&] {
        return folds_->FoldNewest([this] { return requests_->stopped(); });
      }));
    }
    sweeper_->SetStatus(status);
  }
}

}  // namespace ckptdb::internal
