#include "ckptdb/db/store/commit_chain.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "ckptdb/db/meta/lineage.h"
#include "ckptdb/schema/records/table_schema.h"
#include "ckptdb/schema/status.h"

namespace ckptdb::internal {

absl::Status ChainBuilder::Build() {
  StepRecord& step = commit_->step;
  // A table that is saved whole needs nothing older. One table of delta runs
  // makes the step a delta.
  step.chain = {step.version};
  const TableSummaries own = SummarizeTables(commit_->ranks);
  for (const auto& [name, table] : own) {
    const bool delta = table.item.run == Item::Run::kDelta;
    if (delta) step.kind = StepRecord::Kind::kDelta;
    (delta ? step.delta_bytes : step.base_bytes) += table.stored_bytes;
  }
  return step.kind == StepRecord::Kind::kFull ? absl::OkStatus()
                                              : ExtendChain(own);
}

// The chain begins at the oldest base run that a table needs.
absl::Status ChainBuilder::ExtendChain(const TableSummaries& own) {
  if (!names_parent_) {
    return absl::InvalidArgumentError("a delta save requires SaveSpec::parent");
  }
  // This checks the lineage of all members, so no save is added to a chain that
  // could not be restored.
  CKPTDB_ASSIGN_OR_RETURN(parent_chain_,
                          catalog_.Read([&](const Catalog& records) {
                            return ChainOf(records, commit_->parent);
                          }));
  StepRecord& step = commit_->step;
  std::set<Version> data;
  size_t first = parent_chain_.size();
  for (const auto& [name, table] : own) {
    if (table.item.run == Item::Run::kBase) continue;
    CKPTDB_ASSIGN_OR_RETURN(const size_t base, AddOldRuns(table.item, &data));
    // The chain begins at the oldest base run of all tables with deltas: older
    // members of the parent's chain are not needed.
    first = std::min(first, base);
  }
  step.chain.clear();
  for (size_t i = first; i < parent_chain_.size(); ++i) {
    // Members between are kept even where no table of them is needed: the chain
    // of parents is what the lineage digests vouch for.
    step.chain.push_back(parent_chain_[i].version);
  }
  step.chain.push_back(step.version);
  AddReferences(data);
  return absl::OkStatus();
}

// Adds the runs below the changes of a table, back to its base run. Returns the
// index in the parent's chain of the version that holds the base run.
absl::StatusOr<size_t> ChainBuilder::AddOldRuns(const Item& table,
                                                std::set<Version>* data) {
  StepRecord& step = commit_->step;
  const auto refuse = [&](absl::string_view why) {
    // The remedy is to save the table in full, so this is no DataLoss.
    return absl::FailedPreconditionError(
        absl::StrCat("changes of table \"", table.name, "\" over parent ",
                     ToString(step.parent), ": ", why));
  };
  size_t member = parent_chain_.size();
  for (bool base = false; !base;) {
    if (member == 0) return refuse("there is no base run");
    CKPTDB_ASSIGN_OR_RETURN(
        const auto tables,
        summaries_->Load(database_, parent_chain_[--member]));
    const auto found = tables->find(table.name);
    if (found == tables->end())
      return refuse("it has no such table; save the table in full");
    const TableSummary& old = found->second;
    if (!SameSchema(old.item, table.slots, table.slice_hash)) {
      return refuse(
          "its schema differs from the parent's; save the table in full");
    }
    base = old.item.run == Item::Run::kBase;
    (base ? step.base_bytes : step.delta_bytes) += old.stored_bytes;
    data->insert(old.data.begin(), old.data.end());
  }
  return member;
}

// Adds the versions that hold runs of the chain and are no members of it. A
// folded step borrows the tables that were saved whole from the version that it
// was folded from, which is in no chain.
void ChainBuilder::AddReferences(const std::set<Version>& data) {
  StepRecord& step = commit_->step;
  std::set<Version> references = data;
  for (const Version& member : step.chain) references.erase(member);
  references.insert(step.references.begin(), step.references.end());
  step.references.assign(references.begin(), references.end());
}

}  // namespace ckptdb::internal
