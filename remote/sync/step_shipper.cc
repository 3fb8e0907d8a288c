// SPDX-License-Identifier: Apache-2.0
#include "remote/step_shipper.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <optional>
#include <random>
#include <set>
#include <thread>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "db/base/call_guard.h"
#include "db/base/exit_task.h"
#include "db/base/mutex.h"
#include "db/reader.h"
#include "db/transfer/version_source.h"
#include "remote/sync/shipper.h"
#include "schema/status.h"

namespace ckptdb {

using internal::MutexLock;

class StepShipper::Impl {
 public:
  Impl(absl::string_view store, const ShipperOptions& options)
      : store_(store), options_(options) {
    push_options_.take_over = options_.take_over;
    push_options_.cancelled = [this] { return IsStopped(); };
  }
  ~Impl() {
    Stop();
    exit_task_.reset();
  }

  void Stop() {
    {
      const MutexLock lock(&mutex_);
      stopped_ = true;
      changed_.NotifyAll();
    }
    const MutexLock lock(&join_mutex_);
    if (thread_.joinable()) thread_.join();
  }

  // What the object store polls.
  bool IsStopped() const {
    return stopped_ ||
           (options_.remote.cancelled && options_.remote.cancelled());
  }
  absl::Status Begin(std::unique_ptr<ObjectStore> remote) {
    remote_ = std::move(remote);
    shipper_.emplace(remote_.get(), &push_options_);
    return internal::CallGuarded("StepShipper::Start", [&] {
      const MutexLock lock(&join_mutex_);
      thread_ = std::thread([this] { Run(); });
    });
  }

  Statistics statistics() const;
  absl::Status WaitShipped(int64_t step, absl::Time deadline);

 private:
  void Run();
  absl::Status Look();
  absl::Status Push();
  void Note(const absl::Status& status);
  void NoteSteps(const std::vector<StepRecord>& steps);
  void Pause();

  const std::string store_;
  const ShipperOptions options_;
  PushOptions push_options_;
  std::unique_ptr<ObjectStore> remote_;
  // Used only by the background thread.
  std::optional<internal::Shipper> shipper_;
  std::unique_ptr<Reader> reader_;
  std::vector<StepRecord> pushed_;  // the steps of the last push
  bool again_ = true;               // the last push did not ship all
  std::minstd_rand random_{std::random_device{}()};

