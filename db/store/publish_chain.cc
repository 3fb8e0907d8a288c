// The place of a save in the lineage: its parent and its chain.
#include <algorithm>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "ckptdb/db/disk/rocks_status.h"
#include "ckptdb/db/meta/consistency.h"
#include "ckptdb/db/meta/lineage.h"
#include "ckptdb/db/store/store_impl.h"
#include "ckptdb/schema/status.h"

namespace ckptdb {
namespace {

// A folded step has the tables that were whole already in the version that it
// was folded from, which is in no chain.
void AddReferences(const std::set<Version>& data, StepRecord* step) {
  std::set<Version> references = data;
  for (const Version& member : step->chain) references.erase(member);
  references.insert(step->references.begin(), step->references.end());
  step->references.assign(references.begin(), references.end());
}

}  // namespace

Store::Impl::TableRuns Store::Impl::RunsOf(
    const std::vector<RankRecord>& ranks) {
  TableRuns runs;
  for (const RankRecord& rank : ranks) {
    for (const Item& item : rank.items) {
      if (item.kind != ItemKind::kRows) continue;
      TableRun& run =
          runs.emplace(item.name, TableRun{item, 0, {}}).first->second;
      run.stored_bytes += item.stored_bytes;
      run.data.insert(item.data);
    }
  }
  return runs;
}

absl::StatusOr<std::shared_ptr<const Store::Impl::TableRuns>>
Store::Impl::LoadRuns(const StepRecord& record) {
  {
    const std::lock_guard<std::mutex> lock(catalog_mutex_);
    const auto found = runs_.find(record.version);
    if (found != runs_.end()) return found->second;
  }
  CKPTDB_ASSIGN_OR_RETURN(const std::vector<RankRecord> ranks,
                          internal::LoadRanks(*database_, record));
  auto runs = std::make_shared<const TableRuns>(RunsOf(ranks));
  const std::lock_guard<std::mutex> lock(catalog_mutex_);
  runs_[record.version] = runs;
  return runs;
}

// The parent as it is now: it may have been folded since Begin, or be gone.
absl::Status Store::Impl::AddParent(const Progress& progress,
                                    Commit* commit) const {
  commit->step_parent = progress.parent;
  if (!progress.spec.parent.has_value()) return absl::OkStatus();
  const std::lock_guard<std::mutex> lock(catalog_mutex_);
  absl::StatusOr<StepRecord> parent =
      internal::FindParent(catalog_, progress.spec);
  CKPTDB_RETURN_IF_ERROR(internal::Annotate(parent.status(), path_));
  commit->step_parent = *std::move(parent);
  return absl::OkStatus();
}

absl::Status Store::Impl::AddChain(const Progress& progress, Commit* commit) {
  StepRecord& step = commit->step;
  step.chain = {step.version};
  const TableRuns own = RunsOf(commit->ranks);
  for (const auto& [name, run] : own) {
    const bool delta = run.item.run == RunKind::kDelta;
    if (delta) step.kind = StepKind::kDelta;
    (delta ? step.delta_bytes : step.base_bytes) += run.stored_bytes;
  }
  if (step.kind == StepKind::kFull) return absl::OkStatus();
  return ExtendChain(progress, own, commit);
}

// Adds the runs below the changes of a table, back to its base run. Returns the
// index in `chain` of the version that holds the base run.
absl::StatusOr<size_t> Store::Impl::AddOldRuns(
    const Item& table, const std::vector<StepRecord>& chain,
    std::set<Version>* data, StepRecord* step) {
  const auto bad = [&](absl::string_view why) {
    return absl::FailedPreconditionError(
        absl::StrCat(path_, ": changes of table \"", table.name,
                     "\" over parent ", ToString(step->parent), ": ", why));
  };
  size_t member = chain.size();
  for (bool base = false; !base;) {
    if (member == 0) return bad("there is no base run");
    CKPTDB_ASSIGN_OR_RETURN(const auto runs, LoadRuns(chain[--member]));
    const auto found = runs->find(table.name);
    if (found == runs->end()) return bad("it has no such table");
    const TableRun& old = found->second;
    if (!internal::SameColumns(old.item, table.slots, table.slice_hash)) {
      return bad("its slots or slice hash are others");
    }
    base = old.item.run == RunKind::kBase;
    (base ? step->base_bytes : step->delta_bytes) += old.stored_bytes;
    data->insert(old.data.begin(), old.data.end());
  }
  return member;
}

// From the oldest base run that a table needs.
absl::Status Store::Impl::ExtendChain(const Progress& progress,
                                      const TableRuns& own, Commit* commit) {
  StepRecord& step = commit->step;
  if (!progress.spec.parent.has_value()) {
    return absl::InvalidArgumentError(absl::StrCat(
        path_, ": delta runs in a save that goes on from no step"));
  }
  std::vector<StepRecord> chain;
  {
    const std::lock_guard<std::mutex> lock(catalog_mutex_);
    CKPTDB_ASSIGN_OR_RETURN(chain,
                            internal::ChainOf(catalog_, commit->step_parent));
  }
  std::set<Version> data;
  size_t first = chain.size();
  for (const auto& [name, run] : own) {
    if (run.item.run == RunKind::kBase) continue;
    CKPTDB_ASSIGN_OR_RETURN(const size_t base,
                            AddOldRuns(run.item, chain, &data, &step));
    first = std::min(first, base);
  }
  step.chain.clear();
  for (size_t i = first; i < chain.size(); ++i) {
    step.chain.push_back(chain[i].version);
  }
  step.chain.push_back(step.version);
  AddReferences(data, &step);
  return absl::OkStatus();
}

}  // namespace ckptdb
