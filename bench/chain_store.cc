// SPDX-License-Identifier: Apache-2.0
#include "bench/chain_store.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "bench/store_save.h"
#include "schema/status.h"

namespace ckptdb::bench {

absl::StatusOr<std::unique_ptr<ChainStore>> ChainStore::Make(
    const Workspace& workspace, const BenchOptions& options) {
  CKPTDB_ASSIGN_OR_RETURN(auto table, Table::Make(options.rows, options.seed));
  CKPTDB_ASSIGN_OR_RETURN(auto store, Store::Open(workspace.Path("store")));
  return std::unique_ptr<ChainStore>(
      new ChainStore(std::move(store), std::move(table), options));
}

uint64_t ChainStore::rows_changed() const {
  return (table_->rows() + kRowsPerChanged - 1) / kRowsPerChanged;
}

absl::StatusOr<SaveResult> ChainStore::Save(const RankState& state) {
  SaveSpec spec;
  spec.step = step_ + 1;
  spec.parent = last_;
  SaveResult saved;
  CKPTDB_ASSIGN_OR_RETURN(
      last_sample_, Measure([&]() -> absl::Status {
        CKPTDB_ASSIGN_OR_RETURN(
            saved, store_->Save(spec, state, {}, StageOptionsOf(options_)));
        return absl::OkStatus();
      }));
  last_ = saved.version;
  step_ = saved.version.step;
  digests_.push_back(table_->Digest());
  return saved;
}

absl::StatusOr<SaveResult> ChainStore::SaveBase() {
  RankState state;
  table_->AddTo(&state);
  return Save(state);
}

absl::StatusOr<SaveResult> ChainStore::SaveDelta() {
  const uint64_t first = deltas_++ % kRowsPerChanged;
  const auto changed = table_->Change(first, kRowsPerChanged);
  RankState state;
  table_->AddChangesTo(*changed, &state);
  CKPTDB_ASSIGN_OR_RETURN(SaveResult saved, Save(state));
  if (saved.kind == StepRecord::Kind::kDelta) return saved;
  return absl::InternalError("a save of changes wrote the whole table");
}

absl::Status ChainStore::Clear() {
  for (const StepRecord& step : store_->Steps()) {
    CKPTDB_RETURN_IF_ERROR(store_->Delete(step.version.step));
  }
  last_.reset();
  CKPTDB_RETURN_IF_ERROR(store_->Sweep().status());
  return SyncFileSystem(path());
}

Contestant ChainStore::RestoreOf(int64_t step, const std::string& name) {
  Contestant restore;
  restore.name = name;
  restore.prepare = [this] {
    table_->Clear();
    return MakeCold(path());
  };
  restore.run = [this, step]() -> absl::Status {
    CKPTDB_ASSIGN_OR_RETURN(const auto reader, store_->OpenStep(step));
    return table_->ReadFrom(*reader, ReadOptionsOf(options_));
  };
  restore.finish = [this, step] {
    if (table_->Digest() == digest(step)) return absl::OkStatus();
    return absl::DataLossError(absl::StrCat("what was restored of step ", step,
                                            " is not what was saved"));
  };
  return restore;
}

}  // namespace ckptdb::bench
