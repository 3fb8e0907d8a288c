// SPDX-License-Identifier: Apache-2.0
#include "manager/save/save_thread.h"

#include <utility>

namespace ckptdb::internal {

void SaveThread::Run(std::function<void()> work) {
  // Starts the thread first: if that fails, no work is left behind.
  if (!thread_.joinable()) thread_ = std::thread([this] { Serve(); });
  const MutexLock lock(&mutex_);
  work_ = std::move(work);
  changed_.NotifyAll();
}

// Returns whether the caller is the work itself, which has called exit() and
// must not wait for itself.
bool SaveThread::IsCurrent() const {
  return thread_.get_id() == std::this_thread::get_id();
}

void SaveThread::Wait() {
  if (IsCurrent()) return;
  const MutexLock lock(&mutex_);
  while (work_ != nullptr) changed_.Wait(&mutex_);
}

bool SaveThread::WaitFor(std::chrono::milliseconds time) {
  if (IsCurrent()) return true;
  const auto end = std::chrono::steady_clock::now() + time;
  const MutexLock lock(&mutex_);
  while (work_ != nullptr && changed_.WaitUntil(&mutex_, end)) {
  }
  return work_ == nullptr;
}

void SaveThread::Stop() {
  if (!thread_.joinable()) return;
  // The process is exiting, and the thread with it.
  if (IsCurrent()) return thread_.detach();
  {
    const MutexLock lock(&mutex_);
    stopping_ = true;
    changed_.NotifyAll();
  }
  thread_.join();
  const MutexLock lock(&mutex_);
  stopping_ = false;
}

std::function<void()> SaveThread::AwaitWork() {
  const MutexLock lock(&mutex_);
  while (work_ == nullptr && !stopping_) changed_.Wait(&mutex_);
  return work_;
}

void SaveThread::Serve() {
  while (const std::function<void()> work = AwaitWork()) {
    work();
    const MutexLock lock(&mutex_);
    // Reset only now, because Wait treats it as the end of the work.
    work_ = nullptr;
    changed_.NotifyAll();
  }
}

}  // namespace ckptdb::internal
