// SPDX-License-Identifier: Apache-2.0
// Adds versions to a store that has others of the same origin; internal to db/
// and remote/.
#ifndef CKPTDB_DB_TRANSFER_STORE_UPDATER_H_
#define CKPTDB_DB_TRANSFER_STORE_UPDATER_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "schema/records/records.h"
#include "schema/records/remote.h"
#include "schema/types.h"

namespace ckptdb::internal {

// A version of a store.
struct LocalVersion {
  StepRecord record;
  bool is_step = false;          // otherwise, steps may need some of its data
  std::string evaluations = {};  // keys and values of a step's entries
  bool saved_here = false;       // by an owner of this folder, not fetched
};

// The records of a store at one moment.
struct LocalStore {
  std::string path;  // resolved
  RootRecord root;
  std::vector<LocalVersion> versions;   // by version
  std::vector<AttemptRecord> attempts;  // by number

  const LocalVersion* Find(const Version& version) const;
  // Returns the version that is a step of this number, or null.
  const LocalVersion* FindStep(int64_t step) const;
};

// Reads the records without changing anything, beside an owner. Returns
// NotFound without a store.
absl::StatusOr<LocalStore> ReadLocalStore(absl::string_view path);

// A version that StoreUpdater::Add adds.
struct AddedVersion {
  Version version;
  const RemoteVersion* records = nullptr;
  bool is_step = false;
  // Complete tables below downloads() whose entries the store lacks.
  std::vector<std::string> tables = {};
};

// Owns a store and adds steps to it, while readers may have it open. A process
// that is killed leaves the store as it was, or with all versions of an Add.
// Used by one thread.
class StoreUpdater {
 public:
  using OnPoint = std::function<void(absl::string_view point)>;

  // Returns NotFound without a store, and Unavailable if it has another owner
  // or if another process uses PATH.unfinished. `on_point` may be empty.
  static absl::StatusOr<std::unique_ptr<StoreUpdater>> Open(
      absl::string_view path, OnPoint on_point);
  virtual ~StoreUpdater() = default;

  // The store's content after the last Add. Only `attempts` stays as it was
  // when the store was opened.
  virtual const LocalStore& store() const = 0;
  // A folder for data files, on the file system of the store. They stay there
  // until Close, so that the next updater for the path finds them after an
  // error.
  virtual const std::string& downloads() const = 0;
  // Whether the store has the entries of a data file.
  virtual bool HasFile(const RemoteFile& file) const = 0;

  // Adds versions in one durable batch, and takes the next attempt and the
  // metadata from `root`, the root record of the store that they come from. A
  // version replaces its record of an earlier Add; a step replaces the stored
  // version of the same step, whose data stays for chains. Returns DataLoss if
  // records contradict each other, or if a table has data of another version,
  // and ResourceExhausted if disk space is short.
  virtual absl::Status Add(const std::vector<AddedVersion>& versions,
                           const RootRecord& root) = 0;

  // Replaces the records of steps with those that RevisedRecord returns, and
  // adds evaluations, in one durable batch.
  virtual absl::Status Revise(const std::vector<AddedVersion>& versions) = 0;

  // Closes the store and removes the downloads.
  virtual absl::Status Close() = 0;
};

// Returns a stored step's record `own`, revised from a newer record of the same
// version. The store's pins, quarantines and metrics stay; a metric in both
// takes its value from `newer`.
StepRecord RevisedRecord(const StepRecord& own, StepRecord newer);

// Removes PATH.unfinished if an earlier call left it.
absl::Status RemoveUnfinished(absl::string_view path);

// Returns the steps that were saved before the `keep` most recently saved ones
// that are not quarantined, without those that are pinned.
std::vector<int64_t> StepsBeyond(std::vector<StepRecord> steps, uint64_t keep);

// Deletes the steps that StepsBeyond returns, and frees their space unless
// readers use it. Returns the steps.
absl::StatusOr<std::vector<int64_t>> KeepNewestSteps(
    absl::string_view path, uint64_t keep,
    const StoreUpdater::OnPoint& on_point);

}  // namespace ckptdb::internal

#endif  // CKPTDB_DB_TRANSFER_STORE_UPDATER_H_
