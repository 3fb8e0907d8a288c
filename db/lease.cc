#include "ckptdb/db/lease.h"

#include <array>
#include <cstdint>
#include <random>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "ckptdb/db/database.h"
#include "ckptdb/db/files.h"
#include "ckptdb/db/rocks_status.h"
#include "ckptdb/schema/status.h"

namespace ckptdb::internal {
namespace {

std::string LeasePath(const std::string& store, const std::string& uuid) {
  return absl::StrCat(LeasesPath(store), "/", uuid);
}

bool IsSurelyFolder(rocksdb::FileSystem* files, const std::string& path) {
  bool folder = false;
  const rocksdb::IOStatus status =
      files->IsDirectory(path, rocksdb::IOOptions(), &folder, nullptr);
  return status.ok() && folder;
}

}  // namespace

std::string NewUuid() {
  std::random_device random;
  std::array<uint32_t, 4> words{};
  for (uint32_t& word : words) word = random();
  std::string hex;
  for (const uint32_t word : words) {
    absl::StrAppend(&hex, absl::Hex(word, absl::kZeroPad8));
  }
  return absl::StrCat(hex.substr(0, 8), "-", hex.substr(8, 4), "-",
                      hex.substr(12, 4), "-", hex.substr(16, 4), "-",
                      hex.substr(20));
}

absl::Status WriteLease(rocksdb::FileSystem* files, const std::string& store,
                        const Lease& lease) {
  const std::string path = LeasePath(store, lease.uuid);
  CKPTDB_ASSIGN_OR_RETURN(const std::string bytes, EncodeLease(lease));
  absl::Status status = ReplaceFile(files, path, bytes, /*sync=*/false);
  if (!absl::IsNotFound(status)) return status;
  // Copies of a store may be without the folder, as it was empty. No folder is
  // made where the store itself is gone.
  CKPTDB_RETURN_IF_ERROR(FromRocks(
      files->CreateDir(LeasesPath(store), rocksdb::IOOptions(), nullptr),
      "making the folder of leases"));
  return ReplaceFile(files, path, bytes, /*sync=*/false);
}

absl::Status RemoveLease(rocksdb::FileSystem* files, const std::string& store,
                         const std::string& uuid) {
  return RemoveFile(files, LeasePath(store, uuid));
}

absl::StatusOr<std::vector<Lease>> ReadLeases(rocksdb::FileSystem* files,
                                              const std::string& store,
                                              int64_t now_micros,
                                              bool remove_expired) {
  std::vector<Lease> leases;
  CKPTDB_ASSIGN_OR_RETURN(const auto names,
                          ListFolder(files, LeasesPath(store)));
  for (const std::string& name : names) {
    const std::string path = LeasePath(store, name);
    const absl::StatusOr<std::string> bytes = ReadFile(files, path);
    // A temporary file is a lease on its way, and not at once of the mode that
    // it shall be.
    const bool temporary = absl::EndsWith(name, ".tmp");
    // Gone, or a folder: it holds nothing.
    if (absl::IsNotFound(bytes.status()) ||
        (temporary && absl::IsPermissionDenied(bytes.status())) ||
        IsSurelyFolder(files, path)) {
      continue;
    }
    CKPTDB_RETURN_IF_ERROR(bytes.status());
    absl::StatusOr<Lease> lease = DecodeLease(*bytes);
    if (lease.ok() && lease->expires_at_micros > now_micros) {
      leases.push_back(*std::move(lease));
      continue;
    }
    if (!remove_expired || temporary) continue;
    CKPTDB_RETURN_IF_ERROR(RemoveFile(files, path));
  }
  return leases;
}

}  // namespace ckptdb::internal
