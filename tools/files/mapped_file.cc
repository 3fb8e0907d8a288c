// SPDX-License-Identifier: Apache-2.0
#include "tools/files/mapped_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <csignal>
#include <cstdint>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"
#include "tools/files/file_error.h"

namespace ckptdb::tool {
namespace {

void ReportTruncated(int /*signal*/) {
  constexpr char kText[] =
      "ckptdb: a file was truncated or could not be read while it was "
      "imported; nothing was imported\n";
  constexpr int kFailed = 5;
  // Nothing can be done if this fails.
  const ssize_t written = write(STDERR_FILENO, kText, sizeof(kText) - 1);
  static_cast<void>(written);
  _exit(kFailed);
}

}  // namespace

absl::StatusOr<std::shared_ptr<const MappedFile>> MappedFile::Open(
    const std::string& path) {
  // A FIFO without O_NONBLOCK would block.
  const int file = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (file < 0) return FileError("open", path);
  return Adopt(file, path);
}

absl::StatusOr<std::shared_ptr<const MappedFile>> MappedFile::Adopt(
    int file, const std::string& path) {
  const absl::Cleanup close_file = [file] { close(file); };
  struct stat found {};
  if (fstat(file, &found) != 0) return FileError("read", path);
  if (!S_ISREG(found.st_mode)) {
    return absl::InvalidArgumentError(
        absl::StrCat("\"", path, "\" is not a regular file"));
  }
  std::shared_ptr<MappedFile> mapped(new MappedFile(path));
  const auto size = static_cast<size_t>(found.st_size);
  if (size == 0) return mapped;
  void* memory = mmap(nullptr, size, PROT_READ, MAP_SHARED, file, 0);
  if (memory == MAP_FAILED) return FileError("map", path);
  // All will be read, rows of tables in no order: reading ahead is far faster
  // where there is memory.
  const auto memory_bytes = static_cast<uint64_t>(sysconf(_SC_PHYS_PAGES)) *
                            static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
  if (size < memory_bytes / 2) madvise(memory, size, MADV_WILLNEED);
  mapped->bytes_ = {static_cast<const char*>(memory), size};
  return mapped;
}

MappedFile::~MappedFile() {
  if (!bytes_.empty()) munmap(const_cast<char*>(bytes_.data()), bytes_.size());
}

MappedFileErrors::MappedFileErrors() { std::signal(SIGBUS, ReportTruncated); }
MappedFileErrors::~MappedFileErrors() { std::signal(SIGBUS, SIG_DFL); }

}  // namespace ckptdb::tool
