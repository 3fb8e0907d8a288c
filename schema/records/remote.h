// SPDX-License-Identifier: Apache-2.0
// The objects of a store in an object store: docs/remote.md explains them. They
// have the envelope and the checks of records.h. Internal to the library.
#ifndef CKPTDB_SCHEMA_RECORDS_REMOTE_H_
#define CKPTDB_SCHEMA_RECORDS_REMOTE_H_

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "schema/records/records.h"
#include "schema/types.h"

namespace ckptdb::internal {

// The first object that is put, which names the store.
struct RemoteFormat {
  std::string uuid;
  int64_t created_at_micros = 0;

  bool operator==(const RemoteFormat&) const = default;
};

// A data object: a table of bulk.
struct RemoteFile {
  uint32_t number = 0;  // within its version
  uint64_t bytes = 0;
  uint64_t hash = 0;  // XXH3-64
  std::string first_key;
  std::string last_key;

  bool operator==(const RemoteFile&) const = default;
};

using KeysAndValues = std::vector<std::pair<std::string, std::string>>;

// What another store needs of a version, besides its data objects.
struct RemoteVersion {
  std::string step_record;
  std::vector<std::string> rank_records;  // by rank
  KeysAndValues evaluations;              // entries of meta
  KeysAndValues inline_entries;
  std::vector<RemoteFile> files;

  bool operator==(const RemoteVersion&) const = default;
};

// A version in the catalog.
struct RemoteEntry {
  // kNeeded: a step needs its data. kDropped: its objects stay for a while, for
  // readers of an older catalog.
  enum class Use : uint8_t { kStep = 0, kNeeded = 1, kDropped = 2 };

  Version version;
  Version state;          // see StateOf
  uint64_t epoch = 1;     // in the names of its objects
  uint32_t revision = 0;  // in the name of its version object
  Use use = Use::kStep;
  uint64_t object_bytes = 0;  // of the version object
  uint64_t object_hash = 0;   // XXH3-64 of the version object
  uint64_t lineage = 0;       // LineageDigest of the step record
  uint64_t record_hash = 0;   // of the step record and the evaluations
  uint64_t data_bytes = 0;    // of all data objects
  uint32_t data_files = 0;
  int64_t dropped_at_micros = 0;  // by the service's clock; 0 if not known yet
  int64_t committed_at_micros = 0;
  StepRecord::Kind kind = StepRecord::Kind::kFull;
  bool pinned = false;
  bool ephemeral = false;
  bool quarantined = false;
  std::vector<Version> needs;  // other versions
  uint64_t owner = 0;          // OwnerOf the state; 0 if it is not recorded

  bool operator==(const RemoteEntry&) const = default;
};

// The steps of the remote as of one commit.
struct RemoteCatalog {
  uint64_t number = 1;
  uint64_t epoch = 1;
  std::string owner;              // the token of the owner of this epoch
  std::string token;              // of the put that wrote the catalog
  int64_t written_at_micros = 0;  // by the writer's clock
  // Objects that no catalog names and that are older, by the service's clock,
  // may have been deleted.
  int64_t horizon_micros = 0;
  RootRecord root;                   // of the store
  std::vector<RemoteEntry> entries;  // by version and epoch
  // Dropped steps that the store may still have: they are not shipped again.
  std::vector<Version> forgotten;

  bool operator==(const RemoteCatalog&) const = default;
};

// Return InvalidArgument for an object that would not decode again.
absl::StatusOr<std::string> EncodeRemoteFormat(const RemoteFormat& format);
absl::StatusOr<std::string> EncodeRemoteVersion(const RemoteVersion& version);
absl::StatusOr<std::string> EncodeRemoteCatalog(const RemoteCatalog& catalog);
// Return DataLoss for damage, FailedPrecondition for a newer format.
absl::StatusOr<RemoteFormat> DecodeRemoteFormat(absl::string_view bytes);
absl::StatusOr<RemoteVersion> DecodeRemoteVersion(absl::string_view bytes);
absl::StatusOr<RemoteCatalog> DecodeRemoteCatalog(absl::string_view bytes);

}  // namespace ckptdb::internal

#endif  // CKPTDB_SCHEMA_RECORDS_REMOTE_H_
