// SPDX-License-Identifier: Apache-2.0
// Writes the store in this folder: see README.md.
#ifndef CKPTDB_TESTS_GOLDEN_DECLARED_SHARDING_MAKE_STORE_H_
#define CKPTDB_TESTS_GOLDEN_DECLARED_SHARDING_MAKE_STORE_H_

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "db/store.h"

namespace ckptdb::testing {

// Makes the store in a new folder, and closes it.
absl::Status MakeDeclaredShardingStore(const std::string& path);

struct GoldenSave {
  bool overwrite = false;
  SaveSpec::Abandoned abandoned = SaveSpec::Abandoned::kRefuse;
  // The base_reason of all tables; empty for a delta step.
  std::string base_reason = {};
  SaveSpec publish = {};
};
// Saves the step that GoldenStepOf describes, on top of its parent in the
// store.
absl::StatusOr<SaveResult> SaveGoldenStep(Store* store, int64_t step,
                                          const GoldenSave& save = {});

}  // namespace ckptdb::testing

#endif  // CKPTDB_TESTS_GOLDEN_DECLARED_SHARDING_MAKE_STORE_H_
