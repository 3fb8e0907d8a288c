// The types of a checkpoint: tensors, tables and blobs, the versions that hold
// them, and the records that describe them.
//
//   const Version version = {.step = 7, .attempt = 3};
//   ToString(version)                  == "step 7 attempt 3"
//   DTypeBytes(DType::kF32)            == 4
//   Slot{"embedding", DType::kF32, 16}.row_bytes() == 64
//
// Everything here is a value or a pure function, and may be used by any thread.
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

// Limits. Each is inclusive. Those of the format alone are in docs/format.md.
inline constexpr size_t kMaxNameBytes = 512;
inline constexpr size_t kMaxDimensions = 64;
inline constexpr uint32_t kMaxWorldSize = 65536;
inline constexpr size_t kMaxSlots = 256;
inline constexpr uint64_t kMaxSlotBytes = 65536;  // of one row
inline constexpr uint64_t kMaxBlobBytes = uint64_t{4} << 30;
inline constexpr uint64_t kMaxMetadataBytes = uint64_t{1} << 20;  // names, too
inline constexpr size_t kMaxMetrics = 4096;
inline constexpr size_t kMaxBranches = 1024;  // that a step comes from
// Limit of the part of one rank of an evaluation: meters and loader together.
inline constexpr uint64_t kMaxEvaluationBytes = uint64_t{8} << 20;

// The number of slices, the unit of sharding: every id of a table falls into
// one of them, and a rank owns a range of them.
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

// The numbers are stored and never change. kAuto is an option and never stored:
// it chooses the best of kNone, kLz4 and kShuffleLz4 for an item by the item's
// first bytes, and kNone when that would save less than 5 %.
//
// kBf16 and kInt8 are lossy: what is read is not what was saved, but near it,
// and Item::errors says how near. They are of f32 alone, and chosen by nobody
// but the caller.
//
//   kBf16  halves the bytes: each number rounded to the nearest bf16, which is
//          off by at most 1/256 of it, or by 2^-134 if that is more. A NaN
//          stays a NaN; infinities and zeros stay as they are. A page with a
//          number that would round to an infinity is stored without loss.
//   kInt8  leaves a byte a number and 8 a row: 255 steps from the least number
//          of a row to its greatest. A number is off by at most 1/509 of the
//          row's range, about half a step, plus half the distance between two
//          f32 at the row's largest magnitude. The row is that of the table's
//          slot, of at least 4 numbers; in a tensor it is 128 numbers, one
//          after the other. Rows that have an infinity or a NaN are stored
//          without loss.
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

// Elements per dimension. A shape without dimensions is a scalar of one
// element; one with a dimension of 0 is an empty tensor.
using Shape = std::vector<int64_t>;

// "[3, 4]"
std::string ToString(absl::Span<const int64_t> shape);

// Returns the number of elements. Returns InvalidArgument for a negative
// dimension, for more than kMaxDimensions, or when elements x element_bytes
// overflow int64.
// `element_bytes` is at least 1.
absl::StatusOr<int64_t> ElementCount(absl::Span<const int64_t> shape,
                                     uint32_t element_bytes);

// The hash by which a table maps an id to its slice. kModulo is for ids that
// are hashes already, kMix for consecutive ids and for ids whose low bits vary
// little.
enum class SliceHash : uint8_t { kModulo = 0, kMix = 1 };

// The finalizer of SplitMix64 (Steele, Lea, Flood: Fast splittable
// pseudorandom number generators, 2014).
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

// Returns the world_size + 1 bounds that divide the slices evenly: rank r owns
// [bounds[r], bounds[r + 1]).
inline std::vector<uint32_t> EvenSliceBounds(uint32_t world_size) {
  std::vector<uint32_t> bounds(world_size + 1);
  for (uint64_t r = 0; r <= world_size; ++r) {
    bounds[r] = static_cast<uint32_t>(r * kSlices / world_size);
  }
  return bounds;
}

// Identifies what one save wrote. An attempt is never used twice in a store, so
// a retried, overwritten or folded step never touches the bytes of another.
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

