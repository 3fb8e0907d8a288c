// Records of the meta family: what is in a step, a rank, an attempt, a store.
//
// A stored record is an envelope of 16 bytes, little-endian, and a FlatBuffer:
//   magic:4 "CKRD"   kind:2   format version:2   hash:8
// The hash is XXH3-64 of the FlatBuffer, seeded with the 8 bytes before it.
// Decoding checks the envelope and every field before use. It returns DataLoss,
// or FailedPrecondition with both versions for a record of a newer format.
// Encoding checks the same rules and returns InvalidArgument with the same
// message; what was encoded decodes to an equal record.
#ifndef CKPTDB_SCHEMA_RECORDS_H_
#define CKPTDB_SCHEMA_RECORDS_H_

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "ckptdb/schema/codec.h"
#include "ckptdb/schema/dtype.h"
#include "ckptdb/schema/keys.h"
#include "ckptdb/schema/shape.h"
#include "ckptdb/schema/sharding.h"
#include "ckptdb/schema/slice.h"

namespace ckptdb {

using Metrics = std::map<std::string, double>;
using UserMetadata = std::map<std::string, std::string>;

enum class StepKind : uint8_t { kFull = 0, kDelta = 1 };
absl::string_view StepKindName(StepKind kind);

// A branch is a line of versions, each saved on top of the one before it. It is
// described by the attempts, which only grow, of its first version and of the
// last one that a step descends from.
struct Branch {
  uint32_t first = 0;
  uint32_t last = 0;

  bool operator==(const Branch&) const = default;
};

// The record that makes a step exist.
struct StepRecord {
  Version version;
  // The fields that retention reads of every step are next to each other.
  int64_t committed_at_micros = 0;  // since 1970, UTC
  bool ephemeral = false;
  bool pinned = false;
  bool quarantined = false;
  Metrics metrics;
  std::string store_uuid;
  StepKind kind = StepKind::kFull;
  // The parent of a delta step is the version before it in the chain. A full
  // step has a parent when it was saved on top of another step.
  bool has_parent = false;
  Version parent;              // {} without one; so is `increment`
  uint64_t parent_digest = 0;  // LineageDigest of the parent's record
  // The versions that the step is restored from: the base first, `version`
  // last, steps never decreasing. A full step has `version` alone.
  std::vector<Version> chain;
  // A folded step has all its rows in a base run of its own. The version that
  // it was folded from has the delta runs that lead to it from its parent.
  bool has_increment = false;
  Version increment;
  // The branches that the step descends from, oldest first, at most the newest
  // kMaxBranches. The last one is its own and ends with it. A branch begins
  // with a save on top of a version that another save was made on top of
  // before.
  std::vector<Branch> branches;
  std::vector<Version> references;  // others whose items it uses
  uint32_t world_size = 1;
  // Rank r owns slices [slice_bounds[r], slice_bounds[r + 1]); empty when the
  // trainer shards its tables in a way of its own.
  std::vector<uint32_t> slice_bounds;
  int64_t save_micros = 0;  // from begin to commit
  UserMetadata user_metadata;
  std::vector<uint64_t> rank_digests;  // of each rank's stored record
  std::string library_version;
  uint32_t items = 0;         // of all ranks
  uint64_t rows = 0;          // of all tables of all ranks
  uint64_t raw_bytes = 0;     // of all items
  uint64_t stored_bytes = 0;  // written by this version
  // Stored by all versions of the chain, of its tables: base and delta runs.
  uint64_t base_bytes = 0;
  uint64_t delta_bytes = 0;

  bool operator==(const StepRecord&) const = default;
};

// Returns the version that made the state of a step: its own, or the one it was
// folded from.
inline const Version& StateOf(const StepRecord& record) {
  return record.has_increment ? record.increment : record.version;
}

// Returns XXH3-64 of all that distinguishes a version from any other: its
// store, its place in the lineage and, through the digests of the rank records,
// every byte. It leaves out flags, metrics and metadata, which may change
// later.
uint64_t LineageDigest(const StepRecord& record);

// One fixed-width column of a table: `elements` elements of `dtype` per row.
struct Slot {
  std::string name;
  DType dtype = DType::kF32;
  uint32_t elements = 0;
  Codec codec = Codec::kNone;

