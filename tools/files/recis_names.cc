// SPDX-License-Identifier: Apache-2.0
#include "tools/files/recis_names.h"

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "schema/status.h"
#include "tools/files/mapped_file.h"

namespace ckptdb::tool {

bool IsRecisDataFile(const std::string& name) {
  return absl::StartsWith(name, "model-") &&
         absl::EndsWith(name, ".safetensors");
}

bool IsRecisFile(const std::string& name) {
  return IsRecisDataFile(name) || name == kRecisModel || name == kRecisIndex ||
         name == kRecisTensorKeys || name == kRecisServing;
}

absl::StatusOr<std::string> ReadWholeFile(const std::string& path,
                                          uint64_t limit) {
  CKPTDB_ASSIGN_OR_RETURN(const auto file, MappedFile::Open(path));
  if (file->bytes().size() > limit) {
    return absl::InvalidArgumentError(absl::StrCat(
        "has ", file->bytes().size(), " bytes; the limit is ", limit));
  }
  return std::string(file->bytes());
}

}  // namespace ckptdb::tool
