// SPDX-License-Identifier: Apache-2.0
// A mutex and a condition variable that clang's thread-safety analysis follows
// (ABSL_GUARDED_BY and the like; tools/check.sh runs it):
//
//   internal::Mutex mutex_;
//   int64_t count_ ABSL_GUARDED_BY(mutex_) = 0;
//
//   const internal::MutexLock lock(&mutex_);
//   ++count_;
//
// They wrap the standard library's, which ThreadSanitizer understands.
// absl::Mutex is annotated, too, but distributions build libabsl without the
// sanitizer, which then reports each access that such a mutex guards.
#ifndef CKPTDB_DB_BASE_MUTEX_H_
#define CKPTDB_DB_BASE_MUTEX_H_

#include <chrono>
#include <condition_variable>
#include <mutex>

#include "absl/base/thread_annotations.h"

namespace ckptdb::internal {

class ABSL_LOCKABLE Mutex {
 public:
  Mutex() = default;
  Mutex(const Mutex&) = delete;
  Mutex& operator=(const Mutex&) = delete;

  void Lock() ABSL_EXCLUSIVE_LOCK_FUNCTION() { mutex_.lock(); }
  void Unlock() ABSL_UNLOCK_FUNCTION() { mutex_.unlock(); }
  // Returns whether the mutex was acquired.
  [[nodiscard]] bool TryLock() ABSL_EXCLUSIVE_TRYLOCK_FUNCTION(true) {
    return mutex_.try_lock();
  }
  // Asserts to the analysis that the mutex is held where it cannot see that.
  // Does nothing.
  void AssertHeld() const ABSL_ASSERT_EXCLUSIVE_LOCK() {}

 private:
  friend class ConditionVariable;
  std::mutex mutex_;
};

// Holds a mutex during its lifetime.
class ABSL_SCOPED_LOCKABLE MutexLock {
 public:
  explicit MutexLock(Mutex* mutex) ABSL_EXCLUSIVE_LOCK_FUNCTION(mutex)
      : mutex_(mutex) {
    mutex_->Lock();
  }
  // Adopts a mutex that the calling thread acquired with TryLock.
  MutexLock(Mutex* mutex, std::adopt_lock_t)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex)
      : mutex_(mutex) {}
  ~MutexLock() ABSL_UNLOCK_FUNCTION() { mutex_->Unlock(); }
  MutexLock(const MutexLock&) = delete;
  MutexLock& operator=(const MutexLock&) = delete;

 private:
  Mutex* const mutex_;
};

// Every wait may wake up spuriously, so call it in a loop that checks the
// condition: the analysis does not look into a predicate.
class ConditionVariable {
 public:
  void NotifyOne() { condition_.notify_one(); }
  void NotifyAll() { condition_.notify_all(); }

  // Releases the mutex while waiting, and reacquires it before returning.
  void Wait(Mutex* mutex) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex) {
    std::unique_lock<std::mutex> lock(mutex->mutex_, std::adopt_lock);
    condition_.wait(lock);
    lock.release();
  }
  // The same, until a deadline. Returns false once the deadline has passed.
  template <typename Clock, typename Duration>
  bool WaitUntil(Mutex* mutex,
                 const std::chrono::time_point<Clock, Duration>& deadline)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex) {
    std::unique_lock<std::mutex> lock(mutex->mutex_, std::adopt_lock);
    const std::cv_status status = condition_.wait_until(lock, deadline);
    lock.release();
    return status == std::cv_status::no_timeout;
  }

 private:
  std::condition_variable condition_;
};

}  // namespace ckptdb::internal

#endif  // CKPTDB_DB_BASE_MUTEX_H_
