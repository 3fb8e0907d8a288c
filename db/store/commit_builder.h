// Step 3a of a save: what its ranks have staged is checked, and made into what
// the commit writes; internal to db/.
#ifndef CKPTDB_DB_STORE_COMMIT_BUILDER_H_
#define CKPTDB_DB_STORE_COMMIT_BUILDER_H_

#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "ckptdb/db/options.h"
#include "ckptdb/db/store/commit.h"
#include "ckptdb/db/store/step_catalog.h"
#include "ckptdb/db/store/store_folder.h"
#include "ckptdb/db/store/table_summaries.h"
#include "ckptdb/schema/records/staged.h"
#include "ckptdb/schema/types.h"

namespace ckptdb::internal {

// Makes the commit of one publish. Used by one thread, which has the turn of
// Committer: what it finds in the catalog holds until the commit. Nothing is
// written.
class CommitBuilder {
 public:
  // All arguments but `version` must outlive this object.
  CommitBuilder(const StoreFolder& folder, const StepCatalog& catalog,
                TableSummaryCache* summaries, const Version& version,
                const SaveInProgress& save)
      : folder_(folder),
        catalog_(catalog),
        summaries_(summaries),
        version_(version),
        save_(save) {}

  // Returns the commit, with pointers to `ranks`. Errors as Store::Publish.
  absl::StatusOr<Commit> Build(absl::Span<const StagedRank> ranks,
                               const PublishSpec& spec) &&;

 private:
  absl::Status AddRanks(absl::Span<const StagedRank> ranks);
  absl::Status CheckStaged(const internal::StagedRecord& staged) const;
  absl::Status CheckFiles(const internal::StagedRecord& staged) const;
  absl::Status CheckRecord(const internal::StagedRecord& staged,
                           const StepRecord::Rank& record) const;
  absl::Status AddEntries(const internal::StagedRecord& staged);
  absl::Status AddRank(const internal::StagedRecord& staged);
  absl::Status AddParent();
  absl::Status AddRetired(const PublishSpec& spec);
  absl::Status RetireSteps(const Catalog& records,
                           const std::vector<int64_t>& retire);
  void RetireReplaced(const Catalog& records);
  void FillStep(const PublishSpec& spec);
  absl::Status AddChain();

  const StoreFolder& folder_;
  const StepCatalog& catalog_;
  TableSummaryCache* const summaries_;
  const Version version_;
  const SaveInProgress& save_;
  Commit commit_;
};

}  // namespace ckptdb::internal

#endif  // CKPTDB_DB_STORE_COMMIT_BUILDER_H_
