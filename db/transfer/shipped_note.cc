// SPDX-License-Identifier: Apache-2.0
#include "db/transfer/shipped_note.h"

#include "db/base/paths.h"
#include "db/disk/files.h"
#include "rocksdb/file_system.h"

namespace ckptdb::internal {

absl::Status WriteShippedNote(absl::string_view store,
                              absl::string_view bytes) {
  return ReplaceFile(rocksdb::FileSystem::Default().get(),
                     ShippedNotePath(store), bytes, /*sync=*/false);
}

}  // namespace ckptdb::internal
