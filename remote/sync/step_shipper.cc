// SPDX-License-Identifier: Apache-2.0
#include "remote/step_shipper.h"

#include <sys/resource.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <limits>
#include <map>
#include <optional>
#include <random>
#include <string>
#include <thread>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "db/base/call_guard.h"
#include "db/base/exit_task.h"
#include "db/base/mutex.h"
#include "db/reader.h"
#include "db/transfer/shipped_note.h"
#include "db/transfer/version_source.h"
#include "manager/policy/retention.h"
#include "remote/sync/collector.h"
#include "remote/sync/remote_retention.h"
#include "remote/sync/ship_note.h"
#include "remote/sync/shipper.h"
#include "schema/bytes/annotate.h"
#include "schema/status.h"

namespace ckptdb {

using internal::MutexLock;

class StepShipper::Impl : public internal::StepShipping {
 public:
  Impl(absl::string_view store, const ShipperOptions& options,
       std::function<void(const ShipReport& report)> report = {})
      : store_(store), options_(options), report_(std::move(report)) {
    push_options_.take_over = options_.take_over;
    push_options_.cancelled = [this] { return IsStopped(); };
    push_options_.on_step = [this](const Version& version) {
      NoteShipped(version);
    };
  }
  ~Impl() override {
    Stop();
    exit_task_.reset();
  }

  absl::Status Begin(const internal::OpenRemote& open) {
    RemoteOptions options = options_.remote;
    options.cancelled = [this] { return IsStopped(); };
    options.on_retry = [this](const absl::Status& error) { NoteRetry(error); };
    CKPTDB_ASSIGN_OR_RETURN(remote_, open(options));
    shipper_.emplace(remote_.get(), &push_options_);
    return internal::CallGuarded("StepShipper::Start", [&] {
      const MutexLock lock(&join_mutex_);
      thread_ = std::thread([this] { Run(); });
    });
  }

  void Stop() override {
    {
      const MutexLock lock(&mutex_);
      stopped_ = true;
      changed_.NotifyAll();
    }
    const MutexLock lock(&join_mutex_);
    if (thread_.joinable()) thread_.join();
  }
  absl::Status Stop(const std::function<absl::Status()>& poll) override;
  Statistics statistics() const override;
  bool HasShipped(const Version& version) const override {
    const MutexLock lock(&mutex_);
    return IsShipped(version);
  }
  absl::Status WaitShipped(const Version& version, absl::Time deadline,
                           const std::function<absl::Status()>& poll) override;
  absl::Status WaitShipped(int64_t step, absl::Time deadline);

 private:
  // What the object store polls.
  bool IsStopped() const {
    return stopped_ ||
           (options_.remote.cancelled && options_.remote.cancelled());
  }
  bool IsShipped(const Version& version) const
      ABSL_SHARED_LOCKS_REQUIRED(mutex_) {
    const auto found = shipped_.find(version.step);
    return found != shipped_.end() && found->second >= version.attempt;
  }
  // Asks for a look at once, and returns its number.
  uint64_t AskForLook() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    asked_ = true;
    changed_.NotifyAll();
    return looks_ + 1;
  }
  absl::Status NotInTime(int64_t step) const ABSL_SHARED_LOCKS_REQUIRED(mutex_);

  void Run();
  absl::Status Look();
  absl::Status Push();
  absl::Status Collect();
  void TakeNote();
  void WriteNote(const absl::Status& status);
  void Report(const std::vector<StepRecord>& steps,
              const PushResult& pushed) const;
  void Note(const absl::Status& status);
  void NoteBytes(uint64_t of_the_push) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void NoteRetry(const absl::Status& error);
  void NoteSuccess() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void NoteSteps(const std::vector<StepRecord>& steps);
  void NoteShipped(const Version& version);
  void NotePushed(const std::vector<StepRecord>& steps,
                  const PushResult& pushed);
  void Pause();

