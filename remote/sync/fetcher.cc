// SPDX-License-Identifier: Apache-2.0
#include "remote/sync/fetcher.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "db/base/cancelled.h"
#include "db/base/parallel.h"
#include "remote/layout/object_keys.h"
#include "remote/sync/catalog_log.h"
#include "remote/sync/catalog_steps.h"
#include "remote/sync/updater.h"
#include "remote/sync/version_object.h"
#include "schema/bytes/annotate.h"
#include "schema/status.h"

namespace ckptdb::internal {
namespace {

absl::Status StoreExists(const LocalStore& found) {
  return absl::AlreadyExistsError(absl::StrCat(
      "\"", found.path, "\" exists and is a store; nothing was changed; ",
      found.root.parts.has_value()
          ? "it has only parts of steps, to which no step can be added: fetch "
            "to another folder, or remove it first"
          : "fetch with update (--update) to add steps to it, or to another "
            "folder if it is another store"));
}

// Looks at the newest catalog, for objects that a collector has deleted.
constexpr int kFetchTries = 3;
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
  Updater updater(remote_, to_, options_);
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
    const auto steps = ChooseSteps(*catalog);
    if (i > 0 && absl::IsNotFound(steps.status())) break;  // deleted meanwhile
    CKPTDB_RETURN_IF_ERROR(steps.status());
    CKPTDB_ASSIGN_OR_RETURN(const bool exists, updater.StoreExists());
    if (exists) {
      status = updater.Update(*catalog, *steps);
    } else {
      status = MakeStore(*catalog, *steps);
    }
    if (!absl::IsNotFound(status)) {
      CKPTDB_RETURN_IF_ERROR(status);
      return exists ? updater.TakeResult() : std::move(result_);
    }
  }
  return absl::AbortedError(status.message());
}

absl::StatusOr<std::vector<const RemoteEntry*>> Fetcher::ChooseSteps(
    const RemoteCatalog& catalog) const {
  if (options_->all) {
    return options_->keep.has_value() ? NewestSteps(catalog, *options_->keep)
                                      : StepsByAge(catalog);
  }
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

absl::Status Fetcher::MakeStore(const RemoteCatalog& catalog,
                                const std::vector<const RemoteEntry*>& steps) {
  CKPTDB_ASSIGN_OR_RETURN(const std::vector<RemoteEntry> entries,
                          NeededEntries(catalog, steps));
  result_ = FetchResult();
  result_.store_uuid = catalog.root.uuid;
  std::vector<Part> parts(entries.size());
  for (size_t i = 0; i < entries.size(); ++i) {
    parts[i].entry = entries[i];
    parts[i].is_step =
        std::any_of(steps.begin(), steps.end(), [&](const RemoteEntry* step) {
          return step->version == entries[i].version;
        });
  }
  CKPTDB_RETURN_IF_ERROR(CheckParts(&parts));
  auto builder = StoreBuilder::Begin(to_, catalog.root.uuid);
  if (absl::IsAlreadyExists(builder.status())) {
    const absl::StatusOr<LocalStore> found = ReadLocalStore(to_);
    if (found.ok()) return StoreExists(*found);
  }
  CKPTDB_RETURN_IF_ERROR(builder.status());
  CKPTDB_RETURN_IF_ERROR(AddVersions(builder->get(), &parts));
  std::vector<std::string> tables;
  Downloader downloader(remote_, options_);
  CKPTDB_RETURN_IF_ERROR(downloader.Run(
      PlanDownloads((*builder)->downloads(), parts, &downloader), &tables));
  result_.data_files = downloader.files();
  result_.data_bytes = downloader.bytes();
  std::sort(result_.steps.begin(), result_.steps.end());
  RootRecord root = catalog.root;
  root.parts = parts_;
  return (*builder)->Finish(root, tables);
}

// Checks the names of parts before anything is created, so that a mistyped one
// leaves nothing behind.
absl::Status Fetcher::CheckParts(std::vector<Part>* parts) {
  if (!parts_.has_value()) return absl::OkStatus();
  for (Part& part : *parts) {
    if (!part.is_step) continue;
    CKPTDB_RETURN_IF_ERROR(CheckCancelled(options_->cancelled));
    CKPTDB_ASSIGN_OR_RETURN(part.records,
                            ReadVersionObject(remote_, part.entry));
    CKPTDB_RETURN_IF_ERROR(
        Annotate(CheckPartsExist(*parts_, part.records->rank_records),
                 absl::StrCat("step ", part.entry.version.step)));
  }
  return absl::OkStatus();
}

// Keeps the records of a version no longer than until they are in the store.
absl::Status Fetcher::AddVersions(StoreBuilder* builder,
                                  std::vector<Part>* parts) {
  return ParallelFor(
      options_->connections, parts->size(),
      [&](int, uint64_t i) { return AddVersion(builder, &(*parts)[i]); },
      PollOf(options_->cancelled));
}

absl::Status Fetcher::AddVersion(StoreBuilder* builder, Part* part) {
  const Version& version = part->entry.version;
  CKPTDB_RETURN_IF_ERROR(CheckCancelled(options_->cancelled));
  if (!part->records.has_value()) {
    CKPTDB_ASSIGN_OR_RETURN(part->records,
                            ReadVersionObject(remote_, part->entry));
  }
  RemoteVersion records = *std::exchange(part->records, std::nullopt);
  if (parts_.has_value()) {
    CKPTDB_ASSIGN_OR_RETURN(part->plan,
                            PartPlan::Make(version, records, *parts_));
    std::erase_if(records.inline_entries, [&](const auto& entry) {
      return !part->plan.Wants(entry.first);
    });
  }
  part->files = std::move(records.files);
  const MutexLock lock(&mutex_);
  if (part->is_step) result_.steps.push_back(version.step);
  return builder->Add(version, records, part->is_step);
}

std::vector<Download> Fetcher::PlanDownloads(const std::string& folder,
                                             const std::vector<Part>& parts,
                                             Downloader* downloader) {
  std::vector<Download> downloads;
  for (const Part& part : parts) {
    for (const RemoteFile& file : part.files) {
      const PartPlan::Share share = part.plan.ShareOf(file);
      if (share == PartPlan::Share::kNone) continue;
      const std::string key =
          DataObjectKey({part.entry.epoch, part.entry.version, file.number});
      Download download{key, Downloader::PathOf(folder, key), file};
      if (share == PartPlan::Share::kSome) {
        download.ranges = part.plan.RangesOf(file);
      } else {
        downloader->Expect(file.bytes);
      }
      downloads.push_back(std::move(download));
    }
  }
  return downloads;
}

}  // namespace ckptdb::internal
