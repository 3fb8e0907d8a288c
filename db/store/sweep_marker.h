// SPDX-License-Identifier: Apache-2.0
// Finds the data that a sweep may remove: step 1 of "Sweep" in docs/design.md.
// Internal to db/.
#ifndef CKPTDB_DB_STORE_SWEEP_MARKER_H_
#define CKPTDB_DB_STORE_SWEEP_MARKER_H_

#include <map>
#include <set>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "db/meta/borrowed.h"
#include "db/rocks/database.h"
#include "db/store.h"
#include "db/store/step_catalog.h"
#include "db/store/store_folder.h"
#include "db/store/version_holds.h"
#include "schema/types.h"

namespace ckptdb::internal {

// Data that nothing needs.
struct Garbage {
  std::vector<Version> versions;
  // Committed versions whose step records are lost. They stay, for manual
  // inspection.
  std::vector<Version> quarantined;
  // Key ranges of bulk that nothing refers to, in versions of which other parts
  // are needed.
  KeyRanges gaps;
  bool leased = false;  // a lease keeps some of it
  std::vector<Usage::SkippedEntry> unswept;
};

// Finds the garbage. Used by one sweep at a time.
class SweepMarker {
 public:
  SweepMarker(StoreFolder* folder, StepCatalog* catalog, VersionHolds* holds)
      : folder_(folder), catalog_(catalog), holds_(holds) {}

  // Returns errors of the database and of leases that cannot be read.
  absl::StatusOr<Garbage> Mark();

 private:
  // The first key of each needed item and the first one after it, of versions
  // that are not needed as a whole.
  using KeptItems = std::map<Version, std::map<std::string, std::string>>;

  void MarkBorrowed(CatalogMarks* marks, KeptItems* kept);
  absl::StatusOr<std::vector<BorrowedItem>> LoadBorrowed(
      const StepRecord& step) const;
  absl::Status FlushRetirements();
  absl::StatusOr<std::set<Version>> ReadLeased(Garbage* garbage) const;
  void Collect(const CatalogMarks& marks, const KeptItems& kept,
               const std::set<Version>& leased, Garbage* garbage) const;

  StoreFolder* const folder_;
  StepCatalog* const catalog_;
  VersionHolds* const holds_;
  // The items that the borrowers of the last sweep borrow. They do not change
  // as long as a version is a step.
  std::map<Version, std::vector<BorrowedItem>> borrowed_;
};

}  // namespace ckptdb::internal

#endif  // CKPTDB_DB_STORE_SWEEP_MARKER_H_