  // Bytes of one row: 1 to kMaxSlotBytes.
  uint64_t row_bytes() const { return uint64_t{DTypeBytes(dtype)} * elements; }
  bool operator==(const Slot&) const = default;
};

// Returns whether the slots have the same names, dtypes and elements in the
// same order, so that rows of the one are rows of the other. Codecs may differ.
bool SameColumns(absl::Span<const Slot> a, absl::Span<const Slot> b);

enum class Placement : uint8_t { kBulk = 0, kInline = 1 };

// What a rank saved under a name. The kind decides which fields are used.
struct Item {
  ItemKind kind = ItemKind::kBlob;
  std::string name;
  Version data;  // the version whose bytes these are: its own, or an older one
  Placement placement = Placement::kBulk;
  // Bytes before codecs; a table has rows x (8 + bytes of all slots) + erased x
  // 8.
  uint64_t raw_bytes = 0;
  uint64_t stored_bytes = 0;
  // XXH3-64 of the hashes of its pages or chunks, in key order.
  uint64_t digest = 0;
  std::vector<uint64_t> chunk_hashes;  // tensors and blobs

  // Tensors: this rank's part of the global tensor.
  DType dtype = DType::kU8;
  Codec codec = Codec::kNone;  // blobs too
  Shape shape;
  Shape global_shape;
  Shape offset;

  // Tables.
  std::vector<Slot> slots;
  SliceHash slice_hash = SliceHash::kModulo;
  RunKind run = RunKind::kBase;
  uint64_t rows = 0;
  uint64_t erased = 0;  // of delta runs
  // At least 1; a page of the widest of ids and slots has at most kPageBytes.
  uint32_t rows_per_page = 0;
  // Reason why a base run was saved although the caller gave changes.
  std::string base_reason;
  // How the trainer's ranks divided the table's rows; the same on all ranks.
  ShardingKind sharding = ShardingKind::kUndeclared;
  std::string sharding_name;  // of kCustom, and of it alone

  bool operator==(const Item&) const = default;
};

struct RankRecord {
  Version version;
  uint32_t rank = 0;
  std::vector<Item> items;  // by kind and name, no two alike

  bool operator==(const RankRecord&) const = default;
};

// kBegun: data files may be being written. kCommitted: a step record was
// written with it. kRetired: that step record was removed on purpose. The sweep
// removes begun and retired attempts that nothing references. A committed one
// that nothing references has lost its record and is kept for a person to look
// at.
enum class AttemptState : uint8_t { kBegun = 0, kCommitted = 1, kRetired = 2 };
absl::string_view AttemptStateName(AttemptState state);

struct AttemptRecord {
  Version version;
  AttemptState state = AttemptState::kBegun;
  int64_t begun_at_micros = 0;
  // The attempt of the same step whose chain a fold merges; 0 for a save. What
  // the fold has staged is kept while that is the attempt of the step, so that
  // the fold can be resumed.
  uint32_t folds = 0;

  bool operator==(const AttemptRecord&) const = default;
};

struct RootRecord {
  std::string uuid;
  uint32_t next_attempt = 1;
  uint64_t owner_epoch = 0;  // grows by one at every open for writing
  int64_t created_at_micros = 0;
  UserMetadata user_metadata;

  bool operator==(const RootRecord&) const = default;
};

// A lease keeps a step, and all it needs, for a reader until
// `expires_at_micros`.
struct Lease {
  std::string uuid;
  int64_t step = 0;
  std::vector<Version> versions;
  int64_t expires_at_micros = 0;

  bool operator==(const Lease&) const = default;
};

absl::StatusOr<std::string> EncodeStepRecord(const StepRecord& record);
absl::StatusOr<std::string> EncodeRankRecord(const RankRecord& record);
absl::StatusOr<std::string> EncodeAttemptRecord(const AttemptRecord& record);
absl::StatusOr<std::string> EncodeRootRecord(const RootRecord& record);
absl::StatusOr<std::string> EncodeLease(const Lease& lease);

absl::StatusOr<StepRecord> DecodeStepRecord(absl::string_view bytes);
absl::StatusOr<RankRecord> DecodeRankRecord(absl::string_view bytes);
absl::StatusOr<AttemptRecord> DecodeAttemptRecord(absl::string_view bytes);
absl::StatusOr<RootRecord> DecodeRootRecord(absl::string_view bytes);
absl::StatusOr<Lease> DecodeLease(absl::string_view bytes);

}  // namespace ckptdb

#endif  // CKPTDB_SCHEMA_RECORDS_H_
