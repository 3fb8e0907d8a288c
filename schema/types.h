// SPDX-License-Identifier: Apache-2.0
// Tensors, tables and blobs of a checkpoint, and the records describing them.
//
//   const Version version = {.step = 7, .attempt = 3};
//   ToString(version);                               // "step 7 attempt 3"
//   Slot{"embedding", DType::kF32, 16}.row_bytes();  // 64
//
// Values and pure functions, which any thread may use.
#ifndef CKPTDB_SCHEMA_TYPES_H_
#define CKPTDB_SCHEMA_TYPES_H_

#if __cplusplus < 202002L
#error "ckptdb needs C++20: compile with -std=c++20 or a later standard."
#endif

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"

namespace ckptdb {

// Inclusive limits; docs/format.md lists those of the format alone.
inline constexpr size_t kMaxNameBytes = 512;
inline constexpr size_t kMaxDimensions = 64;
inline constexpr size_t kMaxShards = 65536;  // of a tensor on one rank
inline constexpr uint32_t kMaxWorldSize = 65536;
inline constexpr size_t kMaxSlots = 256;
inline constexpr uint64_t kMaxSlotBytes = 65536;  // of one row
inline constexpr uint64_t kMaxBlobBytes = uint64_t{4} << 30;
inline constexpr uint64_t kMaxMetadataBytes = uint64_t{1} << 20;  // with names
inline constexpr uint64_t kMaxPublishedBytes = uint64_t{64} << 20;
inline constexpr size_t kMaxMetrics = 4096;
// One rank's meters and loader together.
inline constexpr uint64_t kMaxEvaluationBytes = uint64_t{8} << 20;

// The number of slices, the unit of sharding: each id of a table is in one
// slice, and a rank owns a range of them.
inline constexpr uint32_t kSlices = 65536;

// Element types of tensors and slots. The numbers are stored and never change.
enum class DType : uint8_t {
  kF64 = 0,
  kF32 = 1,
  kF16 = 2,
  kBf16 = 3,
  kF8E4M3 = 4,
  kF8E5M2 = 5,
  kI64 = 6,
  kI32 = 7,
  kI16 = 8,
  kI8 = 9,
  kU64 = 10,
  kU32 = 11,
  kU16 = 12,
  kU8 = 13,
  kBool = 14,
};
inline constexpr uint8_t kDTypes = 15;

// Returns the bytes of one element: 1, 2, 4 or 8.
uint32_t DTypeBytes(DType dtype);

// "f64", "f32", "f16", "bf16", "f8e4m3", "f8e5m2", "i64", ..., "bool".
absl::string_view DTypeName(DType dtype);

// Returns InvalidArgument for an unknown name.
absl::StatusOr<DType> ParseDType(absl::string_view name);

// The numbers are stored and never change. kAuto is never stored: it selects
// the best of kNone, kLz4 and kShuffleLz4 by an item's first bytes, and kNone
// if that saves less than 5 %. kBf16 and kInt8 are lossy and only for f32.
// kBf16 halves the bytes, with an error of at most 1/256 of the number, or
// 2^-134 if that is more. kInt8 takes one byte per number and 8 per row, for
// its range. The error is at most 1/509 of this, plus half the distance between
// two f32 at the row's largest magnitude. Item::errors records the errors.
enum class Codec : uint8_t {
  kNone = 0,
  kLz4 = 1,
  kShuffleLz4 = 2,
  kBf16 = 3,
  kInt8 = 4,
  kAuto = 255
};

// "none", "lz4", "shuffle-lz4", "bf16", "int8", "auto".
absl::string_view CodecName(Codec codec);
absl::StatusOr<Codec> ParseCodec(absl::string_view name);

// Elements per dimension: none for a scalar, a 0 for an empty tensor.
using Shape = std::vector<int64_t>;

// "[3, 4]"
std::string ToString(absl::Span<const int64_t> shape);

// Returns the number of elements, or InvalidArgument for a negative dimension,
// more than kMaxDimensions, or more than int64 bytes. `element_bytes` is at
// least 1.
absl::StatusOr<int64_t> ElementCount(absl::Span<const int64_t> shape,
                                     uint32_t element_bytes);

// How a table maps an id to its slice: kModulo for ids that are hashes, kMix
// for others, such as consecutive ids.
enum class SliceHash : uint8_t { kModulo = 0, kMix = 1 };

// The finalizer of SplitMix64 (Steele, Lea, Flood, 2014).
inline uint64_t MixId(uint64_t id) {
  id = (id ^ (id >> 30)) * 0xbf58476d1ce4e5b9;
  id = (id ^ (id >> 27)) * 0x94d049bb133111eb;
  return id ^ (id >> 31);
}

inline uint16_t SliceOf(int64_t id, SliceHash hash) {
  const auto bits = static_cast<uint64_t>(id);
  return static_cast<uint16_t>(hash == SliceHash::kModulo ? bits : MixId(bits));
}

// The slices [begin, end).
struct SliceRange {
  uint32_t begin = 0;
  uint32_t end = kSlices;
  bool Contains(uint32_t slice) const { return begin <= slice && slice < end; }
  bool operator==(const SliceRange&) const = default;
};

// Returns world_size + 1 bounds that divide the slices evenly: rank r owns
// [bounds[r], bounds[r + 1]).
inline std::vector<uint32_t> EvenSliceBounds(uint32_t world_size) {
  std::vector<uint32_t> bounds(world_size + 1);
  for (uint64_t r = 0; r <= world_size; ++r) {
    bounds[r] = static_cast<uint32_t>(r * kSlices / world_size);
  }
  return bounds;
}

// Identifies the data of one save. A store never reuses an attempt, so that a
// retried, overwritten or folded step never touches another's bytes.
struct Version {
  int64_t step = 0;
  uint32_t attempt = 0;
  // NOLINTNEXTLINE(modernize-use-nullptr): clang-tidy 14 misreads it
  auto operator<=>(const Version&) const = default;
};

// "step 7 attempt 3"
std::string ToString(const Version& version);

using Metrics = std::map<std::string, double>;
using UserMetadata = std::map<std::string, std::string>;

// A part of each row of a table.
struct Slot {
  std::string name;
  DType dtype = DType::kF32;
  uint32_t elements = 0;
  Codec codec = Codec::kNone;
  // Bytes of one row: 1 to kMaxSlotBytes.
  uint64_t row_bytes() const { return uint64_t{DTypeBytes(dtype)} * elements; }
  bool operator==(const Slot&) const = default;
};

// Returns whether names, dtypes, elements and their order are the same. Codecs
// may differ.
bool SameSlots(absl::Span<const Slot> a, absl::Span<const Slot> b);

// An item that a rank saved. The kind decides which fields are used.
struct Item {
  enum class Kind : char { kBlob = 'B', kRows = 'R', kTensor = 'T' };
  enum class Run : char { kBase = 'B', kDelta = 'D' };
  enum class Placement : uint8_t { kBulk = 0, kInline = 1 };
  // The numbers are stored and never change.
  enum class Sharding : uint8_t {
    kUndeclared = 0,  // by slices if the step has slice bounds, else unknown
    kBySlices = 1,    // by the slice bounds of the step
    kByModulo = 2,    // uint64(id) % world_size, also of negative ids
    kCustom = 3,      // by a named function of the trainer
    kReplicated = 4,  // the same rows on all ranks; rank 0 saves them
    kByRange = 5,     // by ranges of ids, one for each rank
  };
  // How far stored finite numbers are from the trainer's under a lossy codec.
  struct Error {
    double max = 0;    // the largest, as an f32
    double bound = 0;  // the codec's guarantee for these numbers
    bool operator==(const Error&) const = default;
  };

