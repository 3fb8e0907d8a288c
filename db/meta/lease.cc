// SPDX-License-Identifier: Apache-2.0
#include "db/meta/lease.h"

#include <algorithm>
#include <cstdint>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "db/base/paths.h"
#include "db/disk/files.h"
#include "db/disk/rocks_status.h"
#include "db/options.h"
#include "db/rocks/database.h"
#include "schema/records/records.h"
#include "schema/status.h"

namespace ckptdb::internal {
namespace {

std::string LeasePath(const std::string& store, const std::string& uuid) {
  return absl::StrCat(LeasesPath(store), "/", uuid);
}

// The use of an entry of the folder.
enum class Use {
  kHolds,    // a valid lease
  kNothing,  // stays, and is not reported
  kRemoved,  // holds nothing, and may be removed
  kForeign,  // does not belong to the store
};

// A temporary file is a lease being written, or an abandoned one.
Use UseOfTemporary(const Entry& entry, int64_t now_micros) {
  return IsAbandoned(entry, now_micros) ? Use::kRemoved : Use::kNothing;
}

constexpr int64_t kLongestMicros = (kMaxLeaseMs + kMaxClockSkewMs) * 1000;

// Clamped so that the product does not overflow for any file time.
int64_t WrittenMicros(const Entry& entry) {
  constexpr int64_t kMicros = 1'000'000;
  return std::min(entry.modified_s, INT64_MAX / kMicros / 2) * kMicros;
}

// Returns whether a lease holds. A lease that would outlast every valid lease,
// counted from its file's time or from now, comes from a wrong clock.
bool Lasts(const Lease& lease, const Entry& entry, int64_t now_micros) {
  const int64_t latest = std::max(WrittenMicros(entry), now_micros);
  return lease.expires_at_micros > now_micros &&
         lease.expires_at_micros - kLongestMicros <= latest;
}

absl::StatusOr<Use> UseOfLease(rocksdb::FileSystem* files,
                               const std::string& path, const Entry& entry,
                               int64_t now_micros, Lease* lease) {
  if (entry.kind != EntryKind::kFile) return Use::kRemoved;
  const absl::StatusOr<std::string> bytes = ReadFile(files, path);
  if (absl::IsNotFound(bytes.status())) return Use::kNothing;
  // Larger than any valid lease.
  if (absl::IsFailedPrecondition(bytes.status())) return Use::kRemoved;
  // Whatever it holds, it has not been renewed for longer than any lease lasts.
  if (absl::IsPermissionDenied(bytes.status()) &&
      now_micros - kLongestMicros > WrittenMicros(entry)) {
    return Use::kRemoved;
  }
  CKPTDB_RETURN_IF_ERROR(bytes.status());
  // Leases are renamed into place, so a file that does not decode is not a
  // lease that is being written.
  absl::StatusOr<Lease> decoded = DecodeLease(*bytes);
  if (!decoded.ok() || !Lasts(*decoded, entry, now_micros)) {
    return Use::kRemoved;
  }
  *lease = *std::move(decoded);
  return Use::kHolds;
}

absl::StatusOr<Use> UseOf(rocksdb::FileSystem* files, const std::string& path,
                          absl::string_view name, int64_t now_micros,
                          Lease* lease) {
  const absl::StatusOr<Entry> entry = LookAt(files, path);
  if (absl::IsNotFound(entry.status())) return Use::kNothing;
  CKPTDB_RETURN_IF_ERROR(entry.status());
  if (entry->kind == EntryKind::kFolder ||
      entry->kind == EntryKind::kMountPoint) {
    return Use::kForeign;
  }
  if (IsTemporaryName(name) && IsLeaseName(name.substr(0, name.find('.')))) {
    return UseOfTemporary(*entry, now_micros);
  }
  if (IsLeaseName(name)) {
    return UseOfLease(files, path, *entry, now_micros, lease);
  }
  return entry->kind == EntryKind::kLink ? Use::kRemoved : Use::kForeign;
}

}  // namespace

absl::Status WriteLease(rocksdb::FileSystem* files, const std::string& store,
                        const Lease& lease) {
  const std::string path = LeasePath(store, lease.uuid);
  CKPTDB_ASSIGN_OR_RETURN(const std::string bytes, EncodeLease(lease));
  if (bytes.size() > kMaxSmallFileBytes) {
    return absl::InvalidArgumentError(absl::StrCat(
        "a lease on ", lease.versions.size(), " versions takes ", bytes.size(),
        " bytes; the limit is ", kMaxSmallFileBytes));
  }
  // Not synced: a machine crash also ends the reader.
  absl::Status status = ReplaceFile(files, path, bytes, /*sync=*/false);
  if (!absl::IsNotFound(status)) return status;
  // Copies of a store may lack the folder because it was empty. It is not
  // created if the store itself is gone.
  CKPTDB_RETURN_IF_ERROR(FromRocks(
      files->CreateDir(LeasesPath(store), rocksdb::IOOptions(), nullptr),
      "creating the leases folder"));
  return ReplaceFile(files, path, bytes, /*sync=*/false);
}

absl::Status RemoveLease(rocksdb::FileSystem* files, const std::string& store,
                         const std::string& uuid) {
  return RemoveFile(files, LeasePath(store, uuid));
}

bool IsLeaseName(absl::string_view name) {
  constexpr absl::string_view kForm = "xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx";
  return std::equal(name.begin(), name.end(), kForm.begin(), kForm.end(),
                    [](char c, char form) {
                      return form == 'x' ? absl::ascii_isxdigit(c) : c == form;
                    });
}

absl::StatusOr<std::vector<Lease>> ReadLeases(
    rocksdb::FileSystem* files, const std::string& store, int64_t now_micros,
    bool remove_expired, std::vector<Usage::SkippedEntry>* unswept) {
  std::vector<Lease> leases;
  CKPTDB_ASSIGN_OR_RETURN(const auto names,
                          ListFolder(files, LeasesPath(store)));
  const auto leave = [&](const std::string& name, absl::string_view reason,
                         bool foreign) {
    if (unswept == nullptr) return;
    unswept->push_back(
        {absl::StrCat("leases/", name), std::string(reason), foreign});
  };
  for (const std::string& name : names) {
    const std::string path = LeasePath(store, name);
    Lease lease;
    CKPTDB_ASSIGN_OR_RETURN(const Use use,
                            UseOf(files, path, name, now_micros, &lease));
    if (use == Use::kHolds) leases.push_back(std::move(lease));
    if (use == Use::kForeign) {
      leave(name, "it is not a lease", /*foreign=*/true);
    }
    if (use != Use::kRemoved || !remove_expired) continue;
    const absl::Status removed = RemoveFile(files, path);
    if (!removed.ok()) leave(name, removed.message(), /*foreign=*/false);
  }
  return leases;
}

}  // namespace ckptdb::internal
