#include "ckptdb/db/owner_lock.h"

#include <unistd.h>

#include <array>
#include <climits>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "ckptdb/db/files.h"
#include "ckptdb/db/rocks_status.h"
#include "ckptdb/schema/status.h"

namespace ckptdb::internal {
namespace {

std::string HostName() {
  std::array<char, HOST_NAME_MAX + 1> name{};
  if (gethostname(name.data(), name.size() - 1) != 0) return "unknown";
  return name.data();
}

}  // namespace

absl::StatusOr<std::unique_ptr<OwnerLock>> OwnerLock::Acquire(
    const std::shared_ptr<rocksdb::FileSystem>& files,
    const std::string& store) {
  const std::string holder = store + "/OWNER";
  rocksdb::FileLock* lock = nullptr;
  const rocksdb::IOStatus status =
      files->LockFile(store + "/LOCK", rocksdb::IOOptions(), &lock, nullptr);
  if (!status.ok()) {
    // Locked by another, or no lock to be had: who holds it, if anyone, is in
    // the file beside it.
    const absl::StatusOr<std::string> who = ReadFile(files.get(), holder);
    const absl::Status refused = FromRocks(status, "locking");
    return absl::Status(
        absl::IsPermissionDenied(refused) ? refused.code()
                                          : absl::StatusCode::kUnavailable,
        absl::StrCat(
            "\"", store, "\" cannot be locked for writing; its owner is ",
            who.ok() ? absl::StripTrailingAsciiWhitespace(*who) : "unknown",
            " (", status.ToString(), ")"));
  }
  std::unique_ptr<OwnerLock> owner(new OwnerLock(files, lock));
  CKPTDB_RETURN_IF_ERROR(
      ReplaceFile(files.get(), holder,
                  absl::StrCat("pid ", getpid(), " on host ", HostName(), "\n"),
                  /*sync=*/false));
  return owner;
}

OwnerLock::OwnerLock(std::shared_ptr<rocksdb::FileSystem> files,
                     rocksdb::FileLock* lock)
    : files_(std::move(files)), lock_(lock) {}

OwnerLock::~OwnerLock() {
  // The kernel lets go of it with the process at the latest.
  files_->UnlockFile(lock_, rocksdb::IOOptions(), nullptr)
      .PermitUncheckedError();
}

}  // namespace ckptdb::internal
