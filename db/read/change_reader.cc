// SPDX-License-Identifier: Apache-2.0
#include "db/base/option_checks.h"
#include "db/reader.h"

#include <map>
#include <tuple>
#include <utility>

#include "absl/strings/str_cat.h"
#include "db/base/call_guard.h"
#include "db/base/cancelled.h"
#include "db/meta/catalog.h"
#include "db/read/change_reader_impl.h"
#include "db/read/row_batcher.h"
#include "db/read/table_runs.h"
#include "db/read/table_scan.h"
#include "schema/bytes/keys.h"
#include "schema/records/table_schema.h"
#include "schema/status.h"

namespace ckptdb {

using internal::RunMerge;

std::vector<Version> ChangePlan::versions() const {
  std::vector<Version> all = internal::VersionsOf(to_chain.back());
  all.push_back(from.version);
  for (const auto* records : {&path.undo, &path.redo}) {
    for (const StepRecord& record : *records) all.push_back(record.version);
  }
  return all;
}

absl::StatusOr<ChangePlan> PlanChanges(const internal::Catalog& catalog,
                                       const Version& from, int64_t to) {
  ChangePlan plan;
  CKPTDB_ASSIGN_OR_RETURN(const StepRecord target, catalog.FindStep(to));
  // The chain is loaded first, so that damage is reported as damage and not as
  // a missing path.
  CKPTDB_ASSIGN_OR_RETURN(plan.to_chain, internal::ChainOf(catalog, target));
  CKPTDB_ASSIGN_OR_RETURN(plan.path, internal::FindPath(catalog, from, target));
  plan.from = *internal::FindState(catalog, from);
  return plan;
}

namespace {

// Loads the rank records of versions on the path; each is checked against the
// digest in its step record.
absl::StatusOr<std::vector<ChainMember>> LoadMembers(
    const internal::Database& database, std::vector<StepRecord> records) {
  std::vector<ChainMember> members;
  for (StepRecord& record : records) {
    CKPTDB_ASSIGN_OR_RETURN(std::vector<StepRecord::Rank> ranks,
                            internal::LoadRanks(database, record));
    members.push_back({std::move(record), std::move(ranks)});
  }
  return members;
}

// Returns the item of the first rank that has it: the ranks agree on a table's
// schema.
const Item* FindItem(const std::vector<StepRecord::Rank>& ranks,
                     Item::Kind kind, absl::string_view name) {
  for (const StepRecord::Rank& rank : ranks) {
    for (const Item& item : rank.items) {
      if (item.kind == kind && item.name == name) return &item;
    }
  }
  return nullptr;
}

// Not DataLoss, because nothing is damaged: the caller then reads the whole
// table.
absl::Status CannotFollow(absl::string_view table, const Version& version,
                          absl::string_view why) {
  return absl::FailedPreconditionError(
      absl::StrCat("table \"", table, "\" cannot be followed across ",
                   ToString(version), ": ", why));
}

std::vector<uint64_t> RowBytes(const Item& table,
                               const std::vector<size_t>& slots) {
  std::vector<uint64_t> bytes;
  for (const size_t slot : slots) {
    bytes.push_back(table.slots[slot].row_bytes());
  }
  return bytes;
}

// Collects the upserted and erased ids of runs, in order of position.
class IdCollector : public internal::MergeSink {
 public:
  absl::Status Rows(const RowSink::Batch& batch) override {
    ids.insert(ids.end(), batch.ids.begin(), batch.ids.end());
    return absl::OkStatus();
  }
  absl::Status Erased(absl::Span<const int64_t> erased) override {
    ids.insert(ids.end(), erased.begin(), erased.end());
    return absl::OkStatus();
  }
  std::vector<int64_t> ids;
};

// Filters ascending ids by whether they were touched, and remembers the touched
// ids for which no row arrived.
class TouchedIds {
 public:
  TouchedIds(std::vector<int64_t> ids, SliceHash hash)
      : ids_(std::move(ids)), hash_(hash), there_(ids_.size()) {}

