// SPDX-License-Identifier: Apache-2.0
#include "db/transfer/version_source.h"

#include <rocksdb/options.h>
#include <rocksdb/sst_file_reader.h>
#include <rocksdb/system_clock.h>

#include <algorithm>
#include <random>
#include <set>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "db/base/cancelled.h"
#include "db/base/home_process.h"
#include "db/base/paths.h"
#include "db/disk/copy_file.h"
#include "db/disk/environment.h"
#include "db/disk/files.h"
#include "db/disk/rocks_status.h"
#include "db/disk/store_path.h"
#include "db/meta/catalog.h"
#include "db/rocks/database.h"
#include "db/store/reader_leases.h"
#include "schema/bytes/keys.h"
#include "schema/bytes/page.h"
#include "schema/records/store_parts.h"
#include "schema/status.h"

namespace ckptdb::internal {
namespace {

class StoreVersions : public VersionSource {
 public:
  explicit StoreVersions(std::string store)
      : store_(std::move(store)),
        leases_(store_, StoreOptions(), Environment::Default()) {}

  absl::Status Open();

  const RootRecord& root() const override { return records_.root; }
  std::vector<StepRecord> Steps() const override { return records_.Steps(); }
  const StepRecord* FindVersion(const Version& version) const override {
    return records_.FindVersion(version);
  }
  bool IsStep(const Version& version) const override;
  absl::StatusOr<std::vector<VersionFile>> FilesOf(
      const Version& version) const override;
  absl::StatusOr<uint64_t> RecordHash(const StepRecord& record) const override;
  absl::StatusOr<RemoteVersion> ReadRecords(
      const StepRecord& record) const override;
  absl::StatusOr<VersionContent> Read(const StepRecord& record) const override;
  absl::StatusOr<uint64_t> HashOf(
      const VersionFile& file,
      const std::function<bool()>& cancelled) const override;

 private:
  absl::StatusOr<bool> Try();
  absl::Status CheckWhole() const;
  absl::StatusOr<std::vector<std::string>> ReadRanks(
      const StepRecord& record) const;
  absl::Status CheckUndamaged(const Version& version,
                              const std::vector<VersionFile>& files) const;
  absl::StatusOr<KeysAndValues> Entries(Family family,
                                        const std::string& prefix) const;

