// SPDX-License-Identifier: Apache-2.0
#include "tools/new_store.h"

#include <filesystem>
#include <system_error>

#include "absl/strings/str_cat.h"
#include "db/reader.h"

namespace ckptdb::tool {
namespace {

namespace fs = std::filesystem;

// Returns whether the folder is a store without steps that can be removed.
bool HasNoSteps(const std::string& path) {
  StoreOptions options;
  options.leases = StoreOptions::LeaseMode::kNone;
  const auto reader = Reader::Open(path, options);
  return reader.ok() && (*reader)->Steps().empty();
}

}  // namespace

absl::Status CheckNotWithinStore(const std::string& path) {
  std::error_code error;
  fs::path at = fs::weakly_canonical(fs::absolute(path), error);
  while (!error && at.has_relative_path()) {
    at = at.parent_path();
    if (!fs::exists(at / "db" / "CURRENT", error)) {
      error.clear();  // a folder that cannot be searched is no store of ours
      continue;
    }
    return absl::InvalidArgumentError(
        absl::StrCat("\"", at.string(), "\" is a store, and \"", path,
                     "\" lies inside it; choose a folder outside of it"));
  }
  return absl::OkStatus();
}

NewStore::NewStore(const std::string& path) : path_(path) {
  std::error_code error;
  const fs::path folder = fs::weakly_canonical(fs::absolute(path), error);
  if (error) return;
  fs::path at = folder;
  for (; at.has_relative_path() && !fs::exists(at, error);
       at = at.parent_path()) {
    folders_.push_back(at.string());
  }
  is_new_ = !folders_.empty() || fs::is_empty(folder, error);
}

NewStore::~NewStore() {
  if (!is_new_) return;
  std::error_code ignored;
  if (HasNoSteps(path_)) {
    for (const auto& entry : fs::directory_iterator(path_, ignored)) {
      fs::remove_all(entry.path(), ignored);
    }
  }
  // Fails for folders that are not empty, which stay.
  for (const std::string& folder : folders_) fs::remove(folder, ignored);
}

}  // namespace ckptdb::tool
