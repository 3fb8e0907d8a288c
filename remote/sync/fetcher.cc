// SPDX-License-Identifier: Apache-2.0
#include "remote/sync/fetcher.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "db/base/cancelled.h"
#include "db/base/parallel.h"
#include "remote/sync/catalog_log.h"
#include "remote/sync/catalog_steps.h"
#include "remote/sync/version_object.h"
#include "schema/bytes/annotate.h"
#include "schema/status.h"

namespace ckptdb::internal {
namespace {

// Looks at the newest catalog, for objects that a collector has deleted.
constexpr int kFetchTries = 3;
constexpr char kPart[] = ".part";  // of a file that is not complete

absl::Status DownloadError(absl::string_view doing, const std::string& path) {
  const int error = errno;
  const std::string text =
      absl::StrCat(doing, " \"", path, "\": ", std::strerror(error));
  if (error == ENOSPC || error == EDQUOT) {
    return absl::ResourceExhaustedError(text);
  }
  return absl::FailedPreconditionError(text);
}

// Calls `use` with a descriptor of the file, which is created.
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

absl::StatusOr<FetchResult> Fetcher::Fetch() {
  absl::Status status;
  uint64_t tried = 0;
  for (int i = 0; i < kFetchTries; ++i) {
    CKPTDB_ASSIGN_OR_RETURN(const auto catalog, NewestCatalog(remote_));
    if (!catalog.has_value()) {
      return absl::NotFoundError(
          absl::StrCat("nothing was shipped to ", remote_->Name()));
    }
    // An object that the newest catalog names was not collected: it is lost.
    if (catalog->number == tried) {
      return absl::DataLossError(status.message());
    }
    tried = catalog->number;
    CKPTDB_ASSIGN_OR_RETURN(const auto steps, ChooseSteps(*catalog));
    status = TryFetch(*catalog, steps);
    if (!absl::IsNotFound(status)) break;
  }
  if (absl::IsNotFound(status)) return absl::AbortedError(status.message());
  CKPTDB_RETURN_IF_ERROR(status);
  return result_;
}

absl::StatusOr<std::vector<const RemoteEntry*>> Fetcher::ChooseSteps(
    const RemoteCatalog& catalog) const {
  if (options_->all) return StepsByAge(catalog);
  const RemoteEntry* const step = options_->step.has_value()
                                      ? FindStepEntry(catalog, *options_->step)
                                      : NewestStep(catalog);
  if (step != nullptr) return std::vector<const RemoteEntry*>{step};
  if (!options_->step.has_value()) {
    return absl::NotFoundError(absl::StrCat(remote_->Name(), " has no step"));
  }
  return absl::NotFoundError(
      absl::StrCat(remote_->Name(), " has no step ", *options_->step,
                   "; \"ckptdb remote ls\" lists its steps"));
}

absl::Status Fetcher::TryFetch(const RemoteCatalog& catalog,
                               const std::vector<const RemoteEntry*>& steps) {
  CKPTDB_ASSIGN_OR_RETURN(const std::vector<RemoteEntry> entries,
                          NeededEntries(catalog, steps));
  result_ = FetchResult();
  result_.store_uuid = catalog.root.uuid;
  std::vector<Part> parts(entries.size());
  all_bytes_ = 0;
  {
    const MutexLock lock(&mutex_);
    done_bytes_ = 0;
  }
  for (size_t i = 0; i < entries.size(); ++i) {
    parts[i].entry = entries[i];
    all_bytes_ += entries[i].data_bytes;
  }
  CKPTDB_ASSIGN_OR_RETURN(const std::unique_ptr<StoreBuilder> builder,
                          StoreBuilder::Begin(to_));
  CKPTDB_RETURN_IF_ERROR(ReadParts(&parts));
  CKPTDB_ASSIGN_OR_RETURN(const std::vector<Download> downloads,
                          PlanDownloads(builder->downloads(), &parts));
  CKPTDB_RETURN_IF_ERROR(Run(downloads));
  for (Part& part : parts) {
    const auto is_it = [&](const RemoteEntry* step) {
      return step->version == part.entry.version;
    };
    StoreBuilder::BuiltVersion built;
    built.is_step = std::any_of(steps.begin(), steps.end(), is_it);
    built.records = std::move(part.version);
    built.paths = std::move(part.paths);
    CKPTDB_RETURN_IF_ERROR(builder->Add(part.entry.version, built));
    if (built.is_step) result_.steps.push_back(part.entry.version.step);
  }
  return builder->Finish(catalog.root);
}

absl::Status Fetcher::ReadParts(std::vector<Part>* parts) {
  return ParallelFor(
      options_->connections, parts->size(),
      [&](int, uint64_t i) -> absl::Status {
        CKPTDB_RETURN_IF_ERROR(CheckCancelled(options_->cancelled));
        CKPTDB_ASSIGN_OR_RETURN((*parts)[i].version,
                                ReadVersionObject(remote_, (*parts)[i].entry));
        return absl::OkStatus();
      },
      PollOf(options_->cancelled));
}

// Leaves out files that an interrupted call has downloaded.
absl::StatusOr<std::vector<Fetcher::Download>> Fetcher::PlanDownloads(
    const std::string& folder, std::vector<Part>* parts) {
  std::vector<Download> downloads;
  for (Part& part : *parts) {
    for (const RemoteFile& file : part.version.files) {
      const std::string key =
          DataObjectKey({part.entry.epoch, part.entry.version, file.number});
      const std::string path = absl::StrCat(
          folder, "/", absl::StrReplaceAll(key, {{"/", "-"}}), ".sst");
      part.paths.push_back(path);
      if (HashOfFile(path, options_->cancelled).value_or(~file.hash) ==
          file.hash) {
        Report(file.bytes);
        continue;
      }
      downloads.push_back({key, path, file});
    }
  }
  return downloads;
}

absl::Status Fetcher::ReadRange(const Download& download, uint64_t offset) {
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

absl::Status Fetcher::FinishFile(const Download& download) {
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
  ++result_.data_files;
  result_.data_bytes += download.file.bytes;
  return absl::OkStatus();
}

absl::Status Fetcher::Run(const std::vector<Download>& downloads) {
  std::vector<std::pair<const Download*, uint64_t>> ranges;
  for (const Download& download : downloads) {
    for (uint64_t at = 0; at < download.file.bytes; at += kReadBytes) {
      ranges.emplace_back(&download, at);
    }
  }
  CKPTDB_RETURN_IF_ERROR(ParallelFor(
      options_->connections, ranges.size(),
      [&](int, uint64_t i) {
        return ReadRange(*ranges[i].first, ranges[i].second);
      },
      PollOf(options_->cancelled)));
  return ParallelFor(
      options_->connections, downloads.size(),
      [&](int, uint64_t i) { return FinishFile(downloads[i]); },
      PollOf(options_->cancelled));
}

void Fetcher::Report(uint64_t bytes) {
  const MutexLock lock(&mutex_);
  done_bytes_ += bytes;
  if (options_->progress) {
    options_->progress(done_bytes_, std::max(done_bytes_, all_bytes_));
  }
}

}  // namespace ckptdb::internal
