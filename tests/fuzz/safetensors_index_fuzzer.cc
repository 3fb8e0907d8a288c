// SPDX-License-Identifier: Apache-2.0
// Indexes of safetensors: no file is outside of the index's folder.
#include "absl/strings/match.h"
#include "tests/fuzz/fuzz_input.h"
#include "tools/files/safetensors.h"

namespace ckptdb::tool {
namespace {

using testing::Require;

void CheckSafetensorsIndex(absl::string_view json) {
  const auto index = ParseSafetensorsIndex(json);
  if (!index.ok()) return;
  for (const auto& [name, file] : index->files) {
    Require(!file.empty() && file != "." && file != "..");
    Require(!absl::StrContains(file, '/') && !absl::StrContains(file, '\0'));
  }
  const auto again =
      ParseSafetensorsIndex(SafetensorsIndexJson(index->files, 1));
  Require(again.ok() && again->files == index->files);
}

}  // namespace
}  // namespace ckptdb::tool

CKPTDB_FUZZ(ckptdb::tool::CheckSafetensorsIndex)
