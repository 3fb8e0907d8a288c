// SPDX-License-Identifier: Apache-2.0
#include "db/store/store_snapshot.h"

#include <rocksdb/system_clock.h>
#include <sys/stat.h>

#include <algorithm>
#include <random>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "db/base/cancelled.h"
#include "db/base/paths.h"
#include "db/meta/posts.h"
#include "schema/status.h"

namespace ckptdb::internal {
namespace {

constexpr char kDatabase[] = "db/";

std::string NameIn(const std::string& path) {
  return path.substr(path.rfind('/') + 1);
}

bool IsSameFile(const Entry& one, const Entry& other) {
  return one.inode == other.inode && one.device == other.device;
}

// A copy that an interrupted call has completed. RocksDB uses no number twice,
// unless the store was rolled back by other means; then the file is newer than
// its copy.
bool IsCopyOf(const Entry& source, const Entry& found) {
  return !IsSameFile(source, found) && found.bytes == source.bytes &&
         found.modified_s >= source.modified_s;
}

}  // namespace

FileModes ModesOfStore(const std::string& store) {
  constexpr mode_t kModeBits = 07777;
  FileModes modes;
  struct stat found {};
  if (::stat(DatabasePath(store).c_str(), &found) == 0) {
    modes.directory = (found.st_mode & kModeBits) | S_IRWXU;
  }
  if (::stat((DatabasePath(store) + "/CURRENT").c_str(), &found) == 0) {
    modes.file = (found.st_mode & kModeBits) | S_IRUSR | S_IWUSR;
  }
  return modes;
}

StoreSnapshot::StoreSnapshot(std::string store, std::string into,
                             std::vector<EarlierFiles> earlier,
                             const CopyOptions& options)
    : store_(std::move(store)),
      into_(std::move(into)),
      earlier_(std::move(earlier)),
      options_(options),
      files_(std::make_unique<GuardedFileSystem>(environment_->file_system(),
                                                 ModesOfStore(store_))),
      leases_(store_, StoreOptions(), environment_) {}

absl::Status StoreSnapshot::Take() {
  // An owner that saves many times a second may write during many tries, as
  // when a follower opens the store.
  constexpr int kTries = 500;
  constexpr int kMostPauseMicros = 20'000;
  std::minstd_rand random(std::random_device{}());
  std::uniform_int_distribution<int> pause_micros(0, kMostPauseMicros);
  CKPTDB_RETURN_IF_ERROR(ProbeLinks());
  for (int i = 0; i < kTries; ++i) {
    bool again = false;
    absl::Status status = Try(&again);
    if (!again) return status;
    CKPTDB_RETURN_IF_ERROR(CheckCancelled(options_.cancelled));
    rocksdb::SystemClock::Default()->SleepForMicroseconds(pause_micros(random));
  }
  return absl::UnavailableError(
      absl::StrCat("\"", store_, "\" could not be copied in ", kTries,
                   " tries, because its owner wrote to it during each"));
}

// Links do not reach another file system, and a user may only link own files.
absl::Status StoreSnapshot::ProbeLinks() {
  links_ = options_.links;
  if (!links_) return absl::OkStatus();
  CKPTDB_RETURN_IF_ERROR(MakeFolders(files_.get(), into_));
  const std::string probe = To(kLinkProbeName);
  links_ = LinkFile(files_.get(), From("db/CURRENT"), probe).ok();
  return RemoveFile(files_.get(), probe);
}

// Sets `again` if the owner has changed the store meanwhile. Data files brought
// by then are kept for the next try. Files are synced only after the check,
// since a sync may take longer than the pauses between the owner's saves.
absl::Status StoreSnapshot::Try(bool* again) {
  noted_.clear();
  unsynced_.clear();
  bad_files_.clear();
  new_bytes_ = done_bytes_ = all_bytes_ = 0;
  const std::string database_path = DatabasePath(store_);
  CKPTDB_ASSIGN_OR_RETURN(const std::unique_ptr<Database> database,
                          Database::OpenFollower(store_, *environment_, true));
  const auto state = ReadFolderState(files_.get(), database_path);
  CKPTDB_ASSIGN_OR_RETURN(const bool before, database->IsCurrent());
  *again = !before || !state.ok();
  if (*again) return absl::OkStatus();
  CKPTDB_ASSIGN_OR_RETURN(records_, LoadCatalog(*database));
  CKPTDB_RETURN_IF_ERROR(HoldData());
  absl::Status status = CopyRecords(*state);
  // The state was the same before the database was opened and after the files
  // were copied, so both are of one moment.
  CKPTDB_ASSIGN_OR_RETURN(const bool current, database->IsCurrent());
  *again = !current;
  if (*again) return absl::OkStatus();
  CKPTDB_RETURN_IF_ERROR(status);
  status = BringTables(*database);
  // The owner has removed a data file that no step needs.
  *again = absl::IsNotFound(status);
  if (*again) return absl::OkStatus();
  CKPTDB_RETURN_IF_ERROR(status);
  for (const std::string& path : unsynced_) {
    CKPTDB_RETURN_IF_ERROR(SyncFile(files_.get(), To(path)));
  }
  return RemoveOthers();
}

// Copying takes long, so a lease keeps the owner from removing the data
// meanwhile. Links take no time: if a file is removed first, the next try finds
// the newer state.
absl::Status StoreSnapshot::HoldData() {
  if (links_ || records_.steps.empty()) return absl::OkStatus();
  std::set<Version> versions;
  for (const auto& [step, record] : records_.steps) {
    for (const Version& version : VersionsOf(record)) versions.insert(version);
  }
  CKPTDB_ASSIGN_OR_RETURN(ReaderLeases::Taken taken,
                          leases_.Take(records_.steps.rbegin()->first,
                                       {versions.begin(), versions.end()}));
  lease_ = std::move(taken.lease);
  return absl::OkStatus();
}

absl::Status StoreSnapshot::CopyRecords(const FolderState& state) {
  CKPTDB_RETURN_IF_ERROR(MakeFolders(files_.get(), DatabasePath(into_)));
  CKPTDB_RETURN_IF_ERROR(MakeFolders(files_.get(), PostsPath(into_)));
  // Read before the MANIFEST that it describes, so that it is not newer.
  CKPTDB_RETURN_IF_ERROR(CopySmall("WATERMARK", /*required=*/false));
  CKPTDB_RETURN_IF_ERROR(CopySmall("db/CURRENT", /*required=*/true));
  CKPTDB_RETURN_IF_ERROR(CopySmall("db/IDENTITY", /*required=*/false));
  CKPTDB_RETURN_IF_ERROR(CopyPrefixes(state.manifest));
  CKPTDB_RETURN_IF_ERROR(CopyPrefixes(state.logs));
  return CopyPosts();
}

// "MANIFEST-000012 4096 " and the like, as in FolderState.
absl::Status StoreSnapshot::CopyPrefixes(const std::string& names_and_sizes) {
  const std::vector<std::string> parts =
      absl::StrSplit(names_and_sizes, ' ', absl::SkipEmpty());
  for (size_t i = 0; i + 1 < parts.size(); i += 2) {
    const std::string path = kDatabase + parts[i];
    uint64_t bytes = 0;
    if (!absl::SimpleAtoi(parts[i + 1], &bytes)) {
      return absl::InternalError(absl::StrCat("no size in ", names_and_sizes));
    }
    CKPTDB_RETURN_IF_ERROR(CopyUnsynced(path, bytes));
  }
  return absl::OkStatus();
}

absl::Status StoreSnapshot::CopyUnsynced(const std::string& path,
                                         uint64_t max_bytes) {
  CKPTDB_ASSIGN_OR_RETURN(
      const CopiedBytes copied,
      CopyFile(
          files_.get(), From(path), To(path), max_bytes,
          [&](uint64_t) { return CheckCancelled(options_.cancelled); },
          /*sync=*/false));
  unsynced_.push_back(path);
  Note(path, copied.bytes, copied.hash);
  new_bytes_ += copied.bytes;
  return absl::OkStatus();
}

absl::Status StoreSnapshot::CopySmall(const std::string& path, bool required) {
  absl::Status copied = CopyUnsynced(path, kAllBytes);
  if (absl::IsNotFound(copied) && !required) return absl::OkStatus();
  return copied;
}

absl::Status StoreSnapshot::CopyPosts() {
  CKPTDB_ASSIGN_OR_RETURN(const std::vector<std::string> names,
                          ListPosts(files_.get(), store_));
  for (const std::string& name : names) {
    CKPTDB_RETURN_IF_ERROR(CopySmall("posts/" + name, /*required=*/false));
  }
  return absl::OkStatus();
}

absl::Status StoreSnapshot::BringTables(const Database& database) {
  std::vector<std::string> paths;
  // Records and small saves come first, because the owner compacts them.
  for (const Family family :
       {Family::kMeta, Family::kInline, Family::kDefault, Family::kBulk}) {
    for (const rocksdb::LiveFileMetaData& file : database.FilesOf(family)) {
      paths.push_back(absl::StrCat(kDatabase, NameIn(file.relative_filename)));
      all_bytes_ += file.size;
    }
  }
  for (const std::string& path : paths) {
    CKPTDB_RETURN_IF_ERROR(CheckCancelled(options_.cancelled));
    const absl::Status brought = BringTable(path);
    // A table that was missing when the database was opened stays so.
    if (absl::IsNotFound(brought) &&
        database.corrupt_tables().contains(NameIn(path))) {
      bad_files_.push_back(path);
      continue;
    }
    CKPTDB_RETURN_IF_ERROR(brought);
  }
  return absl::OkStatus();
}

absl::Status StoreSnapshot::BringTable(const std::string& path) {
  CKPTDB_ASSIGN_OR_RETURN(const Entry source, LookAt(files_.get(), From(path)));
  const EarlierFiles* const earlier = FindEarlier(path, source);
  if (earlier == nullptr) new_bytes_ += source.bytes;
  const absl::StatusOr<Entry> found = LookAt(files_.get(), To(path));
  if (found.ok() && IsSameFile(source, *found) && links_) {
    Note(path, source.bytes, std::nullopt);
    return Report(source.bytes);
  }
  if (found.ok() && IsCopyOf(source, *found)) {
    CKPTDB_ASSIGN_OR_RETURN(
        const CopiedBytes kept,
        HashFile(files_.get(), To(path),
                 [&](uint64_t bytes) { return Report(bytes); }));
    Note(path, kept.bytes, kept.hash);
    return absl::OkStatus();
  }
  if (links_) {
    absl::Status linked = LinkFile(files_.get(), From(path), To(path));
    if (linked.ok()) Note(path, source.bytes, std::nullopt);
    if (linked.ok()) return Report(source.bytes);
    if (absl::IsNotFound(linked)) return linked;
  }
  if (earlier != nullptr &&
      LinkFile(files_.get(), absl::StrCat(earlier->path, "/", path), To(path))
          .ok()) {
    Note(path, source.bytes, earlier->files.at(path).hash);
    return Report(source.bytes);
  }
  return CopyTable(path, source);
}

absl::Status StoreSnapshot::CopyTable(const std::string& path,
                                      const Entry& source) {
  CKPTDB_ASSIGN_OR_RETURN(
      const CopiedBytes copied,
      CopyFile(files_.get(), From(path), To(path), kAllBytes,
               [&](uint64_t bytes) { return Report(bytes); }));
  if (copied.bytes != source.bytes) {
    return absl::DataLossError(absl::StrCat("\"", From(path), "\" has ",
                                            copied.bytes, " bytes, expected ",
                                            source.bytes));
  }
  Note(path, copied.bytes, copied.hash);
  return absl::OkStatus();
}

const EarlierFiles* StoreSnapshot::FindEarlier(const std::string& path,
                                               const Entry& source) const {
  for (const EarlierFiles& earlier : earlier_) {
    const auto noted = earlier.files.find(path);
    if (noted == earlier.files.end()) continue;
    const absl::StatusOr<Entry> found =
        LookAt(files_.get(), absl::StrCat(earlier.path, "/", path));
    if (!found.ok()) continue;
    const bool linked = links_ && IsSameFile(source, *found);
    if (linked || IsCopyOf(source, *found)) return &earlier;
  }
  return nullptr;
}

// Removes files of an older state, which earlier tries brought.
absl::Status StoreSnapshot::RemoveOthers() {
  std::set<std::string> kept;
  for (const NotedFile& file : noted_) kept.insert(file.path);
  for (const std::string folder : {"db", "posts"}) {
    CKPTDB_ASSIGN_OR_RETURN(const std::vector<std::string> names,
                            ListFolder(files_.get(), To(folder)));
    for (const std::string& name : names) {
      const std::string path = absl::StrCat(folder, "/", name);
      if (kept.contains(path)) continue;
      CKPTDB_RETURN_IF_ERROR(RemoveTree(files_.get(), To(path)));
    }
    CKPTDB_RETURN_IF_ERROR(SyncFolder(files_.get(), To(folder)));
  }
  return SyncFolder(files_.get(), into_);
}

absl::Status StoreSnapshot::Report(uint64_t bytes) {
  done_bytes_ += bytes;
  if (options_.progress) {
    options_.progress(done_bytes_, std::max(done_bytes_, all_bytes_));
  }
  return CheckCancelled(options_.cancelled);
}

void StoreSnapshot::Note(std::string path, uint64_t bytes,
                         std::optional<uint64_t> hash) {
  noted_.push_back({std::move(path), bytes, hash});
}

}  // namespace ckptdb::internal
