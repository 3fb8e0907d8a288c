// SPDX-License-Identifier: Apache-2.0
#include "db/read/shared_ids.h"

#include <algorithm>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "db/base/mutex.h"
#include "db/read/run_merge.h"
#include "db/read/table_runs.h"
#include "db/read/table_scan.h"
#include "schema/status.h"

namespace ckptdb::internal {
namespace {

class IgnoreRows : public MergeSink {
 public:
  absl::Status Rows(const RowSink::Batch&) override { return absl::OkStatus(); }
  absl::Status Erased(absl::Span<const int64_t>) override {
    return absl::OkStatus();
  }
};

std::string Describe(int64_t id, const RankItem& a, const RankItem& b) {
  return absl::StrCat("step ", a.step->version.step, " table \"", a.item->name,
                      "\": id ", id, " is on ranks ", std::min(a.rank, b.rank),
                      " and ", std::max(a.rank, b.rank));
}

// Describes an id that two ranks share in the state that `runs` merge to; empty
// if none do.
absl::StatusOr<std::string> FindShared(const StepReader::Impl& step,
                                       const std::vector<RankItem>& runs,
                                       const ReadOptions& read) {
  const std::vector<RunGroup> groups = GroupRuns(runs, SliceRange());
  const bool any =
      std::any_of(groups.begin(), groups.end(),
                  [](const RunGroup& group) { return group.runs.size() > 1; });
  // If no two runs share slices, no id can be in two of them.
  if (!any) return std::string();
  Mutex mutex;
  std::string found;
  const auto note = [&](int64_t id, const RankItem& a, const RankItem& b) {
    const MutexLock lock(&mutex);
    if (found.empty()) found = Describe(id, a, b);
    // The error ends the merge: one shared id is enough.
    return absl::CancelledError("a shared id was found");
  };
  ScanOptions options;
  options.ids_only = true;
  options.read = read;
  const std::vector<size_t> no_slots;
  MergeScan scan(step, runs, groups, no_slots, options);
  const absl::Status status =
      scan.Run([&](int, uint64_t, RunMerge* merge) -> absl::Status {
        IgnoreRows sink;
        merge->set_on_shared(note);
        return merge->Run(&sink);
      });
  if (!found.empty()) return found;
  CKPTDB_RETURN_IF_ERROR(status);
  return std::string();
}

}  // namespace

absl::Status CheckNoSharedIds(
    const StepReader::Impl& step, const std::vector<RankItem>& runs,
    const std::function<bool(const Version&)>& is_known,
    const ReadOptions& options, std::set<Version>* hidden) {
  for (size_t begin = 0, end = 0; begin < runs.size(); begin = end) {
    std::vector<RankItem> of_version;
    for (end = begin; end < runs.size() && runs[end].step == runs[begin].step;
         ++end) {
      if (runs[end].item->rows > 0) of_version.push_back(runs[end]);
    }
    // A version that was verified for another step is not merged again.
    if (is_known(runs[begin].step->version)) continue;
    CKPTDB_ASSIGN_OR_RETURN(std::string shared,
                            FindShared(step, of_version, options));
    if (shared.empty()) continue;
    // A newer version may have upserted or erased the id, so only merging all
    // runs shows whether it is shared.
    if (begin > 0) {
      CKPTDB_ASSIGN_OR_RETURN(shared, FindShared(step, runs, options));
    }
    if (!shared.empty()) return absl::DataLossError(shared);
    // The version has a shared id that this step hides. It does not count as
    // verified, because another step may expose it.
    hidden->insert(runs[begin].step->version);
  }
  return absl::OkStatus();
}

}  // namespace ckptdb::internal
