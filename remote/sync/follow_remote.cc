// SPDX-License-Identifier: Apache-2.0
#include "remote/follow_remote.h"

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <random>
#include <string>

#include "absl/strings/str_cat.h"
#include "db/base/call_guard.h"
#include "db/base/mutex.h"
#include "remote/sync/catalog_log.h"
#include "schema/status.h"

namespace ckptdb {
namespace internal {
namespace {

// Returns whether the error would be the same after a wait.
bool IsFinal(const absl::Status& status) {
  return absl::IsInvalidArgument(status) || absl::IsAlreadyExists(status) ||
         absl::IsFailedPrecondition(status);
}

absl::Status CheckPositive(absl::string_view option, absl::Duration duration) {
  if (duration > absl::ZeroDuration()) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("FollowOptions::", option, " is ",
                   absl::FormatDuration(duration), "; it must be positive"));
}

class RemoteFollower {
 public:
  RemoteFollower(ObjectStore* remote, absl::string_view to,
                 const FollowOptions& options)
      : remote_(remote), to_(to), options_(options) {
    options_.fetch.update = true;
  }

  absl::Status Run() {
    while (!IsStopped()) {
      absl::Status status = Look();
      if (IsStopped()) break;
      if (IsFinal(status)) return status;
      Note(status);
      Pause();
    }
    return absl::OkStatus();
  }

 private:
  bool IsStopped() const {
    return options_.fetch.cancelled && options_.fetch.cancelled();
  }

  absl::Status Look() {
    CKPTDB_ASSIGN_OR_RETURN(const std::string key, NewestCatalogKey(remote_));
    if (!key.empty() && key == seen_) return absl::OkStatus();
    CKPTDB_ASSIGN_OR_RETURN(const FetchResult fetched,
                            FetchStore(remote_, to_, options_.fetch));
    seen_ = key;
    const bool news = !fetched.steps.empty() || !fetched.revised.empty() ||
                      !fetched.removed.empty();
    if (news && options_.on_fetched) options_.on_fetched(fetched);
    return absl::OkStatus();
  }

  void Note(const absl::Status& status) {
    failures_ = status.ok() ? 0 : failures_ + 1;
    if (status == last_) return;
    last_ = status;
    if (options_.on_status) options_.on_status(status);
  }

  void Pause() {
    absl::Duration pause = options_.look;
    if (failures_ > 0) {
      constexpr uint64_t kMostDoublings = 20;
      const auto times = static_cast<double>(
          uint64_t{1} << std::min(failures_ - 1, kMostDoublings));
      std::uniform_real_distribution<double> jitter(0.5, 1);
      pause = std::min(options_.most_retry, options_.first_retry * times) *
              jitter(random_);
    }
    const auto end =
        std::chrono::steady_clock::now() + absl::ToChronoNanoseconds(pause);
    // `never` is not notified: `cancelled` is polled.
    constexpr auto kPoll = std::chrono::milliseconds(20);
    Mutex mutex;
    ConditionVariable never;
    const MutexLock lock(&mutex);
    while (!IsStopped() && std::chrono::steady_clock::now() < end) {
      never.WaitUntil(&mutex,
                      std::min(end, std::chrono::steady_clock::now() + kPoll));
    }
  }

  ObjectStore* const remote_;
  const std::string to_;
  FollowOptions options_;
  std::string seen_;  // key of the newest catalog that was fetched from
  absl::Status last_;
  uint64_t failures_ = 0;
  std::minstd_rand random_{std::random_device{}()};
};

}  // namespace
}  // namespace internal

absl::Status FollowRemote(ObjectStore* remote, absl::string_view to,
                          const FollowOptions& options) {
  return internal::CallGuarded("FollowRemote", [&]() -> absl::Status {
    CKPTDB_RETURN_IF_ERROR(internal::CheckPositive("look", options.look));
    CKPTDB_RETURN_IF_ERROR(
        internal::CheckPositive("first_retry", options.first_retry));
    CKPTDB_RETURN_IF_ERROR(
        internal::CheckPositive("most_retry", options.most_retry));
    return internal::RemoteFollower(remote, to, options).Run();
  });
}

}  // namespace ckptdb
