// SPDX-License-Identifier: Apache-2.0
// Files of safetensors, and the index of several of them that Hugging Face's
// libraries write.
#ifndef CKPTDB_TOOLS_FILES_SAFETENSORS_H_
#define CKPTDB_TOOLS_FILES_SAFETENSORS_H_

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "tools/files/array.h"

namespace ckptdb::tool {

// The format's own limit.
inline constexpr uint64_t kMaxSafetensorsHeaderBytes = 100'000'000;

// The header's key for the file's metadata, so no array has this name.
inline constexpr absl::string_view kSafetensorsMetadataKey = "__metadata__";

struct Safetensors {
  std::vector<FileArray> arrays;  // in the order of their data, in the file
  std::map<std::string, std::string> metadata;
};

// Returns InvalidArgument, with the offset or the name, for a header that is
// not valid, a dtype that the store lacks, data that overlaps or leaves a gap;
// and DataLoss for a file that is cut.
absl::StatusOr<Safetensors> ParseSafetensors(absl::string_view file);

// Returns the bytes before the data of arrays that follow each other without
// gaps in this order.
std::string SafetensorsHeader(
    absl::Span<const ArraySpec> arrays,
    const std::map<std::string, std::string>& metadata);

// Which file has which array.
struct SafetensorsIndex {
  std::map<std::string, std::string> files;  // by array
  std::map<std::string, std::string> metadata;
};

inline constexpr char kSafetensorsIndexSuffix[] = ".safetensors.index.json";

// Returns InvalidArgument unless each file is a name without a folder.
absl::StatusOr<SafetensorsIndex> ParseSafetensorsIndex(absl::string_view json);

// `bytes` is the size of all arrays.
std::string SafetensorsIndexJson(
    const std::map<std::string, std::string>& files, uint64_t bytes);

}  // namespace ckptdb::tool

#endif  // CKPTDB_TOOLS_FILES_SAFETENSORS_H_
