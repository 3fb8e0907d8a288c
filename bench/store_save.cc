// SPDX-License-Identifier: Apache-2.0
#include "bench/store_save.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "bench/payload.h"
#include "schema/status.h"

namespace ckptdb::bench {

StoreOptions StoreOptionsOf(const BenchOptions& options) {
  StoreOptions store;
  if (options.threads > 0) store.stage_threads = options.threads;
  return store;
}

ReadOptions ReadOptionsOf(const BenchOptions& options) {
  ReadOptions read;
  if (options.threads > 0) read.threads = options.threads;
  return read;
}

absl::StatusOr<std::unique_ptr<StoreSave>> StoreSave::Make(
    const Workspace& workspace, const BenchOptions& options,
    const RankState* state) {
  CKPTDB_ASSIGN_OR_RETURN(
      std::unique_ptr<Store> store,
      Store::Open(workspace.Path("store"), StoreOptionsOf(options)));
  return std::unique_ptr<StoreSave>(new StoreSave(std::move(store), state));
}

absl::Status StoreSave::Clear() {
  if (saved_) CKPTDB_RETURN_IF_ERROR(store_->Delete(step_));
  saved_ = false;
  CKPTDB_RETURN_IF_ERROR(store_->Sweep().status());
  return SyncFileSystem(store_->path());
}

absl::Status StoreSave::Save() {
  SaveSpec spec;
  spec.step = step_ + 1;
  CKPTDB_ASSIGN_OR_RETURN(const SaveResult result, store_->Save(spec, *state_));
  step_ = spec.step;
  saved_ = true;
  stored_bytes_ = result.exclusive_bytes;
  if (result.borrowed_bytes == 0) return absl::OkStatus();
  return absl::UnavailableError(absl::StrCat("a save wrote all but ",
                                             result.borrowed_bytes,
                                             " bytes: not comparable"));
}

Contestant StoreSave::AsContestant() {
  Contestant ours;
  ours.name = "ours";
  ours.prepare = [this] {
    CKPTDB_RETURN_IF_ERROR(Clear());
    memory_.Start();
    return absl::OkStatus();
  };
  ours.run = [this] { return Save(); };
  ours.finish = [this] {
    peak_bytes_ = std::max(peak_bytes_, memory_.BytesAboveStart());
    return Clear();
  };
  return ours;
}

std::vector<Contestant> RawWriters(const Workspace& workspace,
                                   const std::vector<Memory>& payload) {
  const std::string folder = workspace.Path("raw");
  std::vector<Contestant> writers;
  for (const RawVariant& variant : RawVariants(workspace.Path(""))) {
    Contestant writer;
    writer.name = variant.Name();
    writer.prepare = [folder] {
      CKPTDB_RETURN_IF_ERROR(MakeEmptyFolder(folder));
      return SyncFileSystem(folder);
    };
    writer.run = [folder, payload, variant] {
      return RawWrite(folder, payload, variant);
    };
    writer.finish = [folder] { return Remove(folder); };
    writers.push_back(std::move(writer));
  }
  return writers;
}

absl::Status BuildSteps(const std::string& path, uint64_t steps,
                        uint64_t seed) {
  constexpr uint64_t kRows = 4;
  CKPTDB_ASSIGN_OR_RETURN(const auto table, Table::Make(kRows, seed));
  std::vector<uint64_t> tensor(kManyStepsTensorElements);
  CKPTDB_ASSIGN_OR_RETURN(const auto store, Store::Open(path));
  for (uint64_t step = 0; step < steps; ++step) {
    tensor[0] = step;
    RankState state;
    state.AddTensor("w",
                    TensorView::Of(tensor.data(), {kManyStepsTensorElements}));
    table->AddTo(&state);
    SaveSpec spec;
    spec.step = static_cast<int64_t>(step);
    spec.metrics["auc"] =
        static_cast<double>(step) / static_cast<double>(steps);
    CKPTDB_RETURN_IF_ERROR(store->Save(spec, state).status());
  }
  return absl::OkStatus();
}

}  // namespace ckptdb::bench
