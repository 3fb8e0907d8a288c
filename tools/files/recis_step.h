// SPDX-License-Identifier: Apache-2.0
// A step as a checkpoint directory of RecIS.
#ifndef CKPTDB_TOOLS_FILES_RECIS_STEP_H_
#define CKPTDB_TOOLS_FILES_RECIS_STEP_H_

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "db/reader.h"
#include "tools/files/recis.h"
#include "tools/files/step_arrays.h"

namespace ckptdb::tool {

struct RecisStep {
  StepArrays arrays;
  std::vector<RecisBlock> blocks;            // one for each array
  std::map<std::string, std::string> extra;  // files from blobs "recis/..."
};

// Divides the tables' rows among `world` ranks by slices, and lists all
// arrays. Dense tensors are those of rank 0. Returns the errors of ListArrays.
absl::StatusOr<RecisStep> ListRecis(const StepReader& step,
                                    const StepSelection& selection,
                                    uint32_t world, const ReadOptions& options);

}  // namespace ckptdb::tool

#endif  // CKPTDB_TOOLS_FILES_RECIS_STEP_H_