  Kind kind = Kind::kBlob;
  std::string name;
  // The version that wrote the bytes: its own, or an older one.
  Version data_version;
  Placement placement = Placement::kBulk;
  // Before codecs; for a table, rows x (8 + bytes of all slots) + erased x 8.
  uint64_t raw_bytes = 0;
  uint64_t stored_bytes = 0;
  // XXH3-64 of the hashes of its pages or chunks, in key order.
  uint64_t digest = 0;
  std::vector<uint64_t> chunk_hashes;  // tensors and blobs
  // One for a tensor, one per slot of a table; empty without a lossy codec. A
  // fold keeps the largest.
  std::vector<Error> errors;

  // Tensors: a shard of the global tensor.
  DType dtype = DType::kU8;
  Codec codec = Codec::kNone;  // blobs too
  Shape shape;
  Shape global_shape;
  Shape offset;
  uint32_t first_chunk = 0;  // in keys, which number a rank's shards through

  // Tables.
  std::vector<Slot> slots;
  SliceHash slice_hash = SliceHash::kModulo;
  Run run = Run::kBase;
  uint64_t rows = 0;
  uint64_t erased_rows = 0;  // in delta runs
  // At least 1, so that no page exceeds kPageBytes.
  uint32_t rows_per_page = 0;
  // Why a base run was saved although the caller gave changes.
  std::string base_reason;
  // How the ranks divided the rows; the same on all ranks.
  Sharding sharding = Sharding::kUndeclared;
  std::string sharding_name;  // kCustom only
  // The ids that the sharding gives this rank: [first_id, end_id). kByRange
  // only.
  int64_t first_id = 0;
  int64_t end_id = 0;
  bool operator==(const Item&) const = default;
};

// "tensor", "table", "blob".
absl::string_view ItemKindName(Item::Kind kind);

inline constexpr uint8_t kShardingKinds = 6;

// "undeclared", "slices", "modulo", "custom", "replicated", "range", or
// "unknown".
absl::string_view ShardingKindName(Item::Sharding kind);

// The same with the name: `custom "hash_v2"`.
std::string DescribeSharding(Item::Sharding kind, absl::string_view name);

// The record that makes a step exist.
struct StepRecord {
  enum class Kind : uint8_t { kFull = 0, kDelta = 1 };
  // Versions saved on top of each other, given by the attempts of the first and
  // of the last one that a step descends from. Attempts only grow along a
  // branch.
  struct Branch {
    uint32_t first = 0;
    uint32_t last = 0;
    bool operator==(const Branch&) const = default;
  };

