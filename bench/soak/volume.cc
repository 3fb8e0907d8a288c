// SPDX-License-Identifier: Apache-2.0
#include "bench/soak/volume.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <set>
#include <system_error>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "bench/disk.h"
#include "bench/soak/event.h"
#include "schema/status.h"
#include "tests/support/name_space.h"

namespace ckptdb::soak {
namespace {

namespace fs = std::filesystem;

absl::Status MountTmpfs(const std::string& folder, uint64_t bytes) {
  CKPTDB_RETURN_IF_ERROR(testing::EnterNameSpace());
  const std::string size = absl::StrCat("size=", bytes, ",mode=0700");
  if (mount("none", folder.c_str(), "tmpfs", 0, size.c_str()) == 0) {
    return absl::OkStatus();
  }
  return testing::CannotMount("tmpfs at " + folder);
}

}  // namespace

Volume::Volume(std::string folder, uint64_t bytes)
    : folder_(std::move(folder)),
      why_not_mounted_(MountTmpfs(folder_, bytes)) {}

Volume::~Volume() {
  if (mounted()) umount2(folder_.c_str(), MNT_DETACH);
}

absl::Status Volume::Fill(uint64_t room) {
  full_ = true;
  CKPTDB_ASSIGN_OR_RETURN(const uint64_t free, bench::FreeBytes(folder_));
  if (free <= room) return absl::OkStatus();
  const int fd = open(filler().c_str(), O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
  if (fd < 0) return bench::ErrnoError("open", filler());
  struct stat file {};
  // It may fail: the store takes space meanwhile. What was taken stays then.
  if (fstat(fd, &file) == 0) {
    (void)posix_fallocate(fd, file.st_size, static_cast<off_t>(free - room));
  }
  close(fd);
  return absl::OkStatus();
}

absl::Status Volume::Free() {
  CKPTDB_RETURN_IF_ERROR(bench::Remove(filler()));
  freed_at_micros_ = SteadyMicros();
  full_ = false;
  return absl::OkStatus();
}

bool Volume::WasFull(int64_t since_micros) const {
  return full_ || freed_at_micros_ >= since_micros;
}

std::string Volume::Describe() const {
  const absl::StatusOr<uint64_t> free = bench::FreeBytes(folder_);
  return absl::StrCat(
      free.ok() ? absl::StrCat(*free) : free.status().ToString(),
      " bytes are free now, the store takes ",
      MeasureFolder(store()).disk_bytes, ", the filler is ",
      full_ ? "there" : absl::StrCat("gone since ", freed_at_micros_.load()));
}

FolderSize MeasureFolder(const std::string& folder) {
  constexpr uint64_t kBlockBytes = 512;  // the unit of st_blocks
  FolderSize size;
  std::set<ino_t> seen;
  std::error_code error;
  for (fs::recursive_directory_iterator at(folder, error), end;
       !error && at != end; at.increment(error)) {
    struct stat file {};
    if (lstat(at->path().c_str(), &file) != 0 || !S_ISREG(file.st_mode)) {
      continue;
    }
    ++size.files;
    const auto bytes = static_cast<uint64_t>(file.st_blocks) * kBlockBytes;
    if (seen.insert(file.st_ino).second) size.disk_bytes += bytes;
    if (absl::StartsWith(at->path().filename().string(), "MANIFEST-")) {
      size.manifest_bytes =
          std::max(size.manifest_bytes, static_cast<uint64_t>(file.st_size));
    }
  }
  return size;
}

uint64_t ResidentBytes(int64_t pid) {
  std::ifstream lines(absl::StrCat("/proc/", pid, "/status"));
  std::string word;
  while (lines >> word) {
    uint64_t kibibytes = 0;
    if (word == "VmRSS:" && lines >> kibibytes) return kibibytes << 10;
  }
  return 0;
}

}  // namespace ckptdb::soak