  const std::string store_;
  ReaderLeases leases_;
  std::unique_ptr<Database> database_;
  Catalog records_;
  std::shared_ptr<void> lease_;
};

// An owner that saves many times a second may commit between a look at its
// records and the lease, so several looks are taken.
absl::Status StoreVersions::Open() {
  constexpr int kTries = 500;
  constexpr int kMostPauseMicros = 20'000;
  std::minstd_rand random(std::random_device{}());
  std::uniform_int_distribution<int> pause_micros(0, kMostPauseMicros);
  for (int i = 0; i < kTries; ++i) {
    CKPTDB_ASSIGN_OR_RETURN(const bool done, Try());
    if (done) return CheckWhole();
    rocksdb::SystemClock::Default()->SleepForMicroseconds(pause_micros(random));
  }
  return absl::UnavailableError(
      absl::StrCat("\"", store_, "\" could not be read in ", kTries,
                   " tries, because its owner wrote to it during each"));
}

absl::Status StoreVersions::CheckWhole() const {
  if (!records_.root.parts.has_value()) return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrCat(
      "\"", store_, "\" was fetched with only ", Describe(*records_.root.parts),
      ", so its steps cannot be shipped"));
}

// The sweep reads leases after the commit that retires a step, so a lease that
// is written while nothing is committed keeps all steps of that moment.
absl::StatusOr<bool> StoreVersions::Try() {
  lease_.reset();
  CKPTDB_ASSIGN_OR_RETURN(
      database_, Database::OpenFollower(store_, *Environment::Default(), true));
  CKPTDB_ASSIGN_OR_RETURN(records_, LoadCatalog(*database_));
  std::set<Version> versions;
  for (const auto& [step, record] : records_.steps) {
    for (const Version& version : VersionsOf(record)) versions.insert(version);
  }
  if (!versions.empty()) {
    CKPTDB_ASSIGN_OR_RETURN(ReaderLeases::Taken taken,
                            leases_.Take(records_.steps.rbegin()->first,
                                         {versions.begin(), versions.end()}));
    lease_ = std::move(taken.lease);
  }
  return database_->IsCurrent();
}

absl::StatusOr<KeysAndValues> StoreVersions::Entries(
    Family family, const std::string& prefix) const {
  KeysAndValues entries;
  CKPTDB_RETURN_IF_ERROR(database_->ForEach(
      family, prefix, [&](absl::string_view key, absl::string_view value) {
        entries.emplace_back(std::string(key), std::string(value));
        return absl::OkStatus();
      }));
  return entries;
}

bool StoreVersions::IsStep(const Version& version) const {
  const auto step = records_.steps.find(version.step);
  return step != records_.steps.end() && step->second.version == version;
}

absl::StatusOr<uint64_t> StoreVersions::RecordHash(
    const StepRecord& record) const {
  CKPTDB_ASSIGN_OR_RETURN(const RemoteVersion records, ReadRecords(record));
  std::string bytes = records.step_record;
  for (const auto& [key, value] : records.evaluations) {
    absl::StrAppend(&bytes, key, value);
  }
  return HashBytes(bytes);
}

// Returns the stored bytes, which the digests in the step record cover.
absl::StatusOr<std::vector<std::string>> StoreVersions::ReadRanks(
    const StepRecord& record) const {
  std::vector<std::string> ranks;
  for (uint32_t rank = 0; rank < record.world_size; ++rank) {
    absl::StatusOr<std::string> bytes =
        database_->Get(Family::kMeta, RankKey(record.version, rank));
    const std::string place =
        absl::StrCat(ToString(record.version), " rank ", rank);
    if (absl::IsNotFound(bytes.status())) {
      return absl::DataLossError(
          absl::StrCat(place, ": its record is missing"));
    }
    CKPTDB_RETURN_IF_ERROR(bytes.status());
    if (HashBytes(*bytes) != record.rank_digests[rank]) {
      return absl::DataLossError(
          absl::StrCat(place, ": record hash ", absl::Hex(HashBytes(*bytes)),
                       " does not match ", absl::Hex(record.rank_digests[rank]),
                       " of the step record"));
    }
    ranks.push_back(*std::move(bytes));
  }
  return ranks;
}

// Versions share no files, so a file belongs to the version of its first key.
absl::StatusOr<std::vector<VersionFile>> StoreVersions::FilesOf(
    const Version& version) const {
  std::vector<VersionFile> files;
  const std::string begin = VersionPrefix(version);
  const std::string end = VersionEnd(version);
  for (const auto& file : database_->FilesOf(Family::kBulk)) {
    if (file.largestkey < begin || file.smallestkey >= end) continue;
    const std::string name =
        file.relative_filename.substr(file.relative_filename.rfind('/') + 1);
    const std::string path = absl::StrCat(DatabasePath(store_), "/", name);
    if (file.smallestkey < begin || file.largestkey >= end) {
      return absl::DataLossError(
          absl::StrCat("\"", path, "\" has data of ", ToString(version),
                       " and of another version; it cannot be shipped"));
    }
    files.push_back({path, file.size, file.smallestkey, file.largestkey});
  }
  std::sort(files.begin(), files.end(),
            [](const VersionFile& a, const VersionFile& b) {
              return a.first_key < b.first_key;
            });
  return files;
}

absl::Status StoreVersions::CheckUndamaged(
    const Version& version, const std::vector<VersionFile>& files) const {
  for (const VersionFile& file : files) {
    const std::string name = file.path.substr(file.path.rfind('/') + 1);
    if (!database_->corrupt_tables().contains(name)) continue;
    return absl::DataLossError(absl::StrCat("\"", file.path, "\", which ",
                                            ToString(version),
                                            " needs, is missing or damaged"));
  }
  return absl::OkStatus();
}

absl::StatusOr<RemoteVersion> StoreVersions::ReadRecords(
    const StepRecord& record) const {
  RemoteVersion records;
  CKPTDB_ASSIGN_OR_RETURN(records.step_record, EncodeStepRecord(record));
  CKPTDB_ASSIGN_OR_RETURN(
      records.evaluations,
      Entries(Family::kMeta, EvaluationKeyPrefix(record.version)));
  return records;
}

absl::StatusOr<VersionContent> StoreVersions::Read(
    const StepRecord& record) const {
  VersionContent content;
  CKPTDB_ASSIGN_OR_RETURN(content.records, ReadRecords(record));
  CKPTDB_ASSIGN_OR_RETURN(content.records.rank_records, ReadRanks(record));
  CKPTDB_ASSIGN_OR_RETURN(
      content.records.inline_entries,
      Entries(Family::kInline, VersionPrefix(record.version)));
  CKPTDB_ASSIGN_OR_RETURN(content.files, FilesOf(record.version));
  CKPTDB_RETURN_IF_ERROR(CheckUndamaged(record.version, content.files));
  return content;
}

// Compares the checksums of all blocks: a damaged table must not be shipped
// with a hash that fits it. The file was just read, and is in the page cache.
absl::Status CheckBlocks(const std::string& path) {
  constexpr size_t kReadAheadBytes = size_t{2} << 20;
  rocksdb::ReadOptions options;
  options.readahead_size = kReadAheadBytes;
  rocksdb::SstFileReader table((rocksdb::Options()));
  rocksdb::Status status = table.Open(path);
  if (status.ok()) status = table.VerifyChecksum(options);
  return FromRocksRead(status, path);
}

absl::StatusOr<uint64_t> ReadHash(const VersionFile& file,
                                  const std::function<bool()>& cancelled) {
  absl::StatusOr<CopiedBytes> read =
      HashFile(Environment::Default()->file_system().get(), file.path,
               [&](uint64_t) { return CheckCancelled(cancelled); });
  CKPTDB_RETURN_IF_ERROR(read.status());
  if (read->bytes != file.bytes) {
    return absl::DataLossError(absl::StrCat("\"", file.path, "\" has ",
                                            read->bytes, " bytes, expected ",
                                            file.bytes));
  }
  CKPTDB_RETURN_IF_ERROR(CheckBlocks(file.path));
  return read->hash;
}

// A sweep that had read the leases before this one was written may remove files
// that no step needs.
absl::StatusOr<uint64_t> StoreVersions::HashOf(
    const VersionFile& file, const std::function<bool()>& cancelled) const {
  absl::StatusOr<uint64_t> hash = ReadHash(file, cancelled);
  if (hash.ok()) return hash;
  const absl::StatusOr<bool> exists =
      Exists(Environment::Default()->file_system().get(), file.path);
  if (!exists.ok() || *exists) return hash;
  return absl::UnavailableError(
      absl::StrCat("\"", file.path,
                   "\" was removed by a sweep of the store's owner while it "
                   "was read; push again"));
}

}  // namespace

std::vector<Version> NeedsOf(const StepRecord& record) {
  std::vector<Version> needs = VersionsOf(record);
  std::erase(needs, record.version);
  return needs;
}

absl::StatusOr<std::unique_ptr<VersionSource>> OpenVersionSource(
    absl::string_view path) {
  CKPTDB_RETURN_IF_ERROR(EnterLibrary("OpenVersionSource"));
  CKPTDB_ASSIGN_OR_RETURN(const std::string store, ResolveStorePath(path));
  auto versions = std::make_unique<StoreVersions>(store);
  CKPTDB_RETURN_IF_ERROR(versions->Open());
  return versions;
}

}  // namespace ckptdb::internal
