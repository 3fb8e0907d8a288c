// SPDX-License-Identifier: Apache-2.0
// Files of safetensors: arrays lie in the file, and the header is written and
// parsed again.
#include <string>
#include <vector>

#include "tests/fuzz/fuzz_input.h"
#include "tools/files/safetensors.h"

namespace ckptdb::tool {
namespace {

using testing::Require;

void CheckSafetensors(absl::string_view file) {
  const auto parsed = ParseSafetensors(file);
  if (!parsed.ok()) return;
  std::vector<ArraySpec> specs;
  std::string data;
  for (const FileArray& array : parsed->arrays) {
    Require(array.data >= file.data());
    Require(array.data + array.spec.bytes <= file.data() + file.size());
    specs.push_back(array.spec);
    data.append(array.data, array.spec.bytes);
  }
  const auto again =
      ParseSafetensors(SafetensorsHeader(specs, parsed->metadata) + data);
  Require(again.ok() && again->arrays.size() == specs.size());
  Require(again->metadata == parsed->metadata);
}

}  // namespace
}  // namespace ckptdb::tool

CKPTDB_FUZZ(ckptdb::tool::CheckSafetensors)
