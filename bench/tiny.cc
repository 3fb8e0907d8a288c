// SPDX-License-Identifier: Apache-2.0
#include <fcntl.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "bench/cases.h"
#include "bench/disk.h"
#include "bench/payload.h"
#include "bench/store_save.h"
#include "schema/status.h"

namespace ckptdb::bench {
namespace {

constexpr double kMaxFsyncs = 10;
constexpr uint64_t kRows = 1000;
constexpr uint64_t kTensorBytes = uint64_t{1} << 20;
constexpr int kSavesPerRepetition = 10;
constexpr int kFsyncsPerSave = 5;
// A save syncs its data file twice (in staging and in the database), the log
// twice, the table of its records, the MANIFEST three times and the folder four
// times.
constexpr int kSyncsOfASave = 12;

constexpr uint64_t kBlock = kAlignBytes;
constexpr uint64_t kSavedBytes = kRows * Table::kRowBytes + kTensorBytes;

// A step of new rows and tensors, so that nothing of the step before
// it is used again.
struct SmallState {
  std::unique_ptr<Table> table;
  std::unique_ptr<Tensors> tensors;
  RankState state;
};

absl::StatusOr<std::unique_ptr<SmallState>> MakeState(uint64_t seed) {
  auto small = std::make_unique<SmallState>();
  CKPTDB_ASSIGN_OR_RETURN(small->table, Table::Make(kRows, seed));
  CKPTDB_ASSIGN_OR_RETURN(small->tensors, Tensors::Make(kTensorBytes, seed));
  small->table->AddTo(&small->state);
  small->tensors->AddTo(&small->state);
  return small;
}

class SmallSaves {
 public:
  SmallSaves(Store* store, const OpenFile* file) : store_(store), file_(file) {
    ours_.name = "ours";
    fsync_.name = "4 KiB and fsync";
    bytes_.name = "its bytes and fsync";
    syncs_.name = "its bytes, and all syncs";
  }

  // Runs one save, then some fsyncs.
  absl::Status Turn(uint64_t seed) {
    CKPTDB_ASSIGN_OR_RETURN(const auto small, MakeState(seed));
    SaveSpec spec;
    spec.step = ++step_;
    CKPTDB_ASSIGN_OR_RETURN(const Sample sample, Measure([&] {
                              return store_->Save(spec, small->state).status();
                            }));
    ours_.samples.push_back(sample);
    for (int i = 0; i < kFsyncsPerSave; ++i) {
      CKPTDB_RETURN_IF_ERROR(GrowAndSync(kBlock, &fsync_));
    }
    CKPTDB_RETURN_IF_ERROR(GrowAndSync(kSavedBytes, &bytes_));
    return SyncAsASaveDoes();
  }

  std::vector<Outcome> outcomes() const { return {ours_, fsync_}; }
  // A write and sync of as many bytes as a save has.
  Outcome of_its_bytes() const { return bytes_; }
  // Returns the outcome of the syncs that a save needs, and of nothing else.
  Outcome of_its_syncs() const { return syncs_; }

 private:
  // The first sync is of the bytes of the save, the others are of a block.
  absl::Status SyncAsASaveDoes() {
    CKPTDB_ASSIGN_OR_RETURN(
        const Sample sample, Measure([&]() -> absl::Status {
          for (int i = 0; i < kSyncsOfASave; ++i) {
            CKPTDB_RETURN_IF_ERROR(Grow(i == 0 ? kSavedBytes : kBlock));
          }
          return absl::OkStatus();
        }));
    syncs_.samples.push_back(sample);
    return absl::OkStatus();
  }

  absl::Status GrowAndSync(uint64_t bytes, Outcome* outcome) {
    CKPTDB_ASSIGN_OR_RETURN(const Sample sample,
                            Measure([&] { return Grow(bytes); }));
    outcome->samples.push_back(sample);
    return absl::OkStatus();
  }
  absl::Status Grow(uint64_t bytes) {
    CKPTDB_RETURN_IF_ERROR(
        file_->Append(absl::string_view(bytes_to_write_).substr(0, bytes)));
    return file_->Sync();
  }

  const std::string bytes_to_write_ = std::string(kSavedBytes, 'x');
  Store* const store_;
  const OpenFile* const file_;
  int64_t step_ = 0;
  Outcome ours_;
  Outcome fsync_;
  Outcome bytes_;
  Outcome syncs_;
};

}  // namespace

absl::Status RunTiny(const BenchOptions& options, Report* report) {
  constexpr uint64_t kNeededBytes = uint64_t{1} << 30;
  CKPTDB_ASSIGN_OR_RETURN(const auto workspace,
                          Workspace::Make(options.dir, kNeededBytes));
  CKPTDB_ASSIGN_OR_RETURN(
      const auto store,
      Store::Open(workspace->Path("store"), StoreOptionsOf(options)));
  const OpenFile file(workspace->Path("growing"),
                      O_WRONLY | O_CREAT | O_APPEND);
  CKPTDB_RETURN_IF_ERROR(file.opened());
  CKPTDB_RETURN_IF_ERROR(SyncFileSystem(workspace->Path("")));
  SmallSaves saves(store.get(), &file);
  const int turns = options.repetitions * kSavesPerRepetition;
  for (int turn = 0; turn < turns; ++turn) {
    CKPTDB_RETURN_IF_ERROR(
        saves.Turn(options.seed + static_cast<uint64_t>(turn)));
  }
  CaseResult result = Compare("tiny", kSavedBytes, saves.outcomes());
  const double of_its_bytes = SecondsOf(saves.of_its_bytes()).median;
  const double of_its_syncs = SecondsOf(saves.of_its_syncs()).median;
  result.figures = {
      {"fsync_seconds", result.raw_seconds.median},
      {"fsyncs", result.ratio()},
      {"fsync_of_its_bytes_seconds", of_its_bytes},
      {"fsyncs_of_its_bytes", result.seconds.median / of_its_bytes},
      {"its_syncs_seconds", of_its_syncs},
      {"times_its_syncs", result.seconds.median / of_its_syncs}};
  result.goals = {{"fsyncs", result.ratio(), kMaxFsyncs}};
  report->Add(std::move(result));
  return absl::OkStatus();
}

}  // namespace ckptdb::bench
