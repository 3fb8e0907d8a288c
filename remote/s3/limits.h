// SPDX-License-Identifier: Apache-2.0
// Limits that all connections of a store share; private to remote/s3.
#ifndef CKPTDB_REMOTE_S3_LIMITS_H_
#define CKPTDB_REMOTE_S3_LIMITS_H_

#include <cstdint>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "db/base/mutex.h"
#include "remote/s3/pause.h"

namespace ckptdb::internal::s3 {

// A token bucket of bytes. A transfer takes bytes after it has moved them, and
// moves no more until Delay() is zero. Thread-safe.
class ByteRate {
 public:
  // 0: no limit.
  explicit ByteRate(uint64_t bytes_per_second)
      : bytes_per_second_(bytes_per_second) {}

  bool limited() const { return bytes_per_second_ > 0; }
  void Take(uint64_t bytes);
  // Returns the time until the bytes taken so far are within the rate.
  SteadyClock::duration Delay() const;

 private:
  const uint64_t bytes_per_second_;
  mutable Mutex mutex_;
  SteadyClock::time_point paid_until_ ABSL_GUARDED_BY(mutex_) = {};
};

// Limits how many requests run at a time: to `most` at first. The limit halves
// when the service asks to slow down, and grows by one with each round of
// successes. Thread-safe.
class RequestLimit {
 public:
  explicit RequestLimit(int most);

  // Waits until another request may run. Returns an error of `poll`.
  absl::Status Enter(const Poll& poll);
  void Leave();

  void Succeeded();
  // `began`: when the request began that the service refused. Requests that
  // began before the last halving do not halve the limit again.
  void SlowDown(SteadyClock::time_point began);
  int limit() const;

 private:
  const double most_;
  mutable Mutex mutex_;
  ConditionVariable changed_;
  int running_ ABSL_GUARDED_BY(mutex_) = 0;
  double limit_ ABSL_GUARDED_BY(mutex_);
  SteadyClock::time_point halved_ ABSL_GUARDED_BY(mutex_) = {};
};

}  // namespace ckptdb::internal::s3

#endif  // CKPTDB_REMOTE_S3_LIMITS_H_
