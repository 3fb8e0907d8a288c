// SPDX-License-Identifier: Apache-2.0
// The model in the memory of a GPU, for programs that link train_ctr_device. A
// build without CUDA links train_ctr_no_device instead, which returns an error.
#ifndef CKPTDB_EXAMPLES_TRAIN_CTR_DEVICE_NEW_DEVICE_MODEL_H_
#define CKPTDB_EXAMPLES_TRAIN_CTR_DEVICE_NEW_DEVICE_MODEL_H_

#include <memory>

#include "absl/status/statusor.h"
#include "train_ctr/example.h"
#include "train_ctr/model.h"
#include "train_ctr/trainer_options.h"

namespace train_ctr {

// Returns a model of one rank in the memory of options.cuda_device, which is
// set. Returns Unavailable if the machine has no driver or no GPU, or the
// program was built without CUDA; InvalidArgument for a number that no GPU has;
// and ResourceExhausted if the GPU has no memory for options.device_rows.
absl::StatusOr<std::unique_ptr<Model>> NewDeviceModel(
    const TrainerOptions& options, const FieldLayout& layout);

}  // namespace train_ctr

#endif  // CKPTDB_EXAMPLES_TRAIN_CTR_DEVICE_NEW_DEVICE_MODEL_H_