// An item that a rank saved under a name. The kind decides which fields are
// used.
struct Item {
  enum class Kind : char { kBlob = 'B', kRows = 'R', kTensor = 'T' };
  enum class Run : char { kBase = 'B', kDelta = 'D' };
  enum class Placement : uint8_t { kBulk = 0, kInline = 1 };
  // The numbers are stored and never change.
  enum class Sharding : uint8_t {
    kUndeclared = 0,  // by slices where the step has slice bounds, else unknown
    kBySlices = 1,    // by the slice bounds of the step
    kByModulo = 2,    // uint64(id) % world_size, also of negative ids
    kCustom = 3,      // by a function of the trainer's, which has a name
    kReplicated = 4,  // the same rows on all ranks; rank 0 saves them
  };
  // The errors that a lossy codec made, of finite numbers: how far what is
  // stored is at most from what the trainer had.
  struct Error {
    double max = 0;    // the largest, as an f32
    double bound = 0;  // that the codec guarantees for these numbers

    bool operator==(const Error&) const = default;
  };

  Kind kind = Kind::kBlob;
  std::string name;
  // The version whose bytes these are: its own, or an older one.
  Version data_version;
  Placement placement = Placement::kBulk;
  // Bytes before codecs; a table has rows x (8 + bytes of all slots) + erased x
  // 8.
  uint64_t raw_bytes = 0;
  uint64_t stored_bytes = 0;
  // XXH3-64 of the hashes of its pages or chunks, in key order.
  uint64_t digest = 0;
  std::vector<uint64_t> chunk_hashes;  // tensors and blobs
  // Of a tensor one, of a table one for each slot. Empty when no lossy codec
  // had to do with the item. A fold keeps the largest of what it folds.
  std::vector<Error> errors;

  // Tensors: this rank's part of the global tensor.
  DType dtype = DType::kU8;
  Codec codec = Codec::kNone;  // blobs too
  Shape shape;
  Shape global_shape;
  Shape offset;

  // Tables.
  std::vector<Slot> slots;
  SliceHash slice_hash = SliceHash::kModulo;
  Run run = Run::kBase;
  uint64_t rows = 0;
  uint64_t erased_rows = 0;  // of delta runs
  // At least 1; a page of the widest of ids and slots has at most kPageBytes.
  uint32_t rows_per_page = 0;
  // Reason why a base run was saved although the caller gave changes.
  std::string base_reason;
  // The rule by which the trainer's ranks divided the table's rows; the same on
  // all ranks.
  Sharding sharding = Sharding::kUndeclared;
  std::string sharding_name;  // of kCustom, and of it alone

  bool operator==(const Item&) const = default;
};

// "tensor", "table", "blob".
absl::string_view ItemKindName(Item::Kind kind);

inline constexpr uint8_t kShardingKinds = 5;

// Returns "undeclared", "slices", "modulo", "custom" or "replicated"; "unknown"
// for another number.
absl::string_view ShardingKindName(Item::Sharding kind);

// Returns the same for messages, with the name: `custom "hash_v2"`.
std::string DescribeSharding(Item::Sharding kind, absl::string_view name);

// The record that makes a step exist.
struct StepRecord {
  enum class Kind : uint8_t { kFull = 0, kDelta = 1 };
  // A branch is a line of versions, each saved on top of the one before it. It
  // is described by the attempts, which only grow, of its first version and of
  // the last one that a step descends from.
  struct Branch {
    uint32_t first = 0;
    uint32_t last = 0;

    bool operator==(const Branch&) const = default;
  };

  // The items that one rank saved.
  struct Rank {
    Version version;
    uint32_t rank = 0;
    std::vector<Item> items;  // by kind and name, no two alike

    bool operator==(const Rank&) const = default;
  };

  // The progress of one evaluation of a step on one rank.
  struct Evaluation {
    // The part of one rank. Meters and loader are opaque, and together have at
    // most kMaxEvaluationBytes.
    struct Part {
      uint64_t processed = 0;  // batches, or whatever the trainer counts
      std::string meters;
      std::string loader;

