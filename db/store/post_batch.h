// SPDX-License-Identifier: Apache-2.0
// Collects the record changes that posts request, to write them at once;
// internal to db/.
#ifndef CKPTDB_DB_STORE_POST_BATCH_H_
#define CKPTDB_DB_STORE_POST_BATCH_H_

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "db/store/step_catalog.h"
#include "schema/records/post.h"
#include "schema/types.h"

namespace ckptdb::internal {

// Used by one thread, which holds Committer::changes(), so the records in the
// catalog do not change meanwhile.
class PostBatch {
 public:
  PostBatch(std::string store_uuid, const StepCatalog& catalog)
      : store_uuid_(std::move(store_uuid)), catalog_(catalog) {}
  PostBatch(const PostBatch&) = delete;
  PostBatch& operator=(const PostBatch&) = delete;

  // Applies a post after those before it. Returns NotFound or InvalidArgument
  // for a post that can never be applied.
  absl::Status Apply(const Post& post);
  // Returns whether the records are so large that further posts should wait.
  bool full() const;
  // Returns the changed records. Posts that are applied again after a crash
  // change nothing.
  std::vector<StepRecord> TakeChanged();

 private:
  struct Record {
    StepRecord before;
    StepRecord after;
  };
  absl::StatusOr<Record*> Find(int64_t step);

  const std::string store_uuid_;
  const StepCatalog& catalog_;
  std::map<int64_t, Record> records_;
  uint64_t metric_bytes_ = 0;
};

}  // namespace ckptdb::internal

#endif  // CKPTDB_DB_STORE_POST_BATCH_H_
