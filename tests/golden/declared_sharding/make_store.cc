// SPDX-License-Identifier: Apache-2.0
#include "tests/golden/declared_sharding/make_store.h"

#include <atomic>
#include <filesystem>
#include <memory>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "db/reader.h"
#include "db/state.h"
#include "schema/status.h"
#include "tests/golden/declared_sharding/history.h"

namespace ckptdb::testing {
namespace {

namespace fs = std::filesystem;

// The part of a step that one rank saves, with its memory.
class RankMemory {
 public:
  RankMemory(const GoldenStep& step, uint32_t rank,
             const std::string& base_reason)
      : step_(step), rank_(rank) {
    for (const auto& [name, table] : step.tables) {
      AddTable(name, table, base_reason);
    }
    for (const auto& [name, whole] : step.tensors) AddTensor(name);
    for (const auto& [name, bytes] : step.blobs[rank]) {
      state_.AddBlob(name, bytes, Codec::kLz4);
    }
  }
  const RankState& state() const { return state_; }

 private:
  const RowSource* Hold(const std::string& table, const Rows& rows) {
    constexpr size_t kRowsPerBlock = 16;
    std::vector<BlockRows::Row> own;
    for (const auto& [id, row] : rows) {
      if (GoldenRankSaves(step_, table, id, rank_)) own.emplace_back(id, row);
    }
    rows_.push_back(std::make_unique<BlockRows>(step_.tables.at(table).slots,
                                                own, kRowsPerBlock));
    return rows_.back().get();
  }
  void AddTable(const std::string& name, const TableContent& table,
                const std::string& base_reason) {
    RankState::Table item;
    item.name = name;
    item.slots = table.slots;
    item.slice_hash = table.hash;
    item.sharding = GoldenSharding(name);
    item.rows = Hold(name, table.rows);
    item.base_reason = base_reason;
    const auto changes = step_.changes.find(name);
    if (changes != step_.changes.end()) {
      std::vector<int64_t>& erased = erased_.emplace_back();
      for (const int64_t id : changes->second.erased) {
        if (GoldenRankSaves(step_, name, id, rank_)) erased.push_back(id);
      }
      item.changes =
          RankState::Changes{Hold(name, changes->second.upserted), erased};
    }
    state_.AddTable(std::move(item));
  }
  void AddTensor(const std::string& name) {
    auto shard = GoldenShard(step_, name, rank_);
    if (!shard.has_value()) return;
    tensors_.push_back(std::make_unique<TensorContent>(*std::move(shard)));
    state_.AddTensor(name, tensors_.back()->View(), tensors_.back()->codec);
  }