  std::atomic<bool> stopped_ = false;
  mutable internal::Mutex mutex_;
  internal::ConditionVariable changed_;
  bool asked_ ABSL_GUARDED_BY(mutex_) = false;
  uint64_t looks_ ABSL_GUARDED_BY(mutex_) = 0;  // that have begun
  uint64_t done_ ABSL_GUARDED_BY(mutex_) = 0;   // the last one that succeeded
  std::set<int64_t> shipped_ ABSL_GUARDED_BY(mutex_);
  int64_t oldest_micros_ ABSL_GUARDED_BY(mutex_) = 0;
  Statistics statistics_ ABSL_GUARDED_BY(mutex_);
  internal::Mutex join_mutex_;
  std::thread thread_ ABSL_GUARDED_BY(join_mutex_);
  std::unique_ptr<internal::ExitTask> exit_task_;
};

void StepShipper::Impl::Run() {
  while (!IsStopped()) {
    {
      const MutexLock lock(&mutex_);
      ++looks_;
    }
    Note(internal::CallGuarded("StepShipper", [&] { return Look(); }));
    Pause();
  }
  const MutexLock lock(&mutex_);
  stopped_ = true;
  changed_.NotifyAll();
}

// Opening a store takes far longer than a look at its MANIFEST, which tells
// that nothing was committed.
absl::Status StepShipper::Impl::Look() {
  if (reader_ == nullptr) {
    StoreOptions options;
    options.leases = StoreOptions::LeaseMode::kNone;
    CKPTDB_ASSIGN_OR_RETURN(reader_, Reader::Open(store_, options));
    if (exit_task_ == nullptr) {
      exit_task_ = std::make_unique<internal::ExitTask>([this] { Stop(); });
    }
  } else if (const absl::Status status = reader_->Refresh(); !status.ok()) {
    reader_.reset();
    return status;
  }
  const std::vector<StepRecord> steps = reader_->Steps();
  if (!again_ && steps == pushed_) return absl::OkStatus();
  NoteSteps(steps);
  again_ = true;
  return Push();
}

absl::Status StepShipper::Impl::Push() {
  CKPTDB_ASSIGN_OR_RETURN(const auto source,
                          internal::OpenVersionSource(store_));
  CKPTDB_ASSIGN_OR_RETURN(const PushResult result, shipper_->Push(*source));
  push_options_.take_over = false;
  pushed_ = reader_->Steps();
  again_ = !result.skipped.empty();
  {
    const MutexLock lock(&mutex_);
    done_ = looks_;
    shipped_.clear();
    for (const StepRecord& record : source->Steps()) {
      shipped_.insert(record.version.step);
    }
    for (const auto& [step, reason] : result.skipped) shipped_.erase(step);
    statistics_.waiting.clear();
    for (const auto& [step, reason] : result.skipped) {
      statistics_.waiting.push_back(step);
    }
    statistics_.shipped_steps += result.shipped.size();
    statistics_.shipped_bytes += result.data_bytes;
    if (!result.shipped.empty()) {
      statistics_.newest_shipped = result.shipped.back();
    }
    changed_.NotifyAll();
  }
  if (!result.shipped.empty() && options_.on_shipped) {
    options_.on_shipped(result);
  }
  if (result.skipped.empty()) return absl::OkStatus();
  return absl::DataLossError(absl::StrCat("step ", result.skipped[0].first,
                                          ": ", result.skipped[0].second));
}

void StepShipper::Impl::NoteSteps(const std::vector<StepRecord>& steps) {
  const MutexLock lock(&mutex_);
  statistics_.waiting.clear();
  oldest_micros_ = 0;
  for (const StepRecord& record : steps) {
    if (shipped_.contains(record.version.step)) continue;
    statistics_.waiting.push_back(record.version.step);
    if (oldest_micros_ == 0 || record.committed_at_micros < oldest_micros_) {
      oldest_micros_ = record.committed_at_micros;
    }
  }
}

void StepShipper::Impl::Note(const absl::Status& status) {
  const MutexLock lock(&mutex_);
  statistics_.last_error = status;
  statistics_.failures = status.ok() ? 0 : statistics_.failures + 1;
  if (!status.ok()) return;
  done_ = looks_;
  changed_.NotifyAll();
}

// Waits for the next look, or after errors for the next attempt.
void StepShipper::Impl::Pause() {
  const MutexLock lock(&mutex_);
  absl::Duration pause = options_.look;
  if (statistics_.failures > 0) {
    constexpr uint64_t kMostDoublings = 20;
    const auto doubled =
        options_.first_retry *
        static_cast<double>(
            uint64_t{1} << std::min(statistics_.failures - 1, kMostDoublings));
    std::uniform_real_distribution<double> jitter(0.5, 1);
    pause = std::min(options_.most_retry, doubled) * jitter(random_);
  }
  const auto until =
      std::chrono::steady_clock::now() + absl::ToChronoNanoseconds(pause);
  while (!stopped_ && !asked_ && changed_.WaitUntil(&mutex_, until)) {
  }
  asked_ = false;
}

StepShipper::Statistics StepShipper::Impl::statistics() const {
  const MutexLock lock(&mutex_);
  Statistics now = statistics_;
  if (!now.waiting.empty()) {
    now.lag = std::max(absl::ZeroDuration(),
                       absl::Now() - absl::FromUnixMicros(oldest_micros_));
  }
  return now;
}

// Asks for a look at once: the step may have been overwritten since the last.
absl::Status StepShipper::Impl::WaitShipped(int64_t step, absl::Time deadline) {
  const MutexLock lock(&mutex_);
  const uint64_t wanted = looks_ + 1;
  asked_ = true;
  changed_.NotifyAll();
  while (done_ < wanted || !shipped_.contains(step)) {
    if (stopped_) return absl::CancelledError("the shipper was stopped");
    const auto until =
        absl::ToChronoTime(std::min(deadline, absl::Now() + absl::Hours(1)));
    changed_.WaitUntil(&mutex_, until);
    if (absl::Now() < deadline) continue;
    return absl::DeadlineExceededError(
        absl::StrCat("step ", step, " was not shipped in time",
                     statistics_.last_error.ok() ? "" : "; the last error: ",
                     statistics_.last_error.message()));
  }
  return absl::OkStatus();
}

namespace {

absl::Status CheckDurations(const ShipperOptions& options) {
  for (const auto& [name, value] :
       {std::pair("look", options.look),
        std::pair("first_retry", options.first_retry),
        std::pair("most_retry", options.most_retry)}) {
    if (value > absl::ZeroDuration()) continue;
    return absl::InvalidArgumentError(
        absl::StrCat("ShipperOptions::", name, " is ",
                     absl::FormatDuration(value), "; it must be above 0"));
  }
  return absl::OkStatus();
}

}  // namespace

StepShipper::StepShipper(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
StepShipper::~StepShipper() = default;

StepShipper::Statistics StepShipper::statistics() const {
  return impl_->statistics();
}

absl::Status StepShipper::WaitShipped(int64_t step, absl::Time deadline) {
  return impl_->WaitShipped(step, deadline);
}

absl::StatusOr<std::unique_ptr<StepShipper>> StepShipper::Start(
    absl::string_view store, absl::string_view url,
    const ShipperOptions& options) {
  CKPTDB_RETURN_IF_ERROR(CheckDurations(options));
  auto impl = std::make_unique<Impl>(store, options);
  RemoteOptions remote_options = options.remote;
  remote_options.cancelled = [raw = impl.get()] { return raw->IsStopped(); };
  CKPTDB_ASSIGN_OR_RETURN(auto remote, OpenObjectStore(url, remote_options));
  CKPTDB_RETURN_IF_ERROR(impl->Begin(std::move(remote)));
  return std::make_unique<StepShipper>(std::move(impl));
}

absl::StatusOr<std::unique_ptr<StepShipper>> internal::StartShipper(
    absl::string_view store, std::unique_ptr<ObjectStore> remote,
    const ShipperOptions& options) {
  CKPTDB_RETURN_IF_ERROR(CheckDurations(options));
  auto impl = std::make_unique<StepShipper::Impl>(store, options);
  CKPTDB_RETURN_IF_ERROR(impl->Begin(std::move(remote)));
  return std::make_unique<StepShipper>(std::move(impl));
}

}  // namespace ckptdb
