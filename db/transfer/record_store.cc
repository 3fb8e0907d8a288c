// SPDX-License-Identifier: Apache-2.0
#include "db/transfer/record_store.h"

#include <algorithm>
#include <map>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "db/base/home_process.h"
#include "db/base/mutex.h"
#include "db/disk/environment.h"
#include "db/disk/memory_file_system.h"
#include "db/rocks/outside_tables.h"
#include "db/store/store_folder.h"
#include "db/transfer/version_records.h"
#include "schema/bytes/keys.h"
#include "schema/status.h"

namespace ckptdb::internal {
namespace {

using TablesOf = std::map<Version, std::vector<OutsideTable>>;

class OneChange : public RecordStore::Change {
 public:
  OneChange(const Database& database, TablesOf* tables)
      : database_(database), tables_(tables) {}

  absl::Status Remove(const Version& version, bool is_step) override {
    const MutexLock lock(&mutex_);
    tables_->erase(version);
    return DeleteVersion(database_, version, is_step, &batch_);
  }
  absl::Status Add(const Version& version, const RemoteVersion& records,
                   bool is_step, std::vector<OutsideTable> tables) override {
    CKPTDB_ASSIGN_OR_RETURN(const StepRecord record,
                            CheckedRecord(version, records));
    const std::string prefix = VersionPrefix(version);
    for (const OutsideTable& table : tables) {
      if (absl::StartsWith(table.first_key, prefix) &&
          absl::StartsWith(table.last_key, prefix)) {
        continue;
      }
      return absl::DataLossError(
          absl::StrCat(table.name, " has entries of another version than ",
                       ToString(version)));
    }
    const MutexLock lock(&mutex_);
    (*tables_)[version] = std::move(tables);
    return PutVersion(database_, record, records, is_step, &batch_);
  }

  ChangeBatch* batch() { return &batch_; }

 private:
  const Database& database_;
  Mutex mutex_;
  TablesOf* const tables_;
  ChangeBatch batch_;
};

class RecordsInMemory : public RecordStore {
 public:
  RecordsInMemory(absl::string_view path, std::shared_ptr<OutsideFiles> files)
      : path_(path),
        files_(std::move(files)),
        environment_(std::make_shared<Environment>(
            NewMemoryFileSystem(),
            [] { return Environment::Default()->NowMicros(); },
            /*on_disk=*/false)) {}

  const std::string& path() const override { return path_; }
  const std::shared_ptr<Environment>& environment() const override {
    return environment_;
  }
  absl::Status Apply(
      const RootRecord& root,
      const std::function<absl::Status(Change* change)>& make) override;

 private:
  const std::string path_;
  const std::shared_ptr<OutsideFiles> files_;
  const std::shared_ptr<Environment> environment_;
  TablesOf tables_;
};

// A reader that opens the store meanwhile finds the tables of its records,
// whether these are the ones before the change or after it.
absl::Status RecordsInMemory::Apply(
    const RootRecord& root,
    const std::function<absl::Status(Change* change)>& make) {
  StoreOptions options;
  options.background_sweep = false;
  options.environment = environment_;
  CKPTDB_ASSIGN_OR_RETURN(StoreFolder::Opened opened,
                          StoreFolder::Open(path_, options));
  Database& database = opened.folder->database();
  TablesOf tables = tables_;
  OneChange change(database, &tables);
  CKPTDB_RETURN_IF_ERROR(make(&change));
  RootRecord next = root;
  next.owner_epoch = opened.records.root.owner_epoch;
  TablesOf both = tables;
  both.insert(tables_.begin(), tables_.end());
  std::vector<OutsideTable> all;
  for (const auto& [version, own] : both) {
    next.next_attempt = std::max(next.next_attempt, version.attempt + 1);
    all.insert(all.end(), own.begin(), own.end());
  }
  CKPTDB_RETURN_IF_ERROR(PutRoot(database, next, change.batch()));
  environment_->set_outside_tables(
      std::make_shared<OutsideTables>(files_, std::move(all)));
  CKPTDB_RETURN_IF_ERROR(opened.folder->WriteDurably(change.batch()));
  tables_ = std::move(tables);
  return opened.folder->Close();
}

}  // namespace

absl::StatusOr<std::unique_ptr<RecordStore>> RecordStore::Create(
    absl::string_view path, std::shared_ptr<OutsideFiles> files) {
  CKPTDB_RETURN_IF_ERROR(EnterLibrary("RecordStore::Create"));
  return std::make_unique<RecordsInMemory>(path, std::move(files));
}

}  // namespace ckptdb::internal
