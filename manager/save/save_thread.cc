#include "ckptdb/manager/save/save_thread.h"

#include <utility>

namespace ckptdb::internal {

void SaveThread::Run(std::function<void()> work) {
  if (!thread_.joinable()) thread_ = std::thread([this] { Serve(); });
  const std::lock_guard<std::mutex> lock(mutex_);
  work_ = std::move(work);
  changed_.notify_all();
}

bool SaveThread::IsCurrent() const {
  return thread_.get_id() == std::this_thread::get_id();
}

void SaveThread::Wait() {
  if (IsCurrent()) return;
  std::unique_lock<std::mutex> lock(mutex_);
  changed_.wait(lock, [this] { return work_ == nullptr; });
}

void SaveThread::Stop() {
  if (!thread_.joinable()) return;
  if (IsCurrent()) return thread_.detach();
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    stopping_ = true;
    changed_.notify_all();
  }
  thread_.join();
  stopping_ = false;
}

void SaveThread::Serve() {
  std::unique_lock<std::mutex> lock(mutex_);
  while (true) {
    changed_.wait(lock, [this] { return work_ != nullptr || stopping_; });
    if (work_ == nullptr) return;
    lock.unlock();
    work_();
    lock.lock();
    work_ = nullptr;
    changed_.notify_all();
  }
}

}  // namespace ckptdb::internal
