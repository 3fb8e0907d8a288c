// SPDX-License-Identifier: Apache-2.0
#include "db/rocks/owner_lock.h"

#include <unistd.h>

#include <array>
#include <climits>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/cord.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "db/base/paths.h"
#include "db/base/uuid.h"
#include "db/disk/files.h"
#include "db/disk/rocks_status.h"
#include "db/options.h"
#include "schema/status.h"

namespace ckptdb::internal {
namespace {

std::string HostName() {
  std::array<char, HOST_NAME_MAX + 1> name{};
  if (gethostname(name.data(), name.size() - 1) != 0) return "unknown";
  return name.data();
}

std::string OwnerPath(absl::string_view store) {
  return absl::StrCat(store, "/OWNER");
}

// The first line is for humans; the second one is this owner's unique id.
std::string NewNote() {
  return absl::StrCat("pid ", getpid(), " on host ", HostName(), "\n",
                      NewUuid(), "\n");
}

absl::string_view NameOf(absl::string_view note) {
  return note.substr(0, note.find('\n'));
}

// Tries RocksDB's own lock, which an owner also holds. If LOCK was removed by
// hand while an owner runs, this keeps an open that will fail anyway from
// fencing that owner off.
rocksdb::IOStatus TryDatabaseLock(rocksdb::FileSystem* files,
                                  const std::string& store) {
  const std::string path = DatabasePath(store) + "/LOCK";
  const rocksdb::IOOptions io;
  if (!files->FileExists(path, io, nullptr).ok()) {
    return rocksdb::IOStatus::OK();
  }
  rocksdb::FileLock* lock = nullptr;
  rocksdb::IOStatus status = files->LockFile(path, io, &lock, nullptr);
  return status.ok() ? files->UnlockFile(lock, io, nullptr) : status;
}

// The file next to the lock names its holder.
absl::Status LockError(rocksdb::FileSystem* files, const std::string& store,
                       const rocksdb::IOStatus& status) {
  const absl::StatusOr<std::string> note = ReadFile(files, OwnerPath(store));
  const absl::string_view who = note.ok() ? NameOf(*note) : "unknown";
  const std::string text =
      absl::StrCat("\"", store, "\" cannot be locked for writing");
  if (!status.IsBusy()) return FromRocks(status, text);
  absl::Status held = absl::UnavailableError(
      absl::StrCat(text, "; its owner is ", who, " (", status.ToString(),
                   "); close it there first, or read the store with Reader"));
  held.SetPayload(kHolderPayload, absl::Cord(who));
  return held;
}

}  // namespace

absl::StatusOr<std::shared_ptr<OwnerLock>> OwnerLock::Acquire(
    const std::shared_ptr<rocksdb::FileSystem>& files,
    const std::string& store) {
  rocksdb::FileLock* lock = nullptr;
  const rocksdb::IOStatus status =
      files->LockFile(store + "/LOCK", rocksdb::IOOptions(), &lock, nullptr);
  if (!status.ok()) return LockError(files.get(), store, status);
  // From here on the destructor releases the lock.
  std::shared_ptr<OwnerLock> owner(new OwnerLock(files, store, lock));
  const rocksdb::IOStatus unused = TryDatabaseLock(files.get(), store);
  if (!unused.ok()) return LockError(files.get(), store, unused);
  return owner;
}

absl::Status OwnerLock::Announce() {
  // OWNER is not synced: after a crash of this machine, no owner remains that
  // would have to be fenced off.
  return ReplaceFile(files_.get(), OwnerPath(store_), note_, /*sync=*/false);
}

OwnerLock::OwnerLock(std::shared_ptr<rocksdb::FileSystem> files,
                     std::string store, rocksdb::FileLock* lock)
    : files_(std::move(files)),
      store_(std::move(store)),
      note_(NewNote()),
      lock_(lock),
      manifest_(files_, store_) {}

absl::Status OwnerLock::Check() const {
  const MutexLock lock(&mutex_);
  CKPTDB_RETURN_IF_ERROR(lost_);
  if (given_up_) return absl::FailedPreconditionError("the store was closed");
  // Examined before OWNER, because another owner announces itself before it
  // removes this one's MANIFEST.
  absl::Status manifest = manifest_.Check();
  const absl::StatusOr<std::string> note =
      ReadFile(files_.get(), OwnerPath(store_));
  // If OWNER was removed by hand, no other owner has taken over.
  if (!absl::IsNotFound(note.status())) CKPTDB_RETURN_IF_ERROR(note.status());
  if (!note.ok() || *note == note_) {
    if (absl::IsFailedPrecondition(manifest)) lost_ = manifest;
    return manifest;
  }
  // The error is kept, so that an owner that was superseded never writes again,
  // even if OWNER is removed later.
  superseded_ = true;
  lost_ = absl::FailedPreconditionError(
      absl::StrCat("\"", store_, "\" was taken over by another owner, ",
                   NameOf(*note), "; this owner, ", NameOf(note_),
                   ", can no longer write; open the store again"));
  return lost_;
}

absl::Status OwnerLock::CheckFiles() const {
  const absl::Status status = Check();
  const MutexLock lock(&mutex_);
  if (lost_.ok() || superseded_) return absl::OkStatus();
  return absl::DataLossError(status.message());
}

void OwnerLock::GiveUp() const {
  const MutexLock lock(&mutex_);
  given_up_ = true;
}

void OwnerLock::Release() {
  if (lock_ == nullptr) return;
  // The kernel releases it when the process ends at the latest.
  files_->UnlockFile(lock_, rocksdb::IOOptions(), nullptr)
      .PermitUncheckedError();
  lock_ = nullptr;
}

OwnerLock::~OwnerLock() { Release(); }

}  // namespace ckptdb::internal
