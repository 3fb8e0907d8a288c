// SPDX-License-Identifier: Apache-2.0
// Zip archives: members lie in the file, and reading one ends with its size or
// an error.
#include <vector>

#include "tests/fuzz/fuzz_input.h"
#include "tools/files/zip.h"

namespace ckptdb::tool {
namespace {

using testing::Require;

void CheckZip(absl::string_view file) {
  const auto members = ParseZip(file);
  if (!members.ok()) return;
  for (const ZipMember& member : *members) {
    Require(member.data_at <= file.size());
    Require(member.stored_bytes <= file.size() - member.data_at);
    uint64_t bytes = 0;
    const auto count = [&bytes](absl::string_view piece) {
      bytes += piece.size();
      return absl::OkStatus();
    };
    const absl::Status read = ReadZipMember(file, member, count);
    Require(bytes <= member.bytes);
    Require(!read.ok() || bytes == member.bytes);
  }
}

}  // namespace
}  // namespace ckptdb::tool

CKPTDB_FUZZ(ckptdb::tool::CheckZip)
