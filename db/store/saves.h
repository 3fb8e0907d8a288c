// Saves of an open store, from Begin to Publish or Abandon; internal to db/.
#ifndef CKPTDB_DB_STORE_SAVES_H_
#define CKPTDB_DB_STORE_SAVES_H_

#include <cstdint>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "ckptdb/db/meta/borrow_cost.h"
#include "ckptdb/db/options.h"
#include "ckptdb/db/state.h"
#include "ckptdb/db/store.h"
#include "ckptdb/db/store/committer.h"
#include "ckptdb/db/store/post_taker.h"
#include "ckptdb/db/store/step_catalog.h"
#include "ckptdb/db/store/store_folder.h"
#include "ckptdb/db/store/sweep_requests.h"
#include "ckptdb/db/store/table_summaries.h"
#include "ckptdb/schema/records/staged.h"

namespace ckptdb::internal {

// Begins saves, and publishes what their ranks have staged: the calls of Store
// of the same names, which say what they return. Has no state of its own: saves
// in progress are in StepCatalog, and Committer gives the turn that each call
// takes. Any thread may call it.
class Saves {
 public:
  Saves(StoreFolder* folder, StepCatalog* catalog, TableSummaryCache* summaries,
        Committer* committer, PostTaker* posts, SweepRequests* requests)
      : folder_(folder),
        catalog_(catalog),
        summaries_(summaries),
        committer_(committer),
        posts_(posts),
        requests_(requests) {}

  // Begins a save. If `sync` is true the record of the attempt is durable on
  // return.
  absl::StatusOr<Store::Attempt> Begin(const SaveSpec& spec, bool sync);
  absl::StatusOr<SaveResult> Publish(const Version& version,
                                     absl::Span<const StagedRank> ranks,
                                     const PublishSpec& spec);
  absl::Status Abandon(const Version& version);
  absl::StatusOr<SaveResult> Save(const SaveSpec& spec, const RankState& state,
                                  const PublishSpec& publish,
                                  const StageOptions& stage);

 private:
  absl::StatusOr<Store::Attempt> Record(const BegunAttempt& begun,
                                        const SaveSpec& spec, bool sync)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(committer_->changes());
  absl::StatusOr<StepRecord::Rank> LoadLender(const StepRecord& parent,
                                              uint32_t rank,
                                              const Version& version,
                                              bool* kept) const;
  std::vector<BorrowedFile> FilesToLeave(const StepRecord& parent,
                                         const StepRecord::Rank& record) const;
  void LeaveOutCostly(const StepRecord& parent, StepRecord::Rank* record) const;
  absl::StatusOr<std::vector<Ticket>> MakeTickets(const BegunAttempt& begun,
                                                  const SaveSpec& spec) const;

  StoreFolder* const folder_;
  StepCatalog* const catalog_;
  TableSummaryCache* const summaries_;
  Committer* const committer_;
  PostTaker* const posts_;
  SweepRequests* const requests_;
};

}  // namespace ckptdb::internal

#endif  // CKPTDB_DB_STORE_SAVES_H_
