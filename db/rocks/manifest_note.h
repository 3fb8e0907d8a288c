// SPDX-License-Identifier: Apache-2.0
// A note about the MANIFEST, stored next to the database, so that damage to the
// MANIFEST is found before RocksDB opens it; internal to db/.
#ifndef CKPTDB_DB_ROCKS_MANIFEST_NOTE_H_
#define CKPTDB_DB_ROCKS_MANIFEST_NOTE_H_

#include <rocksdb/file_system.h>

#include <cstdint>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "db/quirks/manifest_watch.h"

namespace ckptdb::internal {

// Facts that remain true of a database after the note was written.
struct ManifestNote {
  uint64_t sequence = 0;  // of the last write
  // The beginning of the MANIFEST with this number. The current one is this or
  // a newer one.
  ManifestState manifest;
};

std::string EncodeManifestNote(const ManifestNote& note);
// Returns nothing if the bytes are not a note: the file is not synced, so a
// power loss may leave any bytes.
std::optional<ManifestNote> DecodeManifestNote(absl::string_view bytes);

// The end of errors about a MANIFEST or log that is older than the note.
inline constexpr absl::string_view kCopiedWhileWritten =
    "; if this is a copy that was made while the store was written to, such as "
    "by \"cp -r\", copy the store again with \"ckptdb backup\" or MakeBackup";

// Returns DataLoss naming the file if the database in folder `path` cannot be
// the one that was noted.
absl::Status CheckManifest(rocksdb::FileSystem* files, const std::string& path,
                           const ManifestState& noted);

}  // namespace ckptdb::internal

#endif  // CKPTDB_DB_ROCKS_MANIFEST_NOTE_H_
