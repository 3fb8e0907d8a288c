// SPDX-License-Identifier: Apache-2.0
// Keys of the column families. Numbers are big-endian, so that keys sort like
// their fields.
//
//   bulk, inline   step:8 attempt:4 rank:4 kind:1 name 00 suffix
//     tensor, blob   suffix = chunk:4
//     rows           suffix = run:1 slot:2 slice:2 id:8
//   meta           's' step:8 | 'v' step:8 attempt:4 | 'm' |
//                  'r' step:8 attempt:4 rank:4 | 'a' attempt:4 |
//                  'e' step:8 attempt:4 name 00 rank:4
//
//   std::string key = ItemPrefix({7, 3}, /*rank=*/0, Item::Kind::kTensor, "w");
//   AppendChunk(0, &key);
//   ParseDataKey(key)->name == "w"
#ifndef CKPTDB_SCHEMA_BYTES_KEYS_H_
#define CKPTDB_SCHEMA_BYTES_KEYS_H_

#include <compare>
#include <cstddef>
#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "schema/types.h"

namespace ckptdb {

// Slot numbers in keys: the ids, then the slots from 1, then the erased ids.
inline constexpr uint16_t kIdSlot = 0;
inline constexpr uint16_t kErasedSlot = 0xffff;

// The position of a row in a run: rows are sorted by slice, then by id as
// uint64.
struct RowPosition {
  uint16_t slice = 0;
  uint64_t id = 0;

  // NOLINTNEXTLINE(modernize-use-nullptr): clang-tidy 14 misreads it
  auto operator<=>(const RowPosition&) const = default;
};

inline constexpr size_t kVersionPrefixBytes = 12;
std::string VersionPrefix(const Version& version);
// Returns the first key after all keys of a version.
std::string VersionEnd(const Version& version);
// The prefix ends with the NUL that terminates the name.
std::string ItemPrefix(const Version& version, uint32_t rank, Item::Kind kind,
                       absl::string_view name);
void AppendChunk(uint32_t chunk, std::string* key);
// Returns the key of a chunk of a tensor or a blob of a rank, or, for the
// number of its chunks, the first key after all of them.
std::string ChunkKey(uint32_t rank, const Item& item, uint64_t chunk);
// Appends the prefix of one slot's stream.
void AppendStream(Item::Run run, uint16_t slot, std::string* key);
void AppendPosition(const RowPosition& position, std::string* key);
// Returns the first key after all that start with `prefix`, or "" if there is
// none: `prefix` then consists of ff bytes only.
std::string PrefixEnd(absl::string_view prefix);

struct DataKey {
  Version version;
  uint32_t rank = 0;
  Item::Kind kind = Item::Kind::kBlob;
  absl::string_view name;  // points into the parsed key
  uint32_t chunk = 0;      // tensors and blobs
  Item::Run run = Item::Run::kBase;
  uint16_t slot = 0;
  RowPosition position;
};
// Returns DataLoss with the key in hex and the error in it.
absl::StatusOr<DataKey> ParseDataKey(absl::string_view key);
// Returns "step 7 attempt 3 rank 0 tensor "w" chunk 0", or the key in hex if it
// does not parse.
std::string DescribeDataKey(absl::string_view key);
// Returns the version that a key of bulk or inline starts with.
absl::StatusOr<Version> ParseVersionPrefix(absl::string_view key);

std::string StepKey(int64_t step);
// Returns the key of the record of a retired version.
std::string RetiredKey(const Version& version);
std::string RankKey(const Version& version, uint32_t rank);
// Returns the prefix of the keys of all ranks of a version.
std::string RankKeyPrefix(const Version& version);
// Returns the key of one rank's part of an evaluation of a version.
std::string EvaluationKey(const Version& version, absl::string_view evaluation,
                          uint32_t rank);
// Returns the prefix of the keys of all ranks of an evaluation.
std::string EvaluationKeyPrefix(const Version& version,
                                absl::string_view evaluation);
// Returns the prefix of the keys of all evaluations of a version.
std::string EvaluationKeyPrefix(const Version& version);
std::string AttemptKey(uint32_t attempt);
std::string RootKey();

enum class MetaKind : char {
  kStep = 's',
  kRetired = 'v',
  kRank = 'r',
  kEvaluation = 'e',
  kAttempt = 'a',
  kRoot = 'm',
};
struct MetaKey {
  MetaKind kind = MetaKind::kRoot;
  Version version;  // step of kStep, attempt of kAttempt, both of others
  uint32_t rank = 0;
  absl::string_view name;  // of kEvaluation; points into the parsed key
};
// Returns DataLoss with the key in hex and the error in it.
absl::StatusOr<MetaKey> ParseMetaKey(absl::string_view key);

}  // namespace ckptdb

#endif  // CKPTDB_SCHEMA_BYTES_KEYS_H_
