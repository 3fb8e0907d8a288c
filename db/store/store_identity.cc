// SPDX-License-Identifier: Apache-2.0
#include "db/store/store_identity.h"

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "db/base/uuid.h"
#include "db/disk/rocks_status.h"
#include "db/store.h"
#include "db/store/store_folder.h"
#include "db/store/store_snapshot.h"
#include "schema/bytes/keys.h"
#include "schema/records/records.h"
#include "schema/status.h"

namespace ckptdb::internal {
namespace {

// New files get the modes of existing ones.
StoreOptions IdentityOptions(const std::string& path) {
  const FileModes modes = ModesOfStore(path);
  StoreOptions options;
  options.directory_mode = modes.directory;
  options.file_mode = modes.file;
  options.create_if_missing = false;
  options.background_sweep = false;
  return options;
}

struct KeyedRecord {
  std::string key;
  StepRecord* record = nullptr;
};

// Returns the records of all versions, parents first. The attempts do not give
// this order: a parent that is folded while a step on top of it is being saved
// gets a later attempt than the step.
std::vector<KeyedRecord> ParentsFirst(Catalog* catalog) {
  std::map<Version, KeyedRecord> waiting;
  for (auto& [step, record] : catalog->steps) {
    waiting[record.version] = {StepKey(step), &record};
  }
  for (auto& [version, record] : catalog->retired) {
    waiting[version] = {RetiredKey(version), &record};
  }
  std::vector<KeyedRecord> records;
  while (!waiting.empty()) {
    std::vector<KeyedRecord> line;  // from a record to its oldest ancestor
    for (auto next = waiting.begin(); next != waiting.end();) {
      line.push_back(next->second);
      waiting.erase(next);
      const StepRecord& record = *line.back().record;
      next = record.has_parent ? waiting.find(record.parent) : waiting.end();
    }
    records.insert(records.end(), line.rbegin(), line.rend());
  }
  return records;
}

absl::Status PutRecord(const KeyedRecord& keyed, const Database& database,
                       ChangeBatch* batch) {
  CKPTDB_ASSIGN_OR_RETURN(const std::string bytes,
                          EncodeStepRecord(*keyed.record));
  return FromRocks(batch->Put(database.family(Family::kMeta), keyed.key, bytes),
                   "step record");
}

}  // namespace

absl::Status ChangeStoreIdentity(const std::string& path) {
  {
    CKPTDB_ASSIGN_OR_RETURN(const std::unique_ptr<Store> store,
                            Store::Open(path, IdentityOptions(path)));
    CKPTDB_RETURN_IF_ERROR(store->TakePosts());
    CKPTDB_RETURN_IF_ERROR(store->Close());
  }
  CKPTDB_ASSIGN_OR_RETURN(StoreFolder::Opened opened,
                          StoreFolder::Open(path, IdentityOptions(path)));
  const Database& database = opened.folder->database();
  RootRecord root = opened.records.root;
  root.uuid = NewUuid();
  CKPTDB_ASSIGN_OR_RETURN(const std::string root_bytes, EncodeRootRecord(root));
  ChangeBatch batch;
  CKPTDB_RETURN_IF_ERROR(FromRocks(
      batch.Put(database.family(Family::kMeta), RootKey(), root_bytes),
      "root record"));
  std::map<Version, uint64_t> digests;
  for (const KeyedRecord& keyed : ParentsFirst(&opened.records)) {
    StepRecord& record = *keyed.record;
    record.store_uuid = root.uuid;
    // The digest of a parent without a record is never compared.
    const auto parent = digests.find(record.parent);
    if (record.has_parent && parent != digests.end()) {
      record.parent_digest = parent->second;
    }
    digests[record.version] = LineageDigest(record);
    CKPTDB_RETURN_IF_ERROR(PutRecord(keyed, database, &batch));
  }
  CKPTDB_RETURN_IF_ERROR(opened.folder->CheckDiskSpaceFor(batch));
  CKPTDB_RETURN_IF_ERROR(opened.folder->WriteDurably(&batch));
  return opened.folder->Close();
}

}  // namespace ckptdb::internal
