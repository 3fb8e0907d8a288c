// SPDX-License-Identifier: Apache-2.0
#include "db/store/folder_usage.h"

#include <algorithm>
#include <set>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "db/disk/files.h"
#include "db/disk/spare_space.h"
#include "db/meta/lease.h"
#include "db/rocks/database.h"
#include "db/store/store_names.h"

namespace ckptdb::internal {
namespace {

// The small files in the store's top folder.
bool IsNote(absl::string_view name) {
  return name == "LOCK" || name == "OWNER" || name == "SHIPPED" ||
         name == "WATERMARK" || IsTemporaryNote(name);
}

class FolderMeasurer {
 public:
  FolderMeasurer(const std::function<bool(uint32_t)>& is_in_progress,
                 Usage* usage)
      : is_in_progress_(is_in_progress), usage_(usage) {}

  // Adds an entry to the total and to one category. An entry that cannot be
  // read is reported and counts no bytes.
  void Add(const std::string& path, const absl::StatusOr<Entry>& entry) {
    if (!entry.ok()) {
      usage_->unswept.push_back(
          {path.empty() ? "." : path, std::string(entry.status().message())});
      return;
    }
    uint64_t bytes = entry->kind == EntryKind::kFile ? entry->bytes : 0;
    // A file has two names while it is moved into the database.
    if (entry->links > 1 &&
        !counted_.emplace(entry->device, entry->inode).second) {
      bytes = 0;
    }
    usage_->disk_bytes += bytes;
    *Category(path, *entry) += bytes;
  }

 private:
  // Paths arrive folder by folder. Everything below a foreign folder is
  // foreign.
  uint64_t* Category(const std::string& path, const Entry& entry) {
    if (!foreign_.empty() && absl::StartsWith(path, foreign_)) {
      return &usage_->foreign_bytes;
    }
    const size_t slash = path.find('/');
    const std::string top = path.substr(0, slash);
    const std::string name =
        slash == std::string::npos
            ? ""
            : path.substr(slash + 1, path.find('/', slash + 1) - slash - 1);
    const bool first = slash != std::string::npos &&
                       path.find('/', slash + 1) == std::string::npos;
    if (top == "db" && (name.empty() || Database::HasFileName(name))) {
      return &usage_->database_bytes;
    }
    if (top == "staging") {
      uint32_t attempt = 0;
      if (name.empty()) return &usage_->staging_bytes;
      if (absl::SimpleAtoi(name, &attempt) && absl::StrCat(attempt) == name) {
        if (first && !is_in_progress_(attempt)) {
          usage_->unswept.push_back({path, "no save in progress needs it"});
        }
        return &usage_->staging_bytes;
      }
    }
    if ((top == "leases" || top == "posts") &&
        (name.empty() || IsLeaseName(name.substr(0, name.find('.'))))) {
      return &usage_->control_bytes;
    }
    if (slash == std::string::npos && IsNote(top))
      return &usage_->control_bytes;
    if (slash == std::string::npos && top == kSpareName) {
      return &usage_->spare_bytes;
    }
    usage_->unswept.push_back({path,
                               absl::StrCat("it is ", EntryKindName(entry.kind),
                                            " that the store did not create"),
                               /*foreign=*/true});
    foreign_ = path + "/";
    return &usage_->foreign_bytes;
  }

  const std::function<bool(uint32_t)>& is_in_progress_;
  Usage* const usage_;
  std::set<std::pair<uint64_t, uint64_t>> counted_;
  std::string foreign_;
};

}  // namespace

void MeasureFolder(rocksdb::FileSystem* files, const std::string& store,
                   const std::function<bool(uint32_t attempt)>& is_in_progress,
                   Usage* usage) {
  FolderMeasurer measurer(is_in_progress, usage);
  VisitTree(files, store,
            [&](const std::string& path, const absl::StatusOr<Entry>& entry) {
              measurer.Add(path, entry);
            });
}

}  // namespace ckptdb::internal

namespace ckptdb {

uint64_t Usage::overhead_bytes() const {
  uint64_t known = 0;
  for (const Usage::Step& step : steps) known += step.exclusive_bytes;
  for (const Usage::Held& held : held_versions) known += held.stored_bytes;
  return database_bytes - std::min(known, database_bytes);
}

}  // namespace ckptdb
