// SPDX-License-Identifier: Apache-2.0
#include "db/store/post_batch.h"

#include "db/meta/posts.h"
#include "schema/status.h"

namespace ckptdb::internal {
namespace {

// Posts can only grow the metrics of a record.
uint64_t MetricBytes(const Metrics& metrics) {
  uint64_t bytes = 0;
  for (const auto& [name, value] : metrics) {
    bytes += name.size() + sizeof(value);
  }
  return bytes;
}

}  // namespace

absl::StatusOr<PostBatch::Record*> PostBatch::Find(int64_t step) {
  const auto found = records_.find(step);
  if (found != records_.end()) return &found->second;
  CKPTDB_ASSIGN_OR_RETURN(const StepRecord record, catalog_.FindStep(step));
  metric_bytes_ += MetricBytes(record.metrics);
  return &records_.emplace(step, Record{record, record}).first->second;
}

absl::Status PostBatch::Apply(const Post& post) {
  CKPTDB_ASSIGN_OR_RETURN(Record* const record, Find(post.version.step));
  return ApplyPost(post, store_uuid_, &record->after);
}

bool PostBatch::full() const { return metric_bytes_ > kMaxPostBytesAtOnce; }

std::vector<StepRecord> PostBatch::TakeChanged() {
  std::vector<StepRecord> changed;
  for (auto& [step, record] : records_) {
    if (record.after == record.before) continue;
    changed.push_back(std::move(record.after));
  }
  records_.clear();
  return changed;
}

}  // namespace ckptdb::internal