  const std::string store_;
  const ShipperOptions options_;
  const std::function<void(const ShipReport& report)> report_;
  PushOptions push_options_;
  std::unique_ptr<ObjectStore> remote_;
  // Used only by the background thread.
  std::optional<internal::Shipper> shipper_;
  std::unique_ptr<Reader> reader_;
  std::vector<StepRecord> pushed_;  // the steps of the last push
  uint64_t noted_bytes_ = 0;        // of the push in progress
  bool again_ = true;               // the last push did not ship all
  // The steps that it could not read, and why.
  std::vector<std::pair<int64_t, std::string>> skipped_;
  uint32_t last_attempt_ = 0;  // of the steps that were shipped
  std::string noted_;          // in the store's folder, without the time
  bool collect_ = false;       // steps were shipped since a collection
  internal::StepRecordCache records_;  // of the remote's steps
  absl::Time next_collection_ = absl::InfinitePast();
  std::minstd_rand random_{std::random_device{}()};

  std::atomic<bool> stopped_ = false;
  std::atomic<bool> ended_ = false;  // the thread need only be joined
  mutable internal::Mutex mutex_;
  internal::ConditionVariable changed_;
  bool asked_ ABSL_GUARDED_BY(mutex_) = false;
  uint64_t looks_ ABSL_GUARDED_BY(mutex_) = 0;  // that have begun
  uint64_t done_ ABSL_GUARDED_BY(mutex_) = 0;   // the last one that succeeded
  // The attempt of each step of the store that was shipped.
  std::map<int64_t, uint32_t> shipped_ ABSL_GUARDED_BY(mutex_);
  // When each step that waits was committed.
  std::map<int64_t, int64_t> waiting_ ABSL_GUARDED_BY(mutex_);
  Statistics statistics_ ABSL_GUARDED_BY(mutex_);
  internal::Mutex join_mutex_;
  std::thread thread_ ABSL_GUARDED_BY(join_mutex_);
  std::unique_ptr<internal::ExitTask> exit_task_;
};

namespace {

// Training and saves come first where processors are scarce. Linux sets it for
// the calling thread, and threads that this one starts inherit it. If it fails,
// shipping only takes a larger share.
void LowerPriority() {
  constexpr int kNice = 10;
  static_cast<void>(::setpriority(PRIO_PROCESS, 0, kNice));
}

}  // namespace

void StepShipper::Impl::Run() {
  LowerPriority();
  while (!IsStopped()) {
    {
      const MutexLock lock(&mutex_);
      ++looks_;
    }
    Note(internal::CallGuarded("StepShipper", [&] {
      absl::Status status = Look();
      WriteNote(status);
      return status;
    }));
    Pause();
  }
  const MutexLock lock(&mutex_);
  stopped_ = true;
  ended_ = true;
  changed_.NotifyAll();
}

// Opening a store takes far longer than a look at its MANIFEST, which shows
// whether something was committed.
absl::Status StepShipper::Impl::Look() {
  if (reader_ == nullptr) {
    StoreOptions options;
    options.leases = StoreOptions::LeaseMode::kNone;
    CKPTDB_ASSIGN_OR_RETURN(reader_, Reader::Open(store_, options));
    if (exit_task_ == nullptr) {
      exit_task_ = std::make_unique<internal::ExitTask>([this] { Stop(); });
    }
    TakeNote();
  } else if (absl::Status status = reader_->Refresh(); !status.ok()) {
    reader_.reset();
    return status;
  }
  const std::vector<StepRecord> steps = reader_->Steps();
  if (again_ || steps != pushed_) {
    NoteSteps(steps);
    again_ = true;
    CKPTDB_RETURN_IF_ERROR(Push());
  }
  // If it is stopped meanwhile, the steps are shipped nevertheless.
  absl::Status collected = Collect();
  if (!absl::IsCancelled(collected)) CKPTDB_RETURN_IF_ERROR(collected);
  if (skipped_.empty()) return absl::OkStatus();
  return absl::DataLossError(
      absl::StrCat("step ", skipped_[0].first, ": ", skipped_[0].second));
}

