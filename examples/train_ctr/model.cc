// SPDX-License-Identifier: Apache-2.0
#include "train_ctr/model.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "train_ctr/device/new_device_model.h"
#include "train_ctr/host_model.h"

namespace train_ctr {

std::vector<EmbeddingTableOptions> TablesOf(const TrainerOptions& options,
                                            const FieldLayout& layout) {
  std::vector<EmbeddingTableOptions> tables;
  for (const std::string& name : layout.tables) {
    tables.push_back({.name = name, .dim = options.dim, .seed = options.seed});
  }
  return tables;
}

absl::StatusOr<std::unique_ptr<Model>> NewModel(const TrainerOptions& options,
                                                const FieldLayout& layout,
                                                examples::Ranks* own) {
  if (!options.cuda_device) {
    return std::make_unique<HostModel>(options, layout, own);
  }
  if (own->size() > 1) {
    return absl::InvalidArgumentError(absl::StrCat(
        "--device cuda:", *options.cuda_device, " with ", own->size(),
        " ranks: a model in GPU memory is not divided among ranks; train with "
        "one rank, or without --device"));
  }
  return NewDeviceModel(options, layout);
}

}  // namespace train_ctr
