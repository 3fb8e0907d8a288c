// SPDX-License-Identifier: Apache-2.0
// Stands in for the model in GPU memory in a build without CUDA.
#include "absl/strings/str_cat.h"
#include "train_ctr/model.h"

namespace train_ctr {

absl::StatusOr<ModelMemory> NewDeviceMemory(
    const ModelOptions& options, const std::vector<EmbeddingTableOptions>&,
    const FieldLayout*) {
  return absl::UnavailableError(absl::StrCat(
      "--device cuda:", options.cuda_device.value_or(0),
      ": this train_ctr was built without CUDA; configure with "
      "-DCKPTDB_CUDA=ON where nvcc is installed, without CKPTDB_SANITIZE, or "
      "train without --device"));
}

}  // namespace train_ctr
