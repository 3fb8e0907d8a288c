// SPDX-License-Identifier: Apache-2.0
// Brings the files of a store, as of one moment, to another folder, while its
// owner may write; internal to db/.
//
// A data file never changes, and the MANIFEST and the logs only grow. So the
// MANIFEST and the logs are copied between two looks at their sizes, and if
// these are equal, the copies are those of one moment, and name the data files
// of that moment. RocksDB's Checkpoint and BackupEngine need the owner's
// database; this works in any process.
#ifndef CKPTDB_DB_STORE_STORE_SNAPSHOT_H_
#define CKPTDB_DB_STORE_STORE_SNAPSHOT_H_

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "db/backup.h"
#include "db/disk/copy_file.h"
#include "db/disk/environment.h"
#include "db/disk/files.h"
#include "db/meta/catalog.h"
#include "db/rocks/database.h"
#include "db/rocks/folder_state.h"
#include "db/rocks/guarded_file_system.h"
#include "db/store/backup_note.h"
#include "db/store/reader_leases.h"

namespace ckptdb::internal {

// A folder with the same store's earlier files, which are linked rather than
// copied again.
struct EarlierFiles {
  std::string path;
  std::map<std::string, NotedFile> files;  // by path below it
};

class StoreSnapshot {
 public:
  // Both paths are resolved. `earlier` are on the file system of `into`.
  StoreSnapshot(std::string store, std::string into,
                std::vector<EarlierFiles> earlier, const CopyOptions& options);

  // Fills `into`, which may contain what an interrupted call left of the same
  // store.
  absl::Status Take();

  // What was taken.
  const Catalog& records() const { return records_; }
  const std::vector<NotedFile>& files() const { return noted_; }
  const std::vector<std::string>& bad_files() const { return bad_files_; }
  uint64_t new_bytes() const { return new_bytes_; }

 private:
  absl::Status ProbeLinks();
  absl::Status Try(bool* again);
  absl::Status HoldData();
  absl::Status CopyRecords(const FolderState& state);
  absl::Status CopyPrefixes(const std::string& names_and_sizes);
  absl::Status CopyUnsynced(const std::string& path, uint64_t max_bytes);
  absl::Status CopySmall(const std::string& path, bool required);
  absl::Status CopyPosts();
  absl::Status BringTables(const Database& database);
  absl::Status BringTable(const std::string& path);
  absl::Status CopyTable(const std::string& path, const Entry& source);
  const EarlierFiles* FindEarlier(const std::string& path,
                                  const Entry& source) const;
  absl::Status RemoveOthers();
  absl::Status Report(uint64_t bytes);
  std::string From(const std::string& path) const {
    return store_ + "/" + path;
  }
  std::string To(const std::string& path) const { return into_ + "/" + path; }
  void Note(std::string path, uint64_t bytes, std::optional<uint64_t> hash);

  const std::string store_;
  const std::string into_;
  const std::vector<EarlierFiles> earlier_;
  const CopyOptions& options_;
  const std::shared_ptr<Environment> environment_ = Environment::Default();
  const std::unique_ptr<GuardedFileSystem> files_;
  ReaderLeases leases_;
  std::shared_ptr<void> lease_;

  bool links_ = false;  // are possible and wanted
  Catalog records_;
  std::vector<NotedFile> noted_;
  std::vector<std::string> unsynced_;  // of `noted_`
  std::vector<std::string> bad_files_;
  uint64_t new_bytes_ = 0;
  uint64_t done_bytes_ = 0;
  uint64_t all_bytes_ = 0;
};

// A link that Take makes and removes, to find out whether links are possible.
inline constexpr char kLinkProbeName[] = "probe";

// Returns the modes of the store's folders and files, for its copy.
FileModes ModesOfStore(const std::string& store);

}  // namespace ckptdb::internal

#endif  // CKPTDB_DB_STORE_STORE_SNAPSHOT_H_
