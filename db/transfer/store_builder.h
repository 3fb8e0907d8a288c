// SPDX-License-Identifier: Apache-2.0
// Makes a store from versions of another one; internal to db/ and remote/.
#ifndef CKPTDB_DB_TRANSFER_STORE_BUILDER_H_
#define CKPTDB_DB_TRANSFER_STORE_BUILDER_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "schema/records/records.h"
#include "schema/records/remote.h"
#include "schema/types.h"

namespace ckptdb::internal {

// A store that appears at a path complete and at once.
//
// It is made in PATH.unfinished, which stays after an error, so that the next
// builder for the path continues with the files in downloads(). Used by one
// thread at a time.
class StoreBuilder {
 public:
  // Returns AlreadyExists if `path` exists, unless it is an empty folder or a
  // store without steps that is not store `uuid`, which Finish replaces.
  // Returns Unavailable while another process makes a store there, or has it
  // open for writing.
  static absl::StatusOr<std::unique_ptr<StoreBuilder>> Begin(
      absl::string_view path, absl::string_view uuid);
  virtual ~StoreBuilder() = default;

  // A folder for data files, on the file system of the store.
  virtual const std::string& downloads() const = 0;

  // Adds a version, before Finish. Unless `is_step`, steps only need its data.
  // Returns DataLoss if the records contradict each other, or are not those of
  // `version`.
  virtual absl::Status Add(const Version& version, const RemoteVersion& records,
                           bool is_step) = 0;

  // Moves these data files, which are below downloads(), into the store, gives
  // it this root, and moves it to its path. Returns DataLoss if a file has data
  // of other versions, or if the store does not open with all its steps.
  virtual absl::Status Finish(const RootRecord& root,
                              const std::vector<std::string>& tables) = 0;
};

// Returns the XXH3-64 of a file, or NotFound. `cancelled` may be empty.
absl::StatusOr<uint64_t> HashOfFile(const std::string& path,
                                    const std::function<bool()>& cancelled);

}  // namespace ckptdb::internal

#endif  // CKPTDB_DB_TRANSFER_STORE_BUILDER_H_