  const GoldenStep& step_;
  const uint32_t rank_;
  std::vector<std::unique_ptr<BlockRows>> rows_;
  std::vector<std::unique_ptr<TensorContent>> tensors_;
  std::vector<std::vector<int64_t>> erased_;  // arrays must not move
  RankState state_;
};

absl::Status SaveBlob(Store* store, int64_t step) {
  RankState state;
  state.AddBlob("reader", "to be removed");
  return store->Save({.step = step}, state).status();
}

// A step of one rank, and two steps of two ranks without slices.
absl::Status SaveWithoutSlices(Store* store) {
  CKPTDB_RETURN_IF_ERROR(SaveBlob(store, 20));
  CKPTDB_RETURN_IF_ERROR(
      SaveGoldenStep(store, 20, {.overwrite = true}).status());
  CKPTDB_RETURN_IF_ERROR(SaveGoldenStep(store, 30).status());
  CKPTDB_RETURN_IF_ERROR(SaveGoldenStep(store, 40).status());
  CKPTDB_RETURN_IF_ERROR(SaveBlob(store, 50));
  CKPTDB_RETURN_IF_ERROR(store->Delete(50));
  return store->Sweep().status();
}

absl::Status SaveLine(Store* store) {
  GoldenSave whole;
  whole.publish.metrics = {{"auc", 0.75}};
  whole.publish.user_metadata = {{"note", "a base"}};
  CKPTDB_RETURN_IF_ERROR(SaveGoldenStep(store, 100, whole).status());
  CKPTDB_RETURN_IF_ERROR(store->Pin(100));
  CKPTDB_RETURN_IF_ERROR(store->AddMetrics(100, {{"loss", -0.5}}));
  CKPTDB_RETURN_IF_ERROR(SaveGoldenStep(store, 110).status());
  GoldenSave ephemeral;
  ephemeral.publish.ephemeral = true;
  CKPTDB_RETURN_IF_ERROR(SaveGoldenStep(store, 120, ephemeral).status());
  GoldenSave retiring;
  retiring.publish.retire = {110};
  CKPTDB_RETURN_IF_ERROR(SaveGoldenStep(store, 130, retiring).status());
  CKPTDB_RETURN_IF_ERROR(SaveGoldenStep(store, 140).status());
  CKPTDB_RETURN_IF_ERROR(store->SaveEvaluation(140, "test/day_6", "eval/ctr",
                                               {{{7, "meters", "line 7"}}}));
  CKPTDB_RETURN_IF_ERROR(store->Fold(140).status());
  CKPTDB_RETURN_IF_ERROR(SaveGoldenStep(store, 150).status());
  return store->SaveEvaluation(
      150, "test/day_7", "eval/ctr",
      {{{10, std::string("\0\xff", 2), "line 10"}, {11, "", ""}}});
}

absl::Status SaveBranches(Store* store) {
  CKPTDB_RETURN_IF_ERROR(SaveGoldenStep(store, 160).status());
  CKPTDB_RETURN_IF_ERROR(
      SaveGoldenStep(store, 170, {.abandoned = SaveSpec::Abandoned::kKeep})
          .status());
  CKPTDB_RETURN_IF_ERROR(
      SaveGoldenStep(store, 180,
                     {.base_reason = "the tracker is over its bound"})
          .status());
  CKPTDB_RETURN_IF_ERROR(store->Quarantine(180));
  CKPTDB_RETURN_IF_ERROR(SaveGoldenStep(store, 190).status());
  return store->Sweep().status();
}

// Interrupts a fold after its first part.
absl::Status LeaveFold(Store* store, int64_t step) {
  std::atomic<bool> one_is_done = false;
  ReadOptions options;
  options.threads = 1;
  options.progress = [&](uint64_t, uint64_t) { one_is_done = true; };
  options.cancelled = [&] { return one_is_done.load(); };
  const absl::Status status = store->Fold(step, options).status();
  if (absl::IsCancelled(status)) return absl::OkStatus();
  return status.ok() ? absl::InternalError("the fold came to an end") : status;
}

// Leaves a lease behind, like a killed reader.
absl::Status LeaveLease(const std::string& path, int64_t step) {
  const fs::path leases = fs::path(path) / "leases";
  const fs::path aside = fs::path(path) / "aside";
  {
    CKPTDB_ASSIGN_OR_RETURN(const auto reader, Reader::Open(path));
    CKPTDB_ASSIGN_OR_RETURN(const auto held, reader->OpenStep(step));
    fs::copy(leases, aside);
  }
  fs::remove(leases);
  fs::rename(aside, leases);
  return absl::OkStatus();
}

void RemoveWhatNothingReads(const std::string& path) {
  fs::remove(fs::path(path) / "LOCK");
  fs::remove(fs::path(path) / "OWNER");
  std::vector<fs::path> unread;
  for (const auto& entry : fs::directory_iterator(fs::path(path) / "db")) {
    const std::string name = entry.path().filename().string();
    if (name == "LOCK" || absl::StartsWith(name, "LOG") ||
        absl::StartsWith(name, "OPTIONS-")) {
      unread.push_back(entry.path());
    }
  }
  for (const fs::path& file : unread) fs::remove(file);
}

}  // namespace

absl::StatusOr<SaveResult> SaveGoldenStep(Store* store, int64_t step,
                                          const GoldenSave& save) {
  const GoldenStep golden = GoldenStepOf(step);
  SaveSpec spec;
  spec.step = step;
  spec.overwrite = save.overwrite;
  spec.world_size = golden.plan.world_size;
  spec.slice_bounds = golden.plan.slice_bounds;
  spec.abandoned = save.abandoned;
  if (golden.plan.parent.has_value()) {
    CKPTDB_ASSIGN_OR_RETURN(const StepRecord parent,
                            store->FindStep(*golden.plan.parent));
    spec.parent = parent.version;
  }
  CKPTDB_ASSIGN_OR_RETURN(const Store::Attempt begun, store->Begin(spec));
  std::vector<StagedRank> staged;
  for (const Ticket& ticket : begun.tickets) {
    const RankMemory memory(golden, ticket.rank(), save.base_reason);
    CKPTDB_ASSIGN_OR_RETURN(staged.emplace_back(),
                            Stage(store->path(), ticket, memory.state()));
  }
  return store->Publish(begun.version, staged, save.publish);
}

absl::Status MakeDeclaredShardingStore(const std::string& path) {
  StoreOptions options;
  options.background_sweep = false;
  options.spare_bytes = 0;
  CKPTDB_ASSIGN_OR_RETURN(const auto store, Store::Open(path, options));
  CKPTDB_RETURN_IF_ERROR(store->SetUserMetadata(
      {{"run", "golden"}, {"bytes", std::string("\0\xff", 2)}}));
  CKPTDB_RETURN_IF_ERROR(SaveWithoutSlices(store.get()));
  CKPTDB_RETURN_IF_ERROR(SaveLine(store.get()));
  CKPTDB_RETURN_IF_ERROR(SaveBranches(store.get()));
  CKPTDB_RETURN_IF_ERROR(LeaveFold(store.get(), 160));
  CKPTDB_RETURN_IF_ERROR(LeaveLease(path, 100));
  // A save that is begun and never published.
  CKPTDB_RETURN_IF_ERROR(store->Begin({.step = 210}).status());
  CKPTDB_RETURN_IF_ERROR(store->Close());
  RemoveWhatNothingReads(path);
  return absl::OkStatus();
}

}  // namespace ckptdb::testing
