// Where the bytes of a store are.
#ifndef CKPTDB_DB_USAGE_H_
#define CKPTDB_DB_USAGE_H_

#include <cstdint>
#include <vector>

#include "ckptdb/schema/keys.h"

namespace ckptdb {

struct StepUsage {
  Version version;
  uint64_t own_bytes = 0;       // stored by this version itself
  uint64_t borrowed_bytes = 0;  // of other versions whose data it uses
};

// A version without a step record of its own.
struct HeldVersion {
  enum class Why {
    kReferenced,   // a step uses its data
    kLeased,       // a reader holds it
    kBegun,        // of a save in progress, or of one that died
    kQuarantined,  // once acknowledged, its record is lost
    kGarbage,      // the next sweep removes it
  };
  Version version;
  Why why = Why::kGarbage;
  uint64_t bytes = 0;
};

struct Usage {
  std::vector<StepUsage> steps;     // by step
  std::vector<HeldVersion> others;  // by version
  uint64_t disk_bytes = 0;          // of all files below the store
  uint64_t free_bytes = 0;          // left on its file system
};

}  // namespace ckptdb

#endif  // CKPTDB_DB_USAGE_H_
