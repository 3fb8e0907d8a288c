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
#include "remote/ranges/ranged_objects.h"
#include "remote/sync/catalog_log.h"
#include "remote/sync/catalog_steps.h"
#include "remote/sync/version_object.h"
#include "schema/bytes/annotate.h"
#include "schema/status.h"

namespace ckptdb::internal {
namespace {

// Looks at the newest catalog, for objects that a collector has deleted.
constexpr int kFetchTries = 3;
constexpr char kPart[] = ".part";      // of a file that is not complete
constexpr char kSome[] = ".some.sst";  // of a file with some entries of another

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

std::optional<StoreParts> PartsOf(const FetchOptions& options) {
  if (options.tables.empty() && options.items.empty()) return std::nullopt;
  return StoreParts{options.tables, options.slots, options.slices,
                    options.items};
}

}  // namespace

Fetcher::Fetcher(ObjectStore* remote, absl::string_view to,
                 const FetchOptions* options)
    : remote_(remote), to_(to), options_(options), parts_(PartsOf(*options)) {}

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
  all_bytes_ = 0;
  {
    const MutexLock lock(&mutex_);
    done_bytes_ = 0;
  }
  std::vector<Part> parts(entries.size());
  for (size_t i = 0; i < entries.size(); ++i) parts[i].entry = entries[i];
  CKPTDB_ASSIGN_OR_RETURN(const std::unique_ptr<StoreBuilder> builder,
                          StoreBuilder::Begin(to_));
  CKPTDB_RETURN_IF_ERROR(AddVersions(steps, builder.get(), &parts));
  std::vector<std::string> tables;
  const std::vector<Download> downloads =
      PlanDownloads(builder->downloads(), parts, &tables);
  CKPTDB_RETURN_IF_ERROR(Run(downloads));
  CKPTDB_RETURN_IF_ERROR(Copy(downloads, &tables));
  std::sort(result_.steps.begin(), result_.steps.end());
  RootRecord root = catalog.root;
  root.parts = parts_;
  return builder->Finish(root, tables);
}

// Keeps the records of a version no longer than until they are in the store.
absl::Status Fetcher::AddVersions(const std::vector<const RemoteEntry*>& steps,
                                  StoreBuilder* builder,
                                  std::vector<Part>* parts) {
  return ParallelFor(
      options_->connections, parts->size(),
      [&](int, uint64_t i) {
        Part& part = (*parts)[i];
        const bool is_step = std::any_of(
            steps.begin(), steps.end(), [&](const RemoteEntry* step) {
              return step->version == part.entry.version;
            });
        return AddVersion(is_step, builder, &part);
      },
      PollOf(options_->cancelled));
}

absl::Status Fetcher::AddVersion(bool is_step, StoreBuilder* builder,
                                 Part* part) {
  const Version& version = part->entry.version;
  CKPTDB_RETURN_IF_ERROR(CheckCancelled(options_->cancelled));
  CKPTDB_ASSIGN_OR_RETURN(RemoteVersion records,
                          ReadVersionObject(remote_, part->entry));
  if (parts_.has_value()) {
    CKPTDB_ASSIGN_OR_RETURN(part->plan,
                            PartPlan::Make(version, records, *parts_));
    std::erase_if(records.inline_entries, [&](const auto& entry) {
      return !part->plan.Wants(entry.first);
    });
    if (is_step) {
      CKPTDB_RETURN_IF_ERROR(
          Annotate(CheckPartsExist(*parts_, records.rank_records),
                   absl::StrCat("step ", version.step)));
    }
  }
  part->files = std::move(records.files);
  const MutexLock lock(&mutex_);
  if (is_step) result_.steps.push_back(version.step);
  return builder->Add(version, records, is_step);
}

// Leaves out files that an interrupted call has downloaded.
std::vector<Fetcher::Download> Fetcher::PlanDownloads(
    const std::string& folder, const std::vector<Part>& parts,
    std::vector<std::string>* tables) {
  std::vector<Download> downloads;
  for (const Part& part : parts) {
    for (const RemoteFile& file : part.files) {
      const PartPlan::Share share = part.plan.ShareOf(file);
      if (share == PartPlan::Share::kNone) continue;
      const std::string key =
          DataObjectKey({part.entry.epoch, part.entry.version, file.number});
      std::string path = absl::StrCat(
          folder, "/", absl::StrReplaceAll(key, {{"/", "-"}}), ".sst");
      if (share == PartPlan::Share::kSome) {
        downloads.push_back(
            {key, path + kSome, file, part.plan.RangesOf(file)});
        continue;
      }
      all_bytes_ += file.bytes;
      downloads.push_back({key, path, file, {}});
      tables->push_back(std::move(path));
    }
  }
  std::erase_if(downloads, [&](const Download& download) {
    if (!download.ranges.empty() ||
        HashOfFile(download.path, options_->cancelled)
                .value_or(~download.file.hash) != download.file.hash) {
      return false;
    }
    Report(download.file.bytes);
    return true;
  });
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
  std::vector<const Download*> whole;
  for (const Download& download : downloads) {
    if (!download.ranges.empty()) continue;
    whole.push_back(&download);
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
      options_->connections, whole.size(),
      [&](int, uint64_t i) { return FinishFile(*whole[i]); },
      PollOf(options_->cancelled));
}

// Adds the tables that it makes.
absl::Status Fetcher::Copy(const std::vector<Download>& downloads,
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
        ++result_.data_files;
        result_.data_bytes += copied.bytes;
        return absl::OkStatus();
      },
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
