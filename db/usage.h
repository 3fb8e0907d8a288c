// Where the bytes of a store are.
#ifndef CKPTDB_DB_USAGE_H_
#define CKPTDB_DB_USAGE_H_

#include <cstdint>
#include <string>
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

// What all items of a name have of the store, over all steps, as stored:
// without keys.
struct NameUsage {
  ItemKind kind = ItemKind::kRows;
  std::string name;          // of a table; "" for all tensors, for all blobs
  uint64_t steps = 0;        // that stored bytes of it themselves
  uint64_t own_bytes = 0;    // stored by steps themselves
  uint64_t delta_bytes = 0;  // of own_bytes, those of delta runs
  // Of versions that are no steps any more, what a step needs.
  uint64_t kept_bytes = 0;
};

struct UsageOptions {
  // Fills Usage::names in, from the records of all ranks of all steps.
  bool by_name = false;
};

struct Usage {
  std::vector<StepUsage> steps;     // by step
  std::vector<HeldVersion> others;  // by version
  // When asked for: tensors, tables by name, blobs; those that are there. The
  // own_bytes of all add up to those of the steps.
  std::vector<NameUsage> names;
  uint64_t disk_bytes = 0;  // of all files below the store
  uint64_t free_bytes = 0;  // left on its file system
};

}  // namespace ckptdb

#endif  // CKPTDB_DB_USAGE_H_
