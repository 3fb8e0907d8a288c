// SPDX-License-Identifier: Apache-2.0
// Names of files and blocks in checkpoint directories of RecIS, for the loader
// and the writer.
#ifndef CKPTDB_TOOLS_FILES_RECIS_NAMES_H_
#define CKPTDB_TOOLS_FILES_RECIS_NAMES_H_

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"

namespace ckptdb::tool {

inline constexpr char kRecisIndex[] = "index";
inline constexpr char kRecisTensorKeys[] = "tensorkey.json";
inline constexpr char kRecisServing[] =
    "torch_rank_weights_embs_table_multi_shard.json";
inline constexpr char kRecisModel[] = "model.pt";
inline constexpr char kRecisNewest[] = "checkpoint";
inline constexpr char kRecisDenseSlice[] = " ";
inline constexpr uint64_t kMaxRecisJsonBytes = uint64_t{256} << 20;

// Returns whether a file contains blocks.
bool IsRecisDataFile(const std::string& name);

// Returns whether an export writes a file of this name itself, so that no blob
// may have it.
bool IsRecisFile(const std::string& name);

// Returns a file's bytes, or InvalidArgument if there are more than `limit`.
absl::StatusOr<std::string> ReadWholeFile(const std::string& path,
                                          uint64_t limit);

}  // namespace ckptdb::tool

#endif  // CKPTDB_TOOLS_FILES_RECIS_NAMES_H_
