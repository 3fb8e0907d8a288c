// SPDX-License-Identifier: Apache-2.0
#include "remote/sync/downloader.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <deque>
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "db/base/cancelled.h"
#include "db/base/parallel.h"
#include "db/transfer/store_builder.h"
#include "remote/ranges/ranged_objects.h"
#include "remote/sync/version_object.h"
#include "schema/bytes/annotate.h"
#include "schema/status.h"

namespace ckptdb::internal {
namespace {

constexpr char kPart[] = ".part";      // an incomplete file
constexpr char kSome[] = ".some.sst";  // some entries of another file

absl::Status DownloadError(absl::string_view doing, const std::string& path) {
  const int error = errno;
  const std::string text =
      absl::StrCat(doing, " \"", path, "\": ", std::strerror(error));
  if (error == ENOSPC || error == EDQUOT) {
    return absl::ResourceExhaustedError(text);
  }
  return absl::FailedPreconditionError(text);
}

// Calls `use` with a descriptor of the file, and creates the file if necessary.
template <typename Use>
absl::Status WithFile(const std::string& path, const Use& use) {
  const int fd = ::open(path.c_str(), O_CREAT | O_RDWR | O_CLOEXEC, 0600);
  if (fd < 0) return DownloadError("opening", path);
  absl::Status status = use(fd);
  if (::close(fd) != 0 && status.ok()) status = DownloadError("closing", path);
  return status;
}

absl::Status WriteAt(int fd, const std::string& path, uint64_t offset,
                     absl::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t written =
        ::pwrite(fd, bytes.data(), bytes.size(), static_cast<off_t>(offset));
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return DownloadError("writing", path);
    offset += static_cast<uint64_t>(written);
    bytes.remove_prefix(static_cast<size_t>(written));
  }
  return absl::OkStatus();
}

}  // namespace

std::string Downloader::PathOf(const std::string& folder,
                               const std::string& key) {
  return absl::StrCat(folder, "/", absl::StrReplaceAll(key, {{"/", "-"}}),
                      ".sst");
}

absl::Status Downloader::Run(std::vector<Download> downloads,
                             std::vector<std::string>* tables) {
  for (Download& download : downloads) {
    if (download.ranges.empty()) {
      tables->push_back(download.path);
    } else {
      download.path += kSome;
    }
  }
  LeaveOutComplete(&downloads);
  CKPTDB_RETURN_IF_ERROR(ReadAll(downloads));
  return CopyRanges(downloads, tables);
}

// Leaves out files that an interrupted call has downloaded completely.
void Downloader::LeaveOutComplete(std::vector<Download>* downloads) {
  std::erase_if(*downloads, [&](const Download& download) {
    if (!download.ranges.empty() ||
        HashOfFile(download.path, options_->cancelled)
                .value_or(~download.file.hash) != download.file.hash) {
      return false;
    }
    Report(download.file.bytes);
    return true;
  });
}

absl::Status Downloader::ReadRange(const Download& download, uint64_t offset) {
  CKPTDB_RETURN_IF_ERROR(CheckCancelled(options_->cancelled));
  const uint64_t bytes = std::min(kReadBytes, download.file.bytes - offset);
  // Not zeroed before it is overwritten.
  const std::unique_ptr<char[]> range(new char[bytes]);
  CKPTDB_RETURN_IF_ERROR(Annotate(
      remote_->Get(download.key, offset, absl::MakeSpan(range.get(), bytes)),
      absl::StrCat(remote_->Name(), "/", download.key)));
  const std::string path = download.path + kPart;
  CKPTDB_RETURN_IF_ERROR(WithFile(path, [&](int fd) {
    return WriteAt(fd, path, offset, absl::string_view(range.get(), bytes));
  }));
  Report(bytes);
  return absl::OkStatus();
}

absl::Status Downloader::FinishFile(const Download& download) {
  const std::string path = download.path + kPart;
  CKPTDB_RETURN_IF_ERROR(WithFile(path, [&](int fd) {
    // An earlier file of the same name may be longer.
    const auto bytes = static_cast<off_t>(download.file.bytes);
    if (::ftruncate(fd, bytes) != 0) return DownloadError("cutting", path);
    return ::fsync(fd) == 0 ? absl::OkStatus() : DownloadError("syncing", path);
  }));
  CKPTDB_ASSIGN_OR_RETURN(const uint64_t hash,
                          HashOfFile(path, options_->cancelled));
  if (hash != download.file.hash) {
    return OtherHash(remote_, download.key, download.file.hash, hash);
  }
  if (std::rename(path.c_str(), download.path.c_str()) != 0) {
    return DownloadError("naming", download.path);
  }
  const MutexLock lock(&mutex_);
  ++files_;
  bytes_ += download.file.bytes;
  return absl::OkStatus();
}

// Finishes each file with its last range, so that the next call finds it even
// if this one is interrupted before it has all files.
absl::Status Downloader::ReadAll(const std::vector<Download>& downloads) {
  struct Range {
    const Download* download;
    uint64_t offset;
    std::atomic<uint64_t>* left;  // ranges of the file
  };
  std::vector<Range> ranges;
  std::deque<std::atomic<uint64_t>> left;
  for (const Download& download : downloads) {
    if (!download.ranges.empty()) continue;
    std::atomic<uint64_t>& file = left.emplace_back(0);
    for (uint64_t at = 0; at < download.file.bytes; at += kReadBytes) {
      ranges.push_back({&download, at, &file});
      ++file;
    }
  }
  return ParallelFor(
      options_->connections, ranges.size(),
      [&](int, uint64_t i) -> absl::Status {
        const Range& range = ranges[i];
        CKPTDB_RETURN_IF_ERROR(ReadRange(*range.download, range.offset));
        if (--*range.left > 0) return absl::OkStatus();
        return FinishFile(*range.download);
      },
      PollOf(options_->cancelled));
}

// Adds the paths of the tables that it writes to `tables`.
absl::Status Downloader::CopyRanges(const std::vector<Download>& downloads,
                                    std::vector<std::string>* tables) {
  constexpr uint64_t kMemoryBytes = uint64_t{128} << 20;
  const auto objects = std::make_shared<RangedObjects>(
      std::shared_ptr<ObjectStore>(remote_, [](ObjectStore*) {}), kMemoryBytes,
      options_->cancelled);
  return ParallelFor(
      options_->connections, downloads.size(),
      [&](int, uint64_t i) -> absl::Status {
        const Download& download = downloads[i];
        const RemoteFile& file = download.file;
        if (download.ranges.empty()) return absl::OkStatus();
        CKPTDB_ASSIGN_OR_RETURN(
            const CopiedEntries copied,
            CopyEntries(
                objects,
                {download.key, file.bytes, file.first_key, file.last_key},
                download.ranges, download.path, options_->cancelled));
        Report(copied.bytes);
        const MutexLock lock(&mutex_);
        if (copied.entries == 0) return absl::OkStatus();
        tables->push_back(download.path);
        ++files_;
        bytes_ += copied.bytes;
        return absl::OkStatus();
      },
      PollOf(options_->cancelled));
}

void Downloader::Report(uint64_t bytes) {
  const MutexLock lock(&mutex_);
  done_bytes_ += bytes;
  if (options_->progress) {
    options_->progress(done_bytes_, std::max(done_bytes_, all_bytes_));
  }
}

}  // namespace ckptdb::internal
