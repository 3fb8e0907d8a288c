// What is noted of the MANIFEST beside the database, so that damage to it is
// found before RocksDB opens it; internal to db/.
//
// A MANIFEST only grows, and a shorter one is as valid as the whole one, only
// older: RocksDB takes a record that is cut off, or whose length was damaged,
// for the end. Steps would be missing in silence.
#ifndef CKPTDB_DB_ROCKS_MANIFEST_NOTE_H_
#define CKPTDB_DB_ROCKS_MANIFEST_NOTE_H_

#include <rocksdb/file_system.h>
#include <xxhash.h>

#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace ckptdb::internal {

// True of a database from the moment of the note on.
struct ManifestNote {
  uint64_t sequence = 0;  // of the last write
  uint64_t number = 0;    // of the MANIFEST: it, or a newer one, is current
  uint64_t bytes = 0;     // it is at least so long,
  uint64_t hash = 0;      // and these bytes have this XXH3-64
};

std::string EncodeManifestNote(const ManifestNote& note);
// None when it cannot be told: it is not synced, so a power loss may leave
// anything of it.
std::optional<ManifestNote> DecodeManifestNote(absl::string_view bytes);

// The number of "MANIFEST-000012"; none for other names.
std::optional<uint64_t> ManifestNumber(absl::string_view name);

// DataLoss naming the file when the database in folder `path` cannot be the
// one of the note.
absl::Status CheckManifest(rocksdb::FileSystem* files, const std::string& path,
                           const ManifestNote& note);

// Follows the MANIFEST as it is written. Thread-safe.
class ManifestWatch {
 public:
  ManifestWatch();

  // A new file; `number` from its name.
  void Start(uint64_t number);
  void Append(uint64_t number, absl::string_view bytes);
  void Sync(uint64_t number);
  void Fail();

  // Whether writing any of them failed.
  bool failed() const;
  // Number, bytes and hash as of the last sync; number 0 before the first.
  ManifestNote Synced() const;

 private:
  struct FreeState {
    void operator()(XXH3_state_t* state) const { XXH3_freeState(state); }
  };

  mutable std::mutex mutex_;
  const std::unique_ptr<XXH3_state_t, FreeState> hash_;
  ManifestNote written_;
  ManifestNote synced_;
  bool failed_ = false;
};

}  // namespace ckptdb::internal

#endif  // CKPTDB_DB_ROCKS_MANIFEST_NOTE_H_
