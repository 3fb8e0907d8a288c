// SPDX-License-Identifier: Apache-2.0
// Names: a valid name round-trips through a key, and an invalid one does not.
#include <string>

#include "schema/bytes/keys.h"
#include "schema/bytes/names.h"
#include "schema/types.h"
#include "tests/fuzz/fuzz_input.h"

namespace ckptdb {
namespace {

using testing::Require;

void CheckOneName(absl::string_view name) {
  const absl::Status status = CheckName("item name", name);
  std::string key = ItemPrefix({1, 1}, 0, Item::Kind::kTensor, name);
  AppendChunk(0, &key);
  const auto parsed = ParseDataKey(key);
  if (status.ok()) {
    Require(!name.empty() && name.size() <= kMaxNameBytes);
    Require(name.find('\0') == absl::string_view::npos);
    Require(parsed.ok() && parsed->name == name);
  } else {
    Require(status.code() == absl::StatusCode::kInvalidArgument);
    Require(!parsed.ok() || parsed->name != name);
  }
}

}  // namespace
}  // namespace ckptdb

CKPTDB_FUZZ(ckptdb::CheckOneName)
