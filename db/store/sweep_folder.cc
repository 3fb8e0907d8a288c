// SPDX-License-Identifier: Apache-2.0
#include "db/store/sweep_folder.h"

#include <utility>

#include "absl/status/status.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "db/base/paths.h"
#include "db/disk/files.h"
#include "db/rocks/database.h"
#include "db/store/store_names.h"

namespace ckptdb::internal {
namespace {

// Removes a temporary file that was last written over an hour ago.
absl::Status RemoveAbandoned(rocksdb::FileSystem* files,
                             const std::string& path, int64_t now_micros) {
  const absl::StatusOr<Entry> entry = LookAt(files, path);
  if (absl::IsNotFound(entry.status())) return absl::OkStatus();
  if (!entry.ok()) return entry.status();
  if (!IsAbandoned(*entry, now_micros)) return absl::OkStatus();
  return RemoveFile(files, path);
}

// `folder` is relative to the store.
void CleanFolder(rocksdb::FileSystem* files, const std::string& store,
                 const std::string& folder, bool (*is_own)(absl::string_view),
                 int64_t now_micros,
                 std::vector<Usage::SkippedEntry>* unswept) {
  const std::string below = folder.empty() ? "" : folder + "/";
  const auto names = ListFolder(
      files, folder.empty() ? store : absl::StrCat(store, "/", folder));
  if (!names.ok()) {
    unswept->push_back({folder, std::string(names.status().message())});
    return;
  }
  for (const std::string& name : *names) {
    if (!is_own(name)) continue;
    const absl::Status removed = RemoveAbandoned(
        files, absl::StrCat(store, "/", below, name), now_micros);
    if (removed.ok()) continue;
    unswept->push_back({below + name, std::string(removed.message())});
  }
}

}  // namespace

void CleanStaging(rocksdb::FileSystem* files, const std::string& store,
                  absl::FunctionRef<bool(uint32_t attempt)> may_stage,
                  std::vector<Usage::SkippedEntry>* unswept) {
  const std::string staging = StagingPath(store);
  const auto names = ListFolder(files, staging);
  if (!names.ok()) {
    unswept->push_back({"staging", std::string(names.status().message())});
    return;
  }
  for (const std::string& name : *names) {
    const std::string path = absl::StrCat(staging, "/", name);
    Usage::SkippedEntry entry{absl::StrCat("staging/", name), ""};
    uint32_t attempt = 0;
    // New attempts are higher than all in the catalog, and are listed in it
    // before their folder is created.
    const bool own =
        absl::SimpleAtoi(name, &attempt) && absl::StrCat(attempt) == name;
    if (own && may_stage(attempt)) continue;
    const auto found = LookAt(files, path);
    const bool link = found.ok() && found->kind == EntryKind::kLink;
    // Only entries that the store could have created are removed. Links are
    // removed, too, and not followed: a store creates none.
    if (!own && !link) {
      entry.reason = "it is not the staging folder of a save";
      entry.foreign = true;
      unswept->push_back(std::move(entry));
      continue;
    }
    // An entry that cannot be removed is reported and left to the next sweep,
    // so that one folder does not fail the sweep.
    const absl::Status removed = RemoveTree(files, path);
    if (removed.ok()) continue;
    entry.reason = std::string(removed.message());
    unswept->push_back(std::move(entry));
  }
}

void CleanTemporaries(rocksdb::FileSystem* files, const std::string& store,
                      int64_t now_micros,
                      std::vector<Usage::SkippedEntry>* unswept) {
  CleanFolder(files, store, "", IsTemporaryNote, now_micros, unswept);
  CleanFolder(files, store, "db", Database::IsLeftover, now_micros, unswept);
}

}  // namespace ckptdb::internal
