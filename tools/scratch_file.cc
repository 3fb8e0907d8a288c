// SPDX-License-Identifier: Apache-2.0
#include "tools/scratch_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"

namespace ckptdb::tool {
namespace {

absl::Status ScratchError(const std::string& folder, int error) {
  const std::string text =
      absl::StrCat("a temporary file in \"", folder,
                   "\" could not be made: ", std::strerror(error));
  const bool full = error == ENOSPC || error == EDQUOT;
  return full ? absl::ResourceExhaustedError(text) : absl::InternalError(text);
}

// Some file systems have no unnamed files.
int OpenUnnamed(const std::string& folder) {
  constexpr mode_t kOwnerOnly = 0600;
  const int unnamed =
      ::open(folder.c_str(), O_RDWR | O_TMPFILE | O_CLOEXEC, kOwnerOnly);
  if (unnamed >= 0 || (errno != EOPNOTSUPP && errno != EISDIR)) return unnamed;
  std::string name = folder + "/.scratch.XXXXXX";
  const int named = ::mkostemp(name.data(), O_CLOEXEC);
  if (named >= 0) ::unlink(name.c_str());
  return named;
}

}  // namespace

absl::StatusOr<ScratchFile> ScratchFile::Make(const std::string& folder,
                                              uint64_t bytes) {
  const int file = OpenUnnamed(folder);
  if (file < 0) return ScratchError(folder, errno);
  const uint64_t size = std::max<uint64_t>(bytes, 1);
  void* mapped = MAP_FAILED;
  if (::ftruncate(file, static_cast<off_t>(size)) == 0) {
    mapped = ::mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  }
  if (mapped == MAP_FAILED) {
    absl::Status failed = ScratchError(folder, errno);
    ::close(file);
    return failed;
  }
  return ScratchFile(folder, file, static_cast<char*>(mapped), size);
}

absl::Status ScratchFile::Reserve(uint64_t at, uint64_t bytes) const {
  if (bytes == 0) return absl::OkStatus();
  // Writes to the file where a file system cannot allocate.
  const int error = ::posix_fallocate(file_, static_cast<off_t>(at),
                                      static_cast<off_t>(bytes));
  return error == 0 ? absl::OkStatus() : ScratchError(folder_, error);
}

void ScratchFile::EndReserving() {
  if (file_ >= 0) ::close(std::exchange(file_, -1));
}

ScratchFile::ScratchFile(ScratchFile&& other) noexcept
    : folder_(std::move(other.folder_)),
      file_(std::exchange(other.file_, -1)),
      data_(std::exchange(other.data_, nullptr)),
      bytes_(other.bytes_) {}

ScratchFile::~ScratchFile() {
  if (data_ != nullptr) ::munmap(data_, bytes_);
  EndReserving();
}

}  // namespace ckptdb::tool