absl::Status StepShipper::Impl::Push() {
  CKPTDB_ASSIGN_OR_RETURN(const auto source,
                          internal::OpenVersionSource(store_));
  noted_bytes_ = 0;
  CKPTDB_ASSIGN_OR_RETURN(const PushResult result, shipper_->Push(*source));
  push_options_.take_over = false;
  pushed_ = reader_->Steps();
  again_ = !result.skipped.empty();
  skipped_ = result.skipped;
  const std::vector<StepRecord> steps = source->Steps();
  NotePushed(steps, result);
  for (const StepRecord& record : steps) {
    last_attempt_ = std::max(last_attempt_, record.version.attempt);
  }
  if (result.shipped.empty()) return absl::OkStatus();
  collect_ = true;
  Report(steps, result);
  return absl::OkStatus();
}

void StepShipper::Impl::Report(const std::vector<StepRecord>& steps,
                               const PushResult& pushed) const {
  if (options_.on_shipped) options_.on_shipped(pushed);
  if (!report_) return;
  ShipReport report;
  report.steps = pushed.shipped;
  report.data_files = pushed.data_files;
  report.data_bytes = pushed.data_bytes;
  for (const StepRecord& record : steps) {
    if (record.version.step != pushed.shipped.front()) continue;
    report.lag = std::max(
        absl::ZeroDuration(),
        absl::Now() - absl::FromUnixMicros(record.committed_at_micros));
  }
  report_(report);
}

absl::Status StepShipper::Impl::Collect() {
  const bool due = collect_ && absl::Now() >= next_collection_;
  if (!due || !options_.retention.has_value()) return absl::OkStatus();
  CollectOptions options;
  options.retention = options_.retention;
  options.grace = options_.grace;
  options.cancelled = push_options_.cancelled;
  CKPTDB_RETURN_IF_ERROR(internal::Collector(remote_.get(), &options, &records_)
                             .Collect()
                             .status());
  collect_ = false;
  next_collection_ = absl::Now() + options_.collect_every;
  return absl::OkStatus();
}

// Continues from the note of an earlier process, as the service may be down.
void StepShipper::Impl::TakeNote() {
  const auto note = ReadShipNote(store_);
  if (!note.ok() || !note->has_value()) return;  // it is written anew
  if ((*note)->url != remote_->Name()) return;
  last_attempt_ = std::max(last_attempt_, (*note)->last_attempt);
  for (const int64_t step : (*note)->skipped) {
    skipped_.emplace_back(step, "it was skipped by an earlier process");
  }
}

// Updates the note in the store's folder. A process that may write only leases
// there ships as well, but then `ckptdb ls` lacks the note.
void StepShipper::Impl::WriteNote(const absl::Status& status) {
  if (reader_ == nullptr || absl::IsCancelled(status)) return;
  ShipNote note;
  note.url = remote_->Name();
  note.last_attempt = last_attempt_;
  if (!status.ok()) note.error = status.ToString();
  for (const auto& [step, reason] : skipped_) note.skipped.push_back(step);
  const std::string text = internal::FormatShipNote(note);
  if (text == noted_) return;
  note.written_at_micros = absl::ToUnixMicros(absl::Now());
  const absl::Status written =
      internal::WriteShippedNote(store_, internal::FormatShipNote(note));
  if (written.ok()) noted_ = text;
}

void StepShipper::Impl::NoteSteps(const std::vector<StepRecord>& steps) {
  const MutexLock lock(&mutex_);
  waiting_.clear();
  for (const StepRecord& record : steps) {
    const bool skipped = std::any_of(
        skipped_.begin(), skipped_.end(),
        [&](const auto& each) { return each.first == record.version.step; });
    const bool noted = record.version.attempt <= last_attempt_ && !skipped;
    if (noted || IsShipped(record.version)) continue;
    waiting_[record.version.step] = record.committed_at_micros;
  }
}

void StepShipper::Impl::NoteShipped(const Version& version) {
  const MutexLock lock(&mutex_);
  shipped_[version.step] = version.attempt;
  waiting_.erase(version.step);
  ++statistics_.shipped_steps;
  statistics_.newest_shipped = version.step;
  NoteBytes(shipper_->data_bytes());
  NoteSuccess();
  changed_.NotifyAll();
}

