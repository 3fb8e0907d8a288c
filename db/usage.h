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

// Something in the store's folder that no sweep removes.
struct UnsweptEntry {
  std::string path;    // below the store: "staging/12"
  std::string reason;  // a text
  // It has no name that the store gives, and is nobody's but whoever put it
  // there. Off, it is the store's, and cannot be removed.
  bool foreign = false;

  bool operator==(const UnsweptEntry&) const = default;
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
  // Of all regular files below the store, those with several names once.
  uint64_t disk_bytes = 0;
  // Which these are; they add up to disk_bytes. What steps and others have is
  // in database_bytes, and so is what RocksDB keeps beside it: its log and
  // MANIFEST, indexes, headers, and space that it has not given back yet.
  uint64_t database_bytes = 0;  // db/
  uint64_t staging_bytes = 0;   // of saves and folds in progress or cut short
  uint64_t note_bytes = 0;      // leases, LOCK, OWNER, WATERMARK
  uint64_t spare_bytes = 0;     // set aside: StoreOptions::spare_bytes
  uint64_t foreign_bytes = 0;   // under names that the store does not give
  // Nothing of the store's, or left by saves that are over, or not to be looked
  // into: by path.
  std::vector<UnsweptEntry> unswept;
  // What a user without privileges may still write to its file system.
  uint64_t available_bytes = 0;

  // Of database_bytes, what is neither of steps nor of others; 0 where these
  // estimates are above it, as beside a data file that is gone.
  uint64_t overhead_bytes() const;
};

}  // namespace ckptdb

#endif  // CKPTDB_DB_USAGE_H_
