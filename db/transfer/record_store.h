// SPDX-License-Identifier: Apache-2.0
// A store in memory that has the records of versions, but not their data files;
// internal to db/ and remote/.
#ifndef CKPTDB_DB_TRANSFER_RECORD_STORE_H_
#define CKPTDB_DB_TRANSFER_RECORD_STORE_H_

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "db/base/outside_files.h"
#include "schema/records/records.h"
#include "schema/records/remote.h"
#include "schema/types.h"

namespace ckptdb::internal {

class Environment;

// A store that Reader::Open opens at path() of environment(). Scans read the
// data files where they are. Readers may have it open while it is changed.
class RecordStore {
 public:
  // A change that takes effect at once. Thread-safe.
  class Change {
   public:
    virtual ~Change() = default;
    // Removes a version, which must be in the store, with this use. Comes
    // before an Add of the same version.
    virtual absl::Status Remove(const Version& version, bool is_step) = 0;
    // Adds a version: see StoreBuilder::Add.
    virtual absl::Status Add(const Version& version,
                             const RemoteVersion& records, bool is_step,
                             std::vector<OutsideTable> tables) = 0;
  };

  // Makes a store without steps at `path`, which names it in errors.
  static absl::StatusOr<std::unique_ptr<RecordStore>> Create(
      absl::string_view path, std::shared_ptr<OutsideFiles> files);
  virtual ~RecordStore() = default;

  virtual const std::string& path() const = 0;
  virtual const std::shared_ptr<Environment>& environment() const = 0;

  // Calls `make`, whose changes, with this root, take effect if it succeeds.
  // Used by one thread at a time.
  virtual absl::Status Apply(
      const RootRecord& root,
      const std::function<absl::Status(Change* change)>& make) = 0;
};

}  // namespace ckptdb::internal

#endif  // CKPTDB_DB_TRANSFER_RECORD_STORE_H_
