// Writes the store that lies beside this file: see README.md.
#ifndef CKPTDB_TESTS_GOLDEN_DECLARED_SHARDING_MAKE_STORE_H_
#define CKPTDB_TESTS_GOLDEN_DECLARED_SHARDING_MAKE_STORE_H_

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "ckptdb/db/store.h"

namespace ckptdb::testing {

// Makes it in a folder that is not there yet, and closes it.
absl::Status MakeDeclaredShardingStore(const std::string& path);

struct GoldenSave {
  bool overwrite = false;
  SaveSpec::Abandoned abandoned = SaveSpec::Abandoned::kRefuse;
  // The base_reason of all tables; empty for a delta over the parent.
  std::string base_reason = {};
  PublishSpec publish = {};
};
// Saves what GoldenStepOf says of this step, over its parent in the store.
absl::StatusOr<SaveResult> SaveGoldenStep(Store* store, int64_t step,
                                          const GoldenSave& save = {});

}  // namespace ckptdb::testing

#endif  // CKPTDB_TESTS_GOLDEN_DECLARED_SHARDING_MAKE_STORE_H_
