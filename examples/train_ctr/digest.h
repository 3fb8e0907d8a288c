// SPDX-License-Identifier: Apache-2.0
// One number for all state of a trainer, to compare runs and copies by.
#ifndef CKPTDB_EXAMPLES_TRAIN_CTR_DIGEST_H_
#define CKPTDB_EXAMPLES_TRAIN_CTR_DIGEST_H_

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "train_ctr/embedding_table.h"
#include "train_ctr/state_view.h"
#include "train_ctr/trainer.h"

namespace train_ctr {

// Returns a digest of every row's id and slots, whatever the order of the rows.
uint64_t TableDigest(const EmbeddingTable& table);

// Returns a digest of all tables, tensors and the progress, as 16 hex digits,
// whatever the order of tables and tensors.
std::string StateDigest(const StateView& state);

// Returns the digest of the state of all ranks; all ranks call it. It equals
// the digest of a single rank with all rows.
absl::StatusOr<std::string> SharedDigest(Trainer& trainer);

}  // namespace train_ctr

#endif  // CKPTDB_EXAMPLES_TRAIN_CTR_DIGEST_H_
