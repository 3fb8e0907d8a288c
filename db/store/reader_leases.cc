// SPDX-License-Identifier: Apache-2.0
#include "db/store/reader_leases.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "db/base/call_guard.h"
#include "db/base/uuid.h"
#include "schema/status.h"

namespace ckptdb::internal {
namespace {

// An owner that runs as another user must be able to read leases, whatever the
// umask.
constexpr uint32_t kLeaseFolderMode = 0755;
constexpr uint32_t kLeaseMode = 0644;

}  // namespace

ReaderLeases::ReaderLeases(std::string store, const StoreOptions& options,
                           std::shared_ptr<Environment> environment)
    : store_(std::move(store)),
      mode_(options.leases),
      lease_ms_(options.lease_ms),
      environment_(std::move(environment)),
      files_(std::make_shared<GuardedFileSystem>(
          environment_->file_system(),
          FileModes{kLeaseFolderMode, kLeaseMode, environment_->on_disk()})) {}

ReaderLeases::~ReaderLeases() {
  exit_task_.reset();
  StopRenewing();
}

void ReaderLeases::StopAtExit() {
  exit_task_ = std::make_unique<ExitTask>([this] { StopRenewing(); });
}

absl::StatusOr<ReaderLeases::Taken> ReaderLeases::Take(
    int64_t step, const std::vector<Version>& versions) {
  if (mode_ == StoreOptions::LeaseMode::kNone) return Taken();
  Lease lease;
  lease.uuid = NewUuid();
  lease.step = step;
  lease.versions = versions;
  lease.expires_at_micros = NextExpiry();
  const absl::Status written = WriteLease(files_.get(), store_, lease);
  // If a full disk or missing permissions prevent a lease, the options may
  // permit reading without one. Any other error is returned.
  const bool impossible =
      absl::IsPermissionDenied(written) || absl::IsResourceExhausted(written);
  if (impossible && mode_ == StoreOptions::LeaseMode::kWherePossible) {
    return Taken{nullptr, written};
  }
  if (!written.ok()) {
    return absl::PermissionDeniedError(absl::StrCat(
        "cannot lease step ", lease.step, ": ", written.message()));
  }
  const std::string uuid = lease.uuid;
  // Drops the lease even if a later statement fails. Points at this object,
  // because callers take a null pointer for a missing lease.
  std::shared_ptr<void> taken(this, [this, uuid](void*) { Drop(uuid); });
  const MutexLock lock(&mutex_);
  // The lease is written before it is listed, because the thread renews only
  // files that exist.
  leases_[uuid] = std::move(lease);
  CKPTDB_RETURN_IF_ERROR(StartRenewing());
  return Taken{std::move(taken), absl::OkStatus()};
}

// The first lease starts the thread, so that a reader that only lists steps has
// none.
absl::Status ReaderLeases::StartRenewing() {
  if (renewer_.joinable() || stop_) return absl::OkStatus();
  std::thread renewer;
  CKPTDB_RETURN_IF_ERROR(CallGuarded("starting the lease renewal thread", [&] {
    renewer = std::thread([this] { Renew(); });
  }));
  renewer_ = std::move(renewer);
  return absl::OkStatus();
}

void ReaderLeases::StopRenewing() {
  std::thread renewer;
  {
    const MutexLock lock(&mutex_);
    stop_ = true;
    renewer = std::move(renewer_);
  }
  wakes_.NotifyAll();
  if (renewer.joinable()) renewer.join();
}

void ReaderLeases::Renew() {
  // Each lease is renewed three times within its duration, so it survives two
  // failed renewals.
  const std::chrono::milliseconds pause(std::max<int64_t>(lease_ms_ / 3, 1));
  const MutexLock lock(&mutex_);
  while (WaitToRenew(pause)) {
    for (auto& [uuid, lease] : leases_) {
      // After an error or exception the next iteration tries again, twice
      // before the lease ends.
      CallGuarded("renewing a lease", [&, &renewed = lease] {
        renewed.expires_at_micros = NextExpiry();
        return WriteLease(files_.get(), store_, renewed);
      }).IgnoreError();
    }
  }
}

bool ReaderLeases::WaitToRenew(std::chrono::milliseconds pause) {
  const auto deadline = std::chrono::steady_clock::now() + pause;
  while (!stop_ && wakes_.WaitUntil(&mutex_, deadline)) {
  }
  return !stop_;
}

void ReaderLeases::Drop(const std::string& uuid) {
  const MutexLock lock(&mutex_);
  // The mutex is held over the removal. A later renewal would write the file
  // again, and the lease would stay until it expires.
  leases_.erase(uuid);
  // A lease that cannot be removed expires.
  RemoveLease(files_.get(), store_, uuid).IgnoreError();
}

absl::StatusOr<std::vector<int64_t>> ReaderLeases::EndsFor(
    const Version& version) const {
  CKPTDB_ASSIGN_OR_RETURN(
      const std::vector<Lease> leases,
      ReadLeases(files_.get(), store_, environment_->NowMicros(),
                 /*remove_expired=*/false));
  std::vector<int64_t> ends;
  for (const Lease& lease : leases) {
    const auto& held = lease.versions;
    if (std::find(held.begin(), held.end(), version) == held.end()) continue;
    ends.push_back(lease.expires_at_micros);
  }
  std::sort(ends.begin(), ends.end());
  return ends;
}

int64_t ReaderLeases::NextExpiry() const {
  return environment_->NowMicros() + lease_ms_ * 1000;
}

}  // namespace ckptdb::internal