  // The items that one rank saved.
  struct Rank {
    Version version;
    uint32_t rank = 0;
    std::vector<Item> items;  // distinct, by kind, name and offset
    bool operator==(const Rank&) const = default;
  };

  // The progress of an evaluation of a step on a rank; its bytes are opaque.
  struct Evaluation {
    uint64_t processed = 0;  // batches, or another unit of the trainer
    std::string meters = {};
    std::string loader = {};
    Version version = {};  // the version that made the state: see StateOf
    std::string evaluation = {};
    std::string group = {};  // of metrics
    uint32_t rank = 0;
    uint32_t world_size = 1;
    bool operator==(const Evaluation&) const = default;
  };

  Version version;
  // Read by retention for every step.
  int64_t committed_at_micros = 0;  // since 1970, UTC
  bool ephemeral = false;
  bool pinned = false;
  bool quarantined = false;
  Metrics metrics;
  std::string store_uuid;
  Kind kind = Kind::kFull;
  // A delta step's parent is the version before it in the chain. A full step
  // has a parent if it was saved on top of another step.
  bool has_parent = false;
  Version parent;              // {} without one; so is `folded_from`
  uint64_t parent_digest = 0;  // distinguishes it from any other version
  // The versions that the step is restored from, from the base to `version`;
  // steps never decrease. A full step has only `version`.
  std::vector<Version> chain;
  // A folded step has all its rows in one base run; `folded_from` has the delta
  // runs from its parent.
  bool folded = false;
  Version folded_from;
  // The branches that the step descends from, oldest first; the last one ends
  // with the step. A second save on top of a version begins a branch.
  std::vector<Branch> branches;
  // The processes that saved the step and its ancestors: a random number for
  // each, by the attempt of its first version.
  std::map<uint32_t, uint64_t> owners;
  std::vector<Version> references;  // others whose items it uses
  uint32_t world_size = 1;
  // Rank r owns slices [slice_bounds[r], slice_bounds[r + 1]); empty if tables
  // are sharded otherwise.
  std::vector<uint32_t> slice_bounds;
  int64_t save_micros = 0;  // from begin to commit
  UserMetadata user_metadata;
  std::vector<uint64_t> rank_digests;  // of each rank's stored record
  std::string library_version;
  uint32_t items = 0;            // of all ranks
  uint64_t rows = 0;             // of all tables of all ranks
  uint64_t raw_bytes = 0;        // of all items
  uint64_t exclusive_bytes = 0;  // written by this version
  // Sums over the tables of all versions of the chain.
  uint64_t base_bytes = 0;
  uint64_t delta_bytes = 0;
  bool operator==(const StepRecord&) const = default;
};

// "full" or "delta".
absl::string_view StepKindName(StepRecord::Kind kind);

// Returns the version that made a step's state: its own, or the one it was
// folded from.
inline const Version& StateOf(const StepRecord& record) {
  return record.folded ? record.folded_from : record.version;
}

// Each dtype can be cast to itself, and none from a float to an integer.
bool CanCast(DType from, DType to);

// Casts `elements` elements between arrays that do not overlap and need not be
// aligned. Returns OutOfRange with the value and index of the first element
// that `to` cannot represent, after writing those before it, and
// InvalidArgument unless CanCast(from, to). Integers and bools keep their value
// or are out of range. A cast to a float rounds to nearest, ties to even; a
// number too large becomes an infinity, or NaN in f8e4m3. NaN stays NaN and
// keeps its sign. Casts to f32 and f64 follow the processor's rounding and
// denormal modes.
absl::Status CastElements(DType from, const void* in, DType to, void* out,
                          size_t elements);

// Escapes backslashes, invalid UTF-8 and invisible characters, such as control
// and format characters, as \\, \n, \t or \xNN, so that the result cannot break
// a table, steer a terminal or look like another text.
std::string Printable(absl::string_view text);

// The same in a JSON document, as \uNNNN, which keeps its meaning.
std::string PrintableJson(absl::string_view json);

// memcpy for large arrays that are not read soon, such as a RowSink's rows:
// streaming stores (SSE2) bypass the cache. Visible to threads that see the
// call return.
void BulkCopy(void* to, const void* from, uint64_t bytes);

}  // namespace ckptdb

#endif  // CKPTDB_SCHEMA_TYPES_H_
