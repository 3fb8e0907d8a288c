// SPDX-License-Identifier: Apache-2.0
#include "db/transfer/shipped_note.h"

#include <cstdint>

#include "db/base/paths.h"
#include "db/base/url_stores.h"
#include "db/disk/environment.h"
#include "db/disk/files.h"
#include "db/disk/store_path.h"
#include "rocksdb/file_system.h"
#include "schema/status.h"

namespace ckptdb::internal {

absl::Status WriteShippedNote(absl::string_view store,
                              absl::string_view bytes) {
  return ReplaceFile(rocksdb::FileSystem::Default().get(),
                     ShippedNotePath(store), bytes, /*sync=*/false);
}

absl::StatusOr<std::optional<std::string>> ReadShippedNote(
    absl::string_view store) {
  constexpr uint64_t kMaxBytes = uint64_t{16} << 20;
  if (IsUrl(store)) return std::nullopt;
  CKPTDB_ASSIGN_OR_RETURN(const std::string path, ResolveStorePath(store));
  absl::StatusOr<std::string> text =
      ReadFile(Environment::Default()->file_system().get(),
               ShippedNotePath(path), kMaxBytes);
  if (absl::IsNotFound(text.status())) return std::nullopt;
  CKPTDB_RETURN_IF_ERROR(text.status());
  return *std::move(text);
}

}  // namespace ckptdb::internal
