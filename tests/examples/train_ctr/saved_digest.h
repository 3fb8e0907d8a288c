// SPDX-License-Identifier: Apache-2.0
// The digest of a step of train_ctr's store.
#ifndef CKPTDB_TESTS_EXAMPLES_TRAIN_CTR_SAVED_DIGEST_H_
#define CKPTDB_TESTS_EXAMPLES_TRAIN_CTR_SAVED_DIGEST_H_

#include <ckptdb/db/reader.h>

#include <cstdint>
#include <string>

#include "train_ctr/follower.h"
#include "train_ctr/trainer.h"

namespace train_ctr {

// Reads the step as a whole, by a handle of its own. Returns the error where it
// cannot be read, which is no digest.
inline std::string DigestOfSavedStep(const std::string& store, int64_t step) {
  const auto reader = ckptdb::Reader::Open(store);
  if (!reader.ok()) return reader.status().ToString();
  const auto opened = (*reader)->OpenStep(step);
  if (!opened.ok()) return opened.status().ToString();
  const auto replica = Replica::Make(**opened);
  if (!replica.ok()) return replica.status().ToString();
  ckptdb::ManagerOptions options;
  options.path = store;
  options.read_only = true;
  const auto manager =
      ckptdb::CheckpointManager::Open(options, (*replica)->model());
  if (!manager.ok()) return manager.status().ToString();
  const auto restored = (*manager)->Restore({.step = step});
  if (!restored.ok()) return restored.status().ToString();
  return StateDigest((*replica)->view());
}

}  // namespace train_ctr

#endif  // CKPTDB_TESTS_EXAMPLES_TRAIN_CTR_SAVED_DIGEST_H_
