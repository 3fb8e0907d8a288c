// SPDX-License-Identifier: Apache-2.0
// Records of the meta family, which describe steps, ranks, attempts and the
// store.
//
// A stored record is an envelope of 16 bytes, little-endian, and a FlatBuffer:
//   magic:4 "CKRD"   kind:2   format version:2   hash:8
// The hash is XXH3-64 of the FlatBuffer, seeded with the 8 bytes before it.
// Decoding checks the envelope and every field before use. It returns DataLoss
// for damage, and FailedPrecondition with both versions for a newer format.
// Encoding checks the same rules and returns InvalidArgument with the same
// message. An encoded record decodes to an equal one.
#ifndef CKPTDB_SCHEMA_RECORDS_RECORDS_H_
#define CKPTDB_SCHEMA_RECORDS_RECORDS_H_

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "schema/types.h"

namespace ckptdb {

// Returns XXH3-64 of all fields that distinguish a version from any other: its
// store, its place in the lineage and, through the digests of the rank records,
// every byte. Excludes flags, metrics and metadata, which may change later.
uint64_t LineageDigest(const StepRecord& record);

// kBegun: data files may be in the process of being written. kCommitted: a step
// record was written with it. kRetired: that step record was removed on
// purpose. The sweep removes begun and retired attempts that nothing
// references. A committed attempt that nothing references has lost its record
// and is kept for manual inspection.
enum class AttemptState : uint8_t { kBegun = 0, kCommitted = 1, kRetired = 2 };
absl::string_view AttemptStateName(AttemptState state);

struct AttemptRecord {
  Version version;
  AttemptState state = AttemptState::kBegun;
  int64_t begun_at_micros = 0;
  // The attempt of the same step whose chain a fold merges; 0 for a save. While
  // the step still has that attempt, the fold's staged files are kept, so that
  // the fold can be resumed.
  uint32_t folds = 0;

  bool operator==(const AttemptRecord&) const = default;
};

// The parts of its steps that a store has, which was fetched with no others.
// Its records name the rest. schema/records/store_parts.h has the questions.
struct StoreParts {
  std::vector<std::string> tables;  // names, or patterns as in a shell
  std::vector<std::string> slots;   // of these tables; empty: all
  SliceRange slices;                // of these tables
  std::vector<std::string> items;   // the same for tensors and blobs

  bool operator==(const StoreParts&) const = default;
};

struct RootRecord {
  std::string uuid;
  uint32_t next_attempt = 1;
  uint64_t owner_epoch = 0;  // incremented by every open for writing
  int64_t created_at_micros = 0;
  UserMetadata user_metadata;
  std::optional<StoreParts> parts = {};  // none: its steps are whole
  // The owners that began the attempts, by the first attempt of each, or
  // kForeignOwner. Those before the first entry are unknown.
  std::map<uint32_t, uint64_t> owners = {};

  bool operator==(const RootRecord&) const = default;
};

// A lease keeps a step, and the versions it needs, for a reader until
// `expires_at_micros`.
struct Lease {
  std::string uuid;
  int64_t step = 0;
  std::vector<Version> versions;
  int64_t expires_at_micros = 0;

  bool operator==(const Lease&) const = default;
};

absl::StatusOr<std::string> EncodeStepRecord(const StepRecord& record);
absl::StatusOr<std::string> EncodeRankRecord(const StepRecord::Rank& record);
absl::StatusOr<std::string> EncodeAttemptRecord(const AttemptRecord& record);
absl::StatusOr<std::string> EncodeRootRecord(const RootRecord& record);
absl::StatusOr<std::string> EncodeLease(const Lease& lease);

absl::StatusOr<StepRecord> DecodeStepRecord(absl::string_view bytes);
absl::StatusOr<StepRecord::Rank> DecodeRankRecord(absl::string_view bytes);
absl::StatusOr<AttemptRecord> DecodeAttemptRecord(absl::string_view bytes);
absl::StatusOr<RootRecord> DecodeRootRecord(absl::string_view bytes);
absl::StatusOr<Lease> DecodeLease(absl::string_view bytes);

}  // namespace ckptdb

#endif  // CKPTDB_SCHEMA_RECORDS_RECORDS_H_