  // Both sequences ascend, so one pass suffices and no set of ids is built.
  bool Contains(int64_t id) {
    const auto position = PositionOf(id);
    while (next_ < ids_.size() && PositionOf(ids_[next_]) < position) ++next_;
    return next_ < ids_.size() && ids_[next_] == id;
  }
  // Rows ascend, too, and each is one of the ids.
  void NoteRows(absl::Span<const int64_t> rows) {
    for (const int64_t id : rows) {
      while (noted_ < ids_.size() && ids_[noted_] != id) ++noted_;
      if (noted_ < ids_.size()) there_[noted_] = true;
    }
  }
  std::vector<int64_t> Gone() const {
    std::vector<int64_t> gone;
    for (size_t i = 0; i < ids_.size(); ++i) {
      if (!there_[i]) gone.push_back(ids_[i]);
    }
    return gone;
  }

 private:
  RowPosition PositionOf(int64_t id) const {
    return {SliceOf(id, hash_), static_cast<uint64_t>(id)};
  }

  const std::vector<int64_t> ids_;
  const SliceHash hash_;
  std::vector<bool> there_;
  size_t next_ = 0;
  size_t noted_ = 0;
};

// Passes on the touched rows of the target.
class TouchedSink : public internal::MergeSink {
 public:
  TouchedSink(internal::RowBatcher* batcher, TouchedIds* touched)
      : batcher_(batcher), touched_(touched) {}
  absl::Status Rows(const RowSink::Batch& batch) override {
    touched_->NoteRows(batch.ids);
    return batcher_->Rows(batch);
  }
  absl::Status Erased(absl::Span<const int64_t>) override {
    return absl::OkStatus();
  }

