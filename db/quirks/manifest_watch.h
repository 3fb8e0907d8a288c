// SPDX-License-Identifier: Apache-2.0
// Follows the MANIFEST as RocksDB writes it; internal to db/.
//
// A MANIFEST only grows, and a truncated one is a valid older one: RocksDB
// treats a truncated record, or one with a damaged length, as the end. So its
// length and hash are recorded next to the database and checked by each open
// (db/rocks/manifest_note.h): steps would silently disappear otherwise.
#ifndef CKPTDB_DB_QUIRKS_MANIFEST_WATCH_H_
#define CKPTDB_DB_QUIRKS_MANIFEST_WATCH_H_

#include <rocksdb/file_system.h>
#include <xxhash.h>

#include <cstdint>
#include <memory>

#include "absl/strings/string_view.h"
#include "db/base/mutex.h"

namespace ckptdb::internal {

// The beginning of a MANIFEST.
struct ManifestState {
  uint64_t number = 0;  // from its name; 0 for no MANIFEST
  uint64_t bytes = 0;
  uint64_t hash = 0;  // XXH3-64 of these bytes
};

// Follows the MANIFEST as it is written. Thread-safe.
class ManifestWatch {
 public:
  ManifestWatch();

  // Begins a new file. Calls about older files then have no effect.
  void Start(uint64_t number);
  void Append(uint64_t number, absl::string_view bytes);
  void Sync(uint64_t number);
  // Reports that CURRENT durably names the newest file.
  void Named();
  // Reports that a write or a sync of a MANIFEST failed.
  void Fail();

  // Returns whether any write has failed.
  bool failed() const;
  // Returns the state as of the last sync of a file that CURRENT names. A file
  // is synced once before CURRENT names it, and again only afterwards.
  ManifestState Synced() const;

 private:
  struct FreeState {
    void operator()(XXH3_state_t* state) const { XXH3_freeState(state); }
  };

  mutable Mutex mutex_;
  const std::unique_ptr<XXH3_state_t, FreeState> hash_
      ABSL_PT_GUARDED_BY(mutex_);
  ManifestState written_ ABSL_GUARDED_BY(mutex_);
  ManifestState first_synced_ ABSL_GUARDED_BY(mutex_);  // of the newest file
  ManifestState synced_ ABSL_GUARDED_BY(mutex_);
  bool failed_ ABSL_GUARDED_BY(mutex_) = false;
};

// Wraps `file`, the MANIFEST of this number, so that `watch` follows all writes
// to it.
std::unique_ptr<rocksdb::FSWritableFile> WatchManifest(
    std::unique_ptr<rocksdb::FSWritableFile> file, uint64_t number,
    std::shared_ptr<ManifestWatch> watch);

}  // namespace ckptdb::internal

#endif  // CKPTDB_DB_QUIRKS_MANIFEST_WATCH_H_
