// SPDX-License-Identifier: Apache-2.0
// The committed steps of a store, for a copy elsewhere; internal to db/ and
// remote/.
#ifndef CKPTDB_DB_TRANSFER_VERSION_SOURCE_H_
#define CKPTDB_DB_TRANSFER_VERSION_SOURCE_H_

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

// A table of bulk with data of one version.
struct VersionFile {
  std::string path;
  uint64_t bytes = 0;
  std::string first_key;
  std::string last_key;
};

// All that a store has of a version.
struct VersionContent {
  RemoteVersion records;  // without files
  std::vector<VersionFile> files;
};

// The steps of a store at one moment. Their data stays until this object is
// destroyed. Used by one thread at a time.
class VersionSource {
 public:
  virtual ~VersionSource() = default;

  virtual const RootRecord& root() const = 0;
  // Returns all steps, sorted by step.
  virtual std::vector<StepRecord> Steps() const = 0;
  // Returns the record of a version that is or was a step; null if it is
  // unknown.
  virtual const StepRecord* FindVersion(const Version& version) const = 0;
  // Whether a version is a step. The store then has all of its data; of others
  // it may have only the files that steps need.
  virtual bool IsStep(const Version& version) const = 0;
  // Returns the files that the store has of a version, which may be damaged.
  virtual absl::StatusOr<std::vector<VersionFile>> FilesOf(
      const Version& version) const = 0;
  // Returns a hash of what may still change after the commit: the step record
  // and the evaluations.
  virtual absl::StatusOr<uint64_t> RecordHash(
      const StepRecord& record) const = 0;
  // Returns the step record and the evaluations alone.
  virtual absl::StatusOr<RemoteVersion> ReadRecords(
      const StepRecord& record) const = 0;
  // Returns DataLoss if some of it is missing or damaged.
  virtual absl::StatusOr<VersionContent> Read(
      const StepRecord& record) const = 0;
  // Returns the XXH3-64 of a file, after comparing the checksums of its blocks;
  // DataLoss if one is damaged, and Unavailable if the owner's sweep has
  // removed it; a source that is opened then does not list it. `cancelled` may
  // be empty.
  virtual absl::StatusOr<uint64_t> HashOf(
      const VersionFile& file,
      const std::function<bool()>& cancelled) const = 0;
};

// Returns the other versions whose data a step needs, sorted: its chain, its
// references and its increment.
std::vector<Version> NeedsOf(const StepRecord& record);

// Opens the store at `path`, which an owner may have open, and writes a lease
// that keeps its steps. Returns NotFound without a store, and Unavailable if
// the owner commits too often for a look at one moment.
absl::StatusOr<std::unique_ptr<VersionSource>> OpenVersionSource(
    absl::string_view path);

}  // namespace ckptdb::internal

#endif  // CKPTDB_DB_TRANSFER_VERSION_SOURCE_H_