// The remote has all steps of the push but those that were skipped.
void StepShipper::Impl::NotePushed(const std::vector<StepRecord>& steps,
                                   const PushResult& pushed) {
  const MutexLock lock(&mutex_);
  done_ = looks_;
  shipped_.clear();
  waiting_.clear();
  for (const StepRecord& record : steps) {
    const int64_t step = record.version.step;
    const bool skipped =
        std::any_of(pushed.skipped.begin(), pushed.skipped.end(),
                    [&](const auto& each) { return each.first == step; });
    if (skipped) {
      waiting_[step] = record.committed_at_micros;
    } else {
      shipped_[step] = record.version.attempt;
    }
  }
  NoteBytes(pushed.data_bytes);
  if (pushed.skipped.empty()) NoteSuccess();
  changed_.NotifyAll();
}

// Shows why an attempt takes long, before it fails at its deadline.
void StepShipper::Impl::NoteRetry(const absl::Status& error) {
  if (options_.remote.on_retry) options_.remote.on_retry(error);
  const MutexLock lock(&mutex_);
  statistics_.last_error = error;
}

// Adds what the push has uploaded since the last call.
void StepShipper::Impl::NoteBytes(uint64_t of_the_push) {
  statistics_.shipped_bytes += of_the_push - noted_bytes_;
  noted_bytes_ = of_the_push;
}

// Precedes the end of waits for a step, so that a caller whose wait has
// succeeded finds no earlier failure in the statistics.
void StepShipper::Impl::NoteSuccess() {
  statistics_.last_error = absl::OkStatus();
  statistics_.failures = 0;
}

void StepShipper::Impl::Note(const absl::Status& status) {
  const MutexLock lock(&mutex_);
  if (!status.ok()) {
    statistics_.last_error = status;
    ++statistics_.failures;
    return;
  }
  NoteSuccess();
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
  int64_t oldest = std::numeric_limits<int64_t>::max();
  for (const auto& [step, committed_at_micros] : waiting_) {
    now.waiting.push_back(step);
    oldest = std::min(oldest, committed_at_micros);
  }
  if (!waiting_.empty()) {
    now.lag = std::max(absl::ZeroDuration(),
                       absl::Now() - absl::FromUnixMicros(oldest));
  }
  return now;
}

absl::Status StepShipper::Impl::NotInTime(int64_t step) const {
  return absl::DeadlineExceededError(
      absl::StrCat("step ", step, " was not shipped in time",
                   statistics_.last_error.ok() ? "" : "; the last error: ",
                   statistics_.last_error.message()));
}

// The step may have been overwritten since the last look.
absl::Status StepShipper::Impl::WaitShipped(int64_t step, absl::Time deadline) {
  const MutexLock lock(&mutex_);
  const uint64_t wanted = AskForLook();
  while (done_ < wanted || !shipped_.contains(step)) {
    if (stopped_) return absl::CancelledError("the shipper was stopped");
    const auto until =
        absl::ToChronoTime(std::min(deadline, absl::Now() + absl::Hours(1)));
    changed_.WaitUntil(&mutex_, until);
    if (absl::Now() >= deadline) return NotInTime(step);
  }
  return absl::OkStatus();
}

// A look that begins after this call finds the version unless it was removed.
absl::Status StepShipper::Impl::WaitShipped(
    const Version& version, absl::Time deadline,
    const std::function<absl::Status()>& poll) {
  constexpr absl::Duration kPollEvery = absl::Milliseconds(100);
  const MutexLock lock(&mutex_);
  if (IsShipped(version)) return absl::OkStatus();
  const uint64_t wanted = AskForLook();
  while (!IsShipped(version)) {
    if (done_ >= wanted && !waiting_.contains(version.step)) {
      return absl::NotFoundError(absl::StrCat(
          "step ", version.step, " was removed before it was shipped"));
    }
    if (stopped_) return absl::CancelledError("the shipper was stopped");
    changed_.WaitUntil(&mutex_, absl::ToChronoTime(std::min(
                                    deadline, absl::Now() + kPollEvery)));
    if (IsShipped(version)) break;
    if (absl::Now() >= deadline) return NotInTime(version.step);
    mutex_.Unlock();
    const absl::Status polled = poll();
    mutex_.Lock();
    CKPTDB_RETURN_IF_ERROR(polled);
  }
  return absl::OkStatus();
}

