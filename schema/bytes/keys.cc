// SPDX-License-Identifier: Apache-2.0
#include "schema/bytes/keys.h"

#include <cstddef>
#include <type_traits>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "schema/bytes/names.h"
#include "schema/status.h"
#include "schema/types.h"

namespace ckptdb {
namespace {

constexpr size_t kVersionBytes = 12;
constexpr size_t kChunkSuffixBytes = 4;
constexpr size_t kRowsSuffixBytes = 1 + 2 + 2 + 8;

// Big-endian numbers sort the same as their bytes. Steps are never negative.
template <typename T>
void AppendBigEndian(T value, std::string* out) {
  const auto bits = static_cast<std::make_unsigned_t<T>>(value);
  for (int shift = static_cast<int>(sizeof(T) - 1) * 8; shift >= 0;
       shift -= 8) {
    out->push_back(static_cast<char>(bits >> shift));
  }
}

// Removes a big-endian T from the front; the caller has checked the size.
template <typename T>
T TakeBigEndian(absl::string_view* bytes) {
  std::make_unsigned_t<T> bits = 0;
  for (size_t i = 0; i < sizeof(T); ++i) {
    bits = static_cast<std::make_unsigned_t<T>>(
        (static_cast<uint64_t>(bits) << 8) | static_cast<uint8_t>((*bytes)[i]));
  }
  bytes->remove_prefix(sizeof(T));
  return static_cast<T>(bits);
}

// A key comes from a store or another process and may be anything, so the error
// shows all of it in hex.
absl::Status BadKey(absl::string_view key, absl::string_view why) {
  return absl::DataLossError(
      absl::StrCat("key ", absl::BytesToHexString(key), " ", why));
}

// Removes the version from the front. A negative step would sort after all
// others.
absl::StatusOr<Version> TakeVersion(absl::string_view key,
                                    absl::string_view* rest) {
  if (rest->size() < kVersionBytes) return BadKey(key, "is too short");
  Version version;
  version.step = TakeBigEndian<int64_t>(rest);
  version.attempt = TakeBigEndian<uint32_t>(rest);
  if (version.step < 0) return BadKey(key, "has a negative step");
  return version;
}

// Removes the name and the NUL after it.
absl::StatusOr<absl::string_view> TakeName(absl::string_view key,
                                           absl::string_view* rest) {
  const size_t end = rest->find('\0');
  if (end == absl::string_view::npos)
    return BadKey(key, "has no NUL after the name");
  const absl::string_view name = rest->substr(0, end);
  if (!CheckName("name", name).ok()) return BadKey(key, "has an invalid name");
  rest->remove_prefix(end + 1);
  return name;
}

// Reads the part of a page's key after the name: run, slot, slice and id of its
// first row. Only a delta run has erased ids.
absl::Status TakeRowsSuffix(absl::string_view key, absl::string_view suffix,
                            DataKey* parsed) {
  if (suffix.size() != kRowsSuffixBytes) {
    return BadKey(key, "has an invalid suffix for a page");
  }
  const char run = suffix[0];
  if (run != 'B' && run != 'D')
    return BadKey(key, "has an unknown kind of run");
  parsed->run = static_cast<Item::Run>(run);
  suffix.remove_prefix(1);
  parsed->slot = TakeBigEndian<uint16_t>(&suffix);
  if (parsed->slot > kMaxSlots && parsed->slot != kErasedSlot) {
    return BadKey(key, absl::StrCat("has slot ", parsed->slot,
                                    "; the limit is ", kMaxSlots));
  }
  if (parsed->slot == kErasedSlot && parsed->run == Item::Run::kBase) {
    return BadKey(key, "has erased ids in a base run");
  }
  parsed->position.slice = TakeBigEndian<uint16_t>(&suffix);
  parsed->position.id = TakeBigEndian<uint64_t>(&suffix);
  return absl::OkStatus();
}

// Reads the part after the name, depending on the kind of item. Its size must
// be exact, so that no two keys parse to the same fields.
absl::Status TakeSuffix(absl::string_view key, absl::string_view suffix,
                        DataKey* parsed) {
  if (parsed->kind == Item::Kind::kRows) {
    return TakeRowsSuffix(key, suffix, parsed);
  }
  if (suffix.size() != kChunkSuffixBytes) {
    return BadKey(key, "has an invalid suffix for a chunk");
  }
  parsed->chunk = TakeBigEndian<uint32_t>(&suffix);
  return absl::OkStatus();
}

}  // namespace

std::string ToString(const Version& version) {
  return absl::StrCat("step ", version.step, " attempt ", version.attempt);
}

absl::string_view ItemKindName(Item::Kind kind) {
  switch (kind) {
    case Item::Kind::kBlob:
      return "blob";
    case Item::Kind::kRows:
      return "table";
    case Item::Kind::kTensor:
      return "tensor";
  }
  return "unknown";
}

std::string VersionPrefix(const Version& version) {
  std::string key;
  AppendBigEndian(version.step, &key);
  AppendBigEndian(version.attempt, &key);
  return key;
}

std::string VersionEnd(const Version& version) {
  return PrefixEnd(VersionPrefix(version));
}

std::string ItemPrefix(const Version& version, uint32_t rank, Item::Kind kind,
                       absl::string_view name) {
  std::string key = VersionPrefix(version);
  AppendBigEndian(rank, &key);
  key.push_back(static_cast<char>(kind));
  key.append(name.data(), name.size());
  // The NUL makes names sort as strings, and separates a name from a longer one
  // with the same prefix.
  key.push_back('\0');
  return key;
}

void AppendChunk(uint32_t chunk, std::string* key) {
  AppendBigEndian(chunk, key);
}

std::string ChunkKey(uint32_t rank, const Item& item, uint64_t chunk) {
  std::string key = ItemPrefix(item.data_version, rank, item.kind, item.name);
  const uint64_t number = item.first_chunk + chunk;
  if (number > UINT32_MAX) return PrefixEnd(key);
  AppendChunk(static_cast<uint32_t>(number), &key);
  return key;
}

void AppendStream(Item::Run run, uint16_t slot, std::string* key) {
  key->push_back(static_cast<char>(run));
  AppendBigEndian(slot, key);
}

void AppendPosition(const RowPosition& position, std::string* key) {
  AppendBigEndian(position.slice, key);
  AppendBigEndian(position.id, key);
}

// Returns the least key greater than all keys with the prefix: drops trailing
// 0xff bytes and increments the byte before them. Empty if there is no such
// key.
std::string PrefixEnd(absl::string_view prefix) {
  std::string end(prefix);
  while (!end.empty() && end.back() == '\xff') end.pop_back();
  if (!end.empty()) ++end.back();
  return end;
}

absl::StatusOr<DataKey> ParseDataKey(absl::string_view key) {
  DataKey parsed;
  absl::string_view rest = key;
  CKPTDB_ASSIGN_OR_RETURN(parsed.version, TakeVersion(key, &rest));
  if (rest.size() < sizeof(uint32_t) + 1) return BadKey(key, "is too short");
  parsed.rank = TakeBigEndian<uint32_t>(&rest);
  const char kind = rest[0];
  if (kind != 'B' && kind != 'R' && kind != 'T') {
    return BadKey(key, "has an unknown kind of item");
  }
  parsed.kind = static_cast<Item::Kind>(kind);
  rest.remove_prefix(1);
  CKPTDB_ASSIGN_OR_RETURN(parsed.name, TakeName(key, &rest));
  CKPTDB_RETURN_IF_ERROR(TakeSuffix(key, rest, &parsed));
  return parsed;
}

std::string DescribeDataKey(absl::string_view key) {
  // A key that does not parse is shown in hex, so that every error can name its
  // key.
  const absl::StatusOr<DataKey> parsed = ParseDataKey(key);
  if (!parsed.ok()) return absl::StrCat("key ", absl::BytesToHexString(key));
  const std::string item =
      absl::StrCat(ToString(parsed->version), " rank ", parsed->rank, " ",
                   ItemKindName(parsed->kind), " \"",
                   absl::Utf8SafeCHexEscape(parsed->name), "\"");
  if (parsed->kind != Item::Kind::kRows) {
    return absl::StrCat(item, " chunk ", parsed->chunk);
  }
  return absl::StrCat(item, " slot ", parsed->slot, " page at slice ",
                      parsed->position.slice, " id ",
                      static_cast<int64_t>(parsed->position.id));
}

absl::StatusOr<Version> ParseVersionPrefix(absl::string_view key) {
  absl::string_view rest = key;
  return TakeVersion(key, &rest);
}

std::string StepKey(int64_t step) {
  std::string key = "s";
  AppendBigEndian(step, &key);
  return key;
}

// Contains the whole version, because many versions of a step may be retired.
std::string RetiredKey(const Version& version) {
  return "v" + VersionPrefix(version);
}

std::string RankKeyPrefix(const Version& version) {
  return "r" + VersionPrefix(version);
}

std::string RankKey(const Version& version, uint32_t rank) {
  std::string key = RankKeyPrefix(version);
  AppendBigEndian(rank, &key);
  return key;
}

std::string EvaluationKeyPrefix(const Version& version) {
  return "e" + VersionPrefix(version);
}

std::string EvaluationKeyPrefix(const Version& version,
                                absl::string_view evaluation) {
  std::string key = EvaluationKeyPrefix(version);
  key.append(evaluation.data(), evaluation.size());
  key.push_back('\0');
  return key;
}

// A version's evaluations form one range, and the ranks of an evaluation form
// one within it.
std::string EvaluationKey(const Version& version, absl::string_view evaluation,
                          uint32_t rank) {
  std::string key = EvaluationKeyPrefix(version, evaluation);
  AppendBigEndian(rank, &key);
  return key;
}

std::string AttemptKey(uint32_t attempt) {
  std::string key = "a";
  AppendBigEndian(attempt, &key);
  return key;
}

std::string RootKey() { return "m"; }

absl::StatusOr<MetaKey> ParseMetaKey(absl::string_view key) {
  if (key.empty()) return BadKey(key, "is empty");
  MetaKey parsed;
  parsed.kind = static_cast<MetaKind>(key[0]);
  absl::string_view rest = key.substr(1);
  const auto sized = [&](size_t bytes) { return rest.size() == bytes; };
  switch (parsed.kind) {
    case MetaKind::kStep:
      if (!sized(8)) return BadKey(key, "is not the key of a step");
      parsed.version.step = TakeBigEndian<int64_t>(&rest);
      if (parsed.version.step < 0) return BadKey(key, "has a negative step");
      return parsed;
    case MetaKind::kRetired: {
      if (!sized(12)) return BadKey(key, "is not the key of a retired step");
      CKPTDB_ASSIGN_OR_RETURN(parsed.version, TakeVersion(key, &rest));
      return parsed;
    }
    case MetaKind::kRank: {
      if (!sized(16)) return BadKey(key, "is not the key of a rank");
      CKPTDB_ASSIGN_OR_RETURN(parsed.version, TakeVersion(key, &rest));
      parsed.rank = TakeBigEndian<uint32_t>(&rest);
      return parsed;
    }
    case MetaKind::kEvaluation: {
      CKPTDB_ASSIGN_OR_RETURN(parsed.version, TakeVersion(key, &rest));
      CKPTDB_ASSIGN_OR_RETURN(parsed.name, TakeName(key, &rest));
      if (!sized(4)) return BadKey(key, "has an invalid suffix for a rank");
      parsed.rank = TakeBigEndian<uint32_t>(&rest);
      return parsed;
    }
    // An attempt's key has no step, because attempts are counted over all steps
    // of a store.
    case MetaKind::kAttempt:
      if (!sized(4)) return BadKey(key, "is not the key of an attempt");
      parsed.version.attempt = TakeBigEndian<uint32_t>(&rest);
      return parsed;
    case MetaKind::kRoot:
      if (!sized(0)) return BadKey(key, "is not the key of the root");
      return parsed;
  }
  return BadKey(key, "has an unknown kind of record");
}

}  // namespace ckptdb
