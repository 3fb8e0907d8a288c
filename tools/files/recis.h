// SPDX-License-Identifier: Apache-2.0
// Checkpoint directories of RecIS: a table's ids and slots are blocks in files
// of safetensors, one of each for each rank; dense tensors are in model.pt.
#ifndef CKPTDB_TOOLS_FILES_RECIS_H_
#define CKPTDB_TOOLS_FILES_RECIS_H_

#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "schema/types.h"
#include "tools/files/array.h"
#include "tools/files/array_writer.h"
#include "tools/files/loaded_files.h"
#include "tools/files/output_folder.h"

namespace ckptdb::tool {

// Files that are neither tables nor dense become blobs of these names:
// "recis/extra.pt".
inline constexpr char kRecisPrefix[] = "recis/";
// The blob with the names, as a JSON array, of tensors that are in files of
// safetensors; all others are in model.pt.
inline constexpr char kRecisTensors[] = "recis/tensors.json";
// The blob with the shapes of slots that are not [rows, elements], as a JSON
// object: {"user": {"embedding": [2, 8], "count": []}} for [rows, 2, 8] and
// [rows].
inline constexpr char kRecisSlots[] = "recis/slots.json";

// Adds a checkpoint: a directory with files "model-...-of-....safetensors" or
// "model.pt", or one whose file "checkpoint" names such a directory last.
// Its tensors are tensor_only. Returns DataLoss for blocks and slices that are
// missing, and InvalidArgument for those that contradict each other.
absl::Status LoadRecis(const std::string& path, LoadedFiles* files);

// A block of a table on a rank, or a dense tensor.
struct RecisBlock {
  std::string table;  // empty for a dense tensor
  std::string slot;   // kRecisIds for ids
  uint32_t rank = 0;
  SliceRange slices;
  bool in_model = false;  // a dense tensor of model.pt
};
inline constexpr char kRecisIds[] = "id";

// Returns the block's name in a file of a checkpoint of `world` ranks, except
// for a tensor of model.pt.
std::string RecisBlockName(const RecisBlock& block, const std::string& tensor,
                           uint32_t world);

// Writes a checkpoint "<id>/" of `world` ranks, each of which has up to
// kRecisParallel files, with arrays[i] as blocks[i], and adds it to the file
// "checkpoint". `extra` are further files. The names of dense tensors become
// those of blocks. Returns InvalidArgument for two blocks of the same name.
inline constexpr uint32_t kRecisParallel = 4;
absl::StatusOr<std::unique_ptr<ArrayWriter>> NewRecisWriter(
    OutputFolder* folder, const std::string& folder_path, const std::string& id,
    uint32_t world, std::vector<ArraySpec> arrays,
    const std::vector<RecisBlock>& blocks,
    const std::map<std::string, std::string>& extra);

}  // namespace ckptdb::tool

#endif  // CKPTDB_TOOLS_FILES_RECIS_H_