absl::Status StepShipper::Impl::Stop(
    const std::function<absl::Status()>& poll) {
  constexpr absl::Duration kPollEvery = absl::Milliseconds(100);
  {
    const MutexLock lock(&mutex_);
    stopped_ = true;
    changed_.NotifyAll();
    while (!ended_) {
      changed_.WaitUntil(&mutex_, absl::ToChronoTime(absl::Now() + kPollEvery));
      if (ended_) break;
      mutex_.Unlock();
      const absl::Status polled = poll();
      mutex_.Lock();
      CKPTDB_RETURN_IF_ERROR(polled);
    }
  }
  Stop();
  return absl::OkStatus();
}

namespace {

absl::Status CheckShipperOptions(const ShipperOptions& options) {
  for (const auto& [name, value] :
       {std::pair("look", options.look),
        std::pair("first_retry", options.first_retry),
        std::pair("most_retry", options.most_retry)}) {
    if (value > absl::ZeroDuration()) continue;
    return absl::InvalidArgumentError(
        absl::StrCat("ShipperOptions::", name, " is ",
                     absl::FormatDuration(value), "; it must be above 0"));
  }
  for (const auto& [name, value] :
       {std::pair("grace", options.grace),
        std::pair("collect_every", options.collect_every)}) {
    if (value >= absl::ZeroDuration()) continue;
    return absl::InvalidArgumentError(
        absl::StrCat("ShipperOptions::", name, " is ",
                     absl::FormatDuration(value), "; it must be at least 0"));
  }
  if (!options.retention.has_value()) return absl::OkStatus();
  return internal::Annotate(internal::CheckRetention(*options.retention),
                            "ShipperOptions");
}

internal::OpenRemote OpensUrl(absl::string_view url) {
  return [url = std::string(url)](const RemoteOptions& options) {
    return OpenObjectStore(url, options);
  };
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
  CKPTDB_RETURN_IF_ERROR(CheckShipperOptions(options));
  auto impl = std::make_unique<Impl>(store, options);
  CKPTDB_RETURN_IF_ERROR(impl->Begin(OpensUrl(url)));
  return std::make_unique<StepShipper>(std::move(impl));
}

absl::StatusOr<std::unique_ptr<StepShipper>> internal::StartShipper(
    absl::string_view store, std::unique_ptr<ObjectStore> remote,
    const ShipperOptions& options) {
  CKPTDB_RETURN_IF_ERROR(CheckShipperOptions(options));
  auto impl = std::make_unique<StepShipper::Impl>(store, options);
  CKPTDB_RETURN_IF_ERROR(impl->Begin([&](const RemoteOptions& /*options*/) {
    return absl::StatusOr<std::unique_ptr<ObjectStore>>(std::move(remote));
  }));
  return std::make_unique<StepShipper>(std::move(impl));
}

internal::StartShipping internal::ShipWith(OpenRemote open,
                                           const ShipperOptions& options) {
  return [open = std::move(open), options](
             const std::string& path,
             std::function<void(const ShipReport& report)> on_shipped)
             -> absl::StatusOr<std::shared_ptr<StepShipping>> {
    CKPTDB_RETURN_IF_ERROR(CheckShipperOptions(options));
    auto impl = std::make_shared<StepShipper::Impl>(path, options,
                                                    std::move(on_shipped));
    CKPTDB_RETURN_IF_ERROR(impl->Begin(open));
    return impl;
  };
}

internal::StartShipping ShipTo(absl::string_view url,
                               const ShipperOptions& options) {
  return internal::ShipWith(OpensUrl(url), options);
}

}  // namespace ckptdb
