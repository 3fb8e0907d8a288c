// SPDX-License-Identifier: Apache-2.0
#include "tools/new_store.h"

#include <filesystem>
#include <system_error>

#include "db/options.h"
#include "db/store.h"
#include "tools/outside_store.h"

namespace ckptdb::tool {
namespace {

namespace fs = std::filesystem;

// Removes a store without steps unless another process owns it. The owner's
// lock goes last.
void RemoveEmptyStore(const std::string& path) {
  StoreOptions options;
  options.create_if_missing = false;
  options.background_sweep = false;
  options.spare_bytes = 0;  // SPARE would be written again
  const auto store = Store::Open(path, options);
  if (!store.ok() || !(*store)->Steps().empty()) return;
  std::error_code ignored;
  const fs::path lock = fs::path(path) / "LOCK";
  for (const auto& entry : fs::directory_iterator(path, ignored)) {
    if (entry.path() != lock) fs::remove_all(entry.path(), ignored);
  }
  fs::remove(lock, ignored);
}

}  // namespace

NewStore::NewStore(const std::string& path) : path_(path) {
  const auto folder = ResolveOutput(path);
  if (!folder.ok()) return;
  std::error_code error;
  for (fs::path at = *folder; at.has_relative_path() && !fs::exists(at, error);
       at = at.parent_path()) {
    folders_.push_back(at.string());
  }
  is_new_ = !folders_.empty() || fs::is_empty(*folder, error);
}

NewStore::~NewStore() {
  if (!is_new_) return;
  RemoveEmptyStore(path_);
  std::error_code ignored;
  // Fails for folders that are not empty, which stay.
  for (const std::string& folder : folders_) fs::remove(folder, ignored);
}

}  // namespace ckptdb::tool