 private:
  internal::RowBatcher* const batcher_;
  TouchedIds* const touched_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<ChangeReader>> ChangeReader::Impl::Load(
    const internal::Database* database, ChangePlan plan, ReadHold hold) {
  std::unique_ptr<Impl> impl(new Impl());
  CKPTDB_RETURN_IF_ERROR(hold.Explain(impl->LoadPath(*database, &plan)));
  CKPTDB_ASSIGN_OR_RETURN(
      impl->to_, StepReader::Impl::Load(database, std::move(plan.to_chain),
                                        std::move(hold), &impl->to_impl_));
  CKPTDB_RETURN_IF_ERROR(
      impl->to_impl_->CheckWhole("reading the changes of a step"));
  return std::make_unique<ChangeReader>(std::move(impl));
}

absl::Status ChangeReader::Impl::LoadPath(const internal::Database& database,
                                          ChangePlan* plan) {
  CKPTDB_ASSIGN_OR_RETURN(auto from,
                          LoadMembers(database, {std::move(plan->from)}));
  from_ = std::move(from.front());
  CKPTDB_ASSIGN_OR_RETURN(undo_,
                          LoadMembers(database, std::move(plan->path.undo)));
  CKPTDB_ASSIGN_OR_RETURN(redo_,
                          LoadMembers(database, std::move(plan->path.redo)));
  return absl::OkStatus();
}

// Checks that both steps have the table with the same slots, so that a row of
// one can replace a row of the other.
absl::Status ChangeReader::Impl::CheckTable(absl::string_view table) const {
  CKPTDB_ASSIGN_OR_RETURN(const auto parts,
                          to_impl_->Find(Item::Kind::kRows, table));
  const Item* const old = FindItem(from_.ranks, Item::Kind::kRows, table);
  if (old == nullptr) {
    return CannotFollow(table, from_.record.version, "it has no such table");
  }
  if (internal::SameSchema(*old, parts[0].item->slots,
                           parts[0].item->slice_hash)) {
    return absl::OkStatus();
  }
  return CannotFollow(
      table, from_.record.version,
      "its schema (slots or slice hash) differs between the steps");
}

// Returns the delta runs on the path. A version that saved the table in full
// does not record which rows changed.
absl::StatusOr<std::vector<RankItem>> ChangeReader::Impl::DeltaRuns(
    absl::string_view table) const {
  std::vector<RankItem> runs;
  for (const auto* members : {&redo_, &undo_}) {
    for (const ChainMember& member : *members) {
      const size_t before = runs.size();
      internal::AppendRuns(member, table, &runs);
      const Version& version = member.record.version;
      if (runs.size() == before) {
        return CannotFollow(table, version, "it has no such table");
      }
      const Item& item = *runs.back().item;
      if (item.run == Item::Run::kDelta) continue;
      return CannotFollow(
          table, version,
          absl::StrCat("it was saved in full",
                       item.base_reason.empty() ? "" : ", because ",
                       item.base_reason));
    }
  }
  return runs;
}

absl::Status ChangeReader::Impl::ScanTable(absl::string_view table,
                                           const ScanOptions& options,
                                           LiveTable* live) const {
  CKPTDB_RETURN_IF_ERROR(internal::CheckSlices(options.slices));
  CKPTDB_RETURN_IF_ERROR(
      internal::CheckThreads("ReadOptions::threads", options.read.threads));
  CKPTDB_RETURN_IF_ERROR(internal::CheckCancelled(options.read.cancelled));
  CKPTDB_RETURN_IF_ERROR(CheckTable(table));
  CKPTDB_ASSIGN_OR_RETURN(const std::vector<RankItem> runs, DeltaRuns(table));
  // The two steps have the same state: one may be a fold of the other.
  if (runs.empty()) return absl::OkStatus();
  // Forwards, the delta runs contain all changes. Backwards, they only name the
  // changed ids; the rows are the target's.
  return forwards() ? Forwards(runs, options, live)
                    : LookUp(table, runs, options, live);
}

absl::StatusOr<StepReader::ScanEstimate> ChangeReader::Impl::EstimateScan(
    absl::string_view table, const SliceRange& slices) const {
  CKPTDB_RETURN_IF_ERROR(internal::CheckSlices(slices));
  CKPTDB_RETURN_IF_ERROR(CheckTable(table));
  CKPTDB_ASSIGN_OR_RETURN(const std::vector<RankItem> runs, DeltaRuns(table));
  return internal::EstimateRuns(runs, slices);
}

// Merges the delta runs and applies each upsert and erasure.
absl::Status ChangeReader::Impl::Forwards(const std::vector<RankItem>& runs,
                                          const ScanOptions& options,
                                          LiveTable* live) const {
  CKPTDB_ASSIGN_OR_RETURN(const std::vector<size_t> slots,
                          internal::SlotIndexes(runs[0], options));
  const auto groups = internal::GroupRuns(runs, options.slices);
  internal::MergeScan scan(*to_impl_, runs, groups, slots, options);
  return scan.Run([&](int worker, uint64_t, RunMerge* merge) -> absl::Status {
    internal::RowBatcher batcher(worker, RowBytes(*runs[0].item, slots), live,
                                 live);
    CKPTDB_RETURN_IF_ERROR(merge->Run(&batcher));
    return batcher.Flush();
  });
}

// Applies the target's row, or an erasure, for each id that changed on the
// path.
absl::Status ChangeReader::Impl::LookUp(absl::string_view table,
                                        const std::vector<RankItem>& touched,
                                        const ScanOptions& options,
                                        LiveTable* live) const {
  CKPTDB_ASSIGN_OR_RETURN(const std::vector<RankItem> runs,
                          internal::RunsOf(*to_impl_, table));
  CKPTDB_ASSIGN_OR_RETURN(const std::vector<size_t> slots,
                          internal::SlotIndexes(runs[0], options));
  const auto touched_groups = internal::GroupRuns(touched, options.slices);
  // Only the ids of the runs on the path are read.
  const std::vector<size_t> no_slots;
  internal::MergeScan scan(*to_impl_, touched, touched_groups, no_slots,
                           options);
  return scan.Run(
      [&](int worker, uint64_t task, RunMerge* merge) -> absl::Status {
        // First collects the changed ids in this range of slices, then passes
        // once over the target's rows and keeps these ids. Ids without a row in
        // the target are erased.
        IdCollector collected;
        CKPTDB_RETURN_IF_ERROR(merge->Run(&collected));
        if (collected.ids.empty()) return absl::OkStatus();
        TouchedIds ids(std::move(collected.ids), runs[0].item->slice_hash);
        internal::RowBatcher batcher(worker, RowBytes(*runs[0].item, slots),
                                     live, live);
        TouchedSink sink(&batcher, &ids);
        ScanOptions kept;
        kept.read = options.read;
        kept.wanted = [&](int64_t id) { return ids.Contains(id); };
        for (const internal::RunGroup& group :
             internal::GroupRuns(runs, scan.tasks()[task].slices)) {
          RunMerge rows(*to_impl_, runs, group, slots, kept);
          CKPTDB_RETURN_IF_ERROR(rows.Run(&sink));
        }
        CKPTDB_RETURN_IF_ERROR(batcher.Flush());
        const std::vector<int64_t> gone = ids.Gone();
        if (gone.empty()) return absl::OkStatus();
        return internal::CallGuarded("LiveTable::Erase",
                                     [&] { return live->Erase(worker, gone); });
      });
}

ChangeReader::ChangeReader(std::unique_ptr<Impl> impl)
    : impl_(std::move(impl)) {}
ChangeReader::~ChangeReader() {
  if (impl_ != nullptr) impl_->home().KeepInChild(&impl_);
}

const StepRecord& ChangeReader::from() const { return impl_->from().record; }
const StepReader& ChangeReader::to() const { return impl_->to(); }
bool ChangeReader::forwards() const { return impl_->forwards(); }

absl::Status ChangeReader::ScanTable(absl::string_view table,
                                     const ScanOptions& options,
                                     LiveTable* live) const {
  CKPTDB_RETURN_IF_ERROR(impl_->home().CheckAlive("ChangeReader::ScanTable"));
  CKPTDB_RETURN_IF_ERROR(
      internal::CheckTarget(live, absl::StrCat("table \"", table, "\"")));
  return internal::CallGuarded("ChangeReader::ScanTable", [&] {
    return impl_->hold().Explain(impl_->ScanTable(table, options, live));
  });
}

absl::StatusOr<StepReader::ScanEstimate> ChangeReader::EstimateScan(
    absl::string_view table, const SliceRange& slices) const {
  return internal::CallGuarded("ChangeReader::EstimateScan", [&] {
    return impl_->EstimateScan(table, slices);
  });
}

std::vector<StepRecord::Rank> ChangeReader::ChangedItems() const {
  using Key = std::tuple<uint32_t, Item::Kind, std::string, Shape, Shape>;
  const auto key = [](uint32_t rank, const Item& item) {
    return Key(rank, item.kind, item.name, item.offset, item.shape);
  };
  std::map<Key, const Item*> old;
  for (const StepRecord::Rank& rank : impl_->from().ranks) {
    for (const Item& item : rank.items) {
      old[key(rank.rank, item)] = &item;
    }
  }
  std::vector<StepRecord::Rank> changed;
  for (const StepRecord::Rank& rank : to().ranks()) {
    std::vector<Item> items;
    for (const Item& item : rank.items) {
      // ScanTable returns the changes of a table.
      if (item.kind == Item::Kind::kRows) continue;
      const auto found = old.find(key(rank.rank, item));
      // The digest covers the bytes of all chunks, so no chunk is read.
      const bool same = found != old.end() &&
                        found->second->digest == item.digest &&
                        found->second->raw_bytes == item.raw_bytes &&
                        found->second->dtype == item.dtype &&
                        found->second->global_shape == item.global_shape;
      if (!same) items.push_back(item);
    }
    if (items.empty()) continue;
    changed.push_back({rank.version, rank.rank, std::move(items)});
  }
  return changed;
}

}  // namespace ckptdb
