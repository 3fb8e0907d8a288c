// SPDX-License-Identifier: Apache-2.0
// One number for all state of a trainer, to compare runs and copies by.
#ifndef CKPTDB_EXAMPLES_TRAIN_CTR_DIGEST_H_
#define CKPTDB_EXAMPLES_TRAIN_CTR_DIGEST_H_

#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "train_ctr/trainer.h"

namespace train_ctr {

// The name of the progress in a step, a blob of rank 0.
inline constexpr absl::string_view kProgress = "progress";

// Returns a digest of all tables, tensors and the progress, as 16 hex digits,
// whatever the order of rows and tables.
std::string StateDigest(const StateView& state);

// Returns the digest of the state of all ranks; all ranks call it. It equals
// the digest of a single rank with all rows.
absl::StatusOr<std::string> SharedDigest(Trainer& trainer);

}  // namespace train_ctr

#endif  // CKPTDB_EXAMPLES_TRAIN_CTR_DIGEST_H_