      bool operator==(const Part&) const = default;
    };

    // Names a stored part, without its bytes.
    struct Key {
      std::string evaluation;
      uint32_t rank = 0;

      bool operator==(const Key&) const = default;
    };

    Version version;         // the version that made the state: see StateOf
    std::string evaluation;  // name of the evaluation
    std::string group;       // name of the group of metrics
    uint32_t rank = 0;
    uint32_t world_size = 1;
    Part part;

    bool operator==(const Evaluation&) const = default;
  };

  Version version;
  // The fields that retention reads of every step are next to each other.
  int64_t committed_at_micros = 0;  // since 1970, UTC
  bool ephemeral = false;
  bool pinned = false;
  bool quarantined = false;
  Metrics metrics;
  std::string store_uuid;
  Kind kind = Kind::kFull;
  // The parent of a delta step is the version before it in the chain. A full
  // step has a parent when it was saved on top of another step.
  bool has_parent = false;
  Version parent;              // {} without one; so is `folded_from`
  uint64_t parent_digest = 0;  // tells the parent from any other version
  // The versions that the step is restored from: the base first, `version`
  // last, steps never decreasing. A full step has `version` alone.
  std::vector<Version> chain;
  // A folded step has all its rows in a base run of its own. The version that
  // it was folded from has the delta runs that lead to it from its parent.
  bool folded = false;
  Version folded_from;
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
  uint32_t items = 0;            // of all ranks
  uint64_t rows = 0;             // of all tables of all ranks
  uint64_t raw_bytes = 0;        // of all items
  uint64_t exclusive_bytes = 0;  // written by this version
  // Stored by all versions of the chain, of its tables: base and delta runs.
  uint64_t base_bytes = 0;
  uint64_t delta_bytes = 0;

  bool operator==(const StepRecord&) const = default;
};

// Returns "full" or "delta".
absl::string_view StepKindName(StepRecord::Kind kind);

// Returns the version that made the state of a step: its own, or the one it was
// folded from.
inline const Version& StateOf(const StepRecord& record) {
  return record.folded ? record.folded_from : record.version;
}

// Returns whether `from` can be cast to `to`; each dtype can be cast to itself.
bool CanCast(DType from, DType to);

// A cast to a float rounds to the nearest number, ties to even. A number that
// is too large becomes an infinity, or NaN in f8e4m3, which has no infinities.
// NaN stays NaN and keeps its sign. A cast from an integer or a bool (0 or 1)
// to an integer or a bool keeps the value or is out of range. A float cannot be
// cast to an integer.
//
// Casts to f32 and f64 use the rounding mode of the processor, and a thread
// that flushes subnormal numbers to 0 flushes those of f32 and f64.
//
// Casts `elements` elements. The arrays do not overlap and need not be aligned.
// Returns OutOfRange for the first element that `to` cannot represent, with its
// value and its index; the elements before it are written. Returns
// InvalidArgument unless CanCast(from, to).
absl::Status CastElements(DType from, const void* in, DType to, void* out,
                          size_t elements);

// Escapes a backslash as \\, and as \n, \t or \xNN what is not UTF-8 and what
// cannot be seen: control and format characters, separators of lines and
// paragraphs, and characters that Unicode ignores by default, such as U+200B,
// U+202E and U+FEFF. The result does not break a table, steer a terminal or
// look like another text. Spaces stay.
std::string Printable(absl::string_view text);

// Escapes these characters of a JSON document as \uNNNN, which keeps its
// meaning.
std::string PrintableJson(absl::string_view json);

// Copies as memcpy does: `bytes` bytes that do not overlap, of any alignment.
// It is for much memory that nobody reads soon, such as rows that a RowSink
// puts into its table: streaming stores (SSE2) neither read what they write
// over nor put other data out of the processor's cache. What is written is seen
// by whoever sees that the call has returned. Few bytes, and processors without
// such stores, are left to memcpy.
void BulkCopy(void* to, const void* from, uint64_t bytes);

}  // namespace ckptdb

#endif  // CKPTDB_SCHEMA_TYPES_H_
