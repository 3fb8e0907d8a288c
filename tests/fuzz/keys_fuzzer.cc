// SPDX-License-Identifier: Apache-2.0
// Keys of all kinds: a key that parses is rebuilt from its fields.
#include <string>

#include "schema/bytes/keys.h"
#include "schema/types.h"
#include "tests/fuzz/fuzz_input.h"

namespace ckptdb {
namespace {

using testing::Require;

std::string Build(const DataKey& parsed) {
  std::string key =
      ItemPrefix(parsed.version, parsed.rank, parsed.kind, parsed.name);
  if (parsed.kind != Item::Kind::kRows) {
    AppendChunk(parsed.chunk, &key);
    return key;
  }
  AppendStream(parsed.run, parsed.slot, &key);
  AppendPosition(parsed.position, &key);
  return key;
}

std::string Build(const MetaKey& parsed) {
  switch (parsed.kind) {
    case MetaKind::kStep:
      return StepKey(parsed.version.step);
    case MetaKind::kRank:
      return RankKey(parsed.version, parsed.rank);
    case MetaKind::kEvaluation:
      return EvaluationKey(parsed.version, parsed.name, parsed.rank);
    case MetaKind::kAttempt:
      return AttemptKey(parsed.version.attempt);
    case MetaKind::kRetired:
      return RetiredKey(parsed.version);
    case MetaKind::kRoot:
      return RootKey();
  }
  return "";
}

void CheckKey(absl::string_view key) {
  Require(!DescribeDataKey(key).empty());
  if (const auto parsed = ParseDataKey(key); parsed.ok()) {
    Require(Build(*parsed) == key);
    Require(VersionPrefix(parsed->version) <= key);
    Require(key < VersionEnd(parsed->version));
    const auto version = ParseVersionPrefix(key);
    Require(version.ok() && *version == parsed->version);
  }
  if (const auto parsed = ParseMetaKey(key); parsed.ok()) {
    Require(Build(*parsed) == key);
  }
  const std::string end = PrefixEnd(key);
  Require(end.empty() || key < end);
}

}  // namespace
}  // namespace ckptdb

CKPTDB_FUZZ(ckptdb::CheckKey)
