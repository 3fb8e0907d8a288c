// SPDX-License-Identifier: Apache-2.0
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "bench/cases.h"
#include "bench/payload.h"
#include "bench/store_save.h"
#include "schema/status.h"

namespace ckptdb::bench {
namespace {

constexpr double kMaxRestoreRatio = 1.05;
constexpr int kRawFiles = 4;

// A store and an open step of it; the step goes first.
struct OpenedStep {
  std::unique_ptr<Store> store;
  std::unique_ptr<StepReader> step;
};

// `Payload` is Table or Tensors.
template <typename Payload>
class Restore {
 public:
  // Saves the payload to a store, which is closed, and to raw files.
  static absl::StatusOr<std::unique_ptr<Restore>> Make(
      const BenchOptions& options, const Workspace& workspace,
      Payload* payload);

  // Opens the store and the step, and reads all.
  Contestant Ours();
  std::vector<Contestant> RawReaders();

 private:
  Restore(const BenchOptions& options, const Workspace& workspace,
          Payload* payload)
      : read_(ReadOptionsOf(options)),
        store_path_(workspace.Path("store")),
        raw_path_(workspace.Path("raw")),
        payload_(payload),
        digest_(payload->Digest()) {}

  absl::Status SaveAll(const BenchOptions& options, const Workspace& workspace);
  absl::Status Read();
  // Closes the store, and compares what was read with what was saved.
  absl::Status CloseAndCheck();

  const ReadOptions read_;
  const std::string store_path_;
  const std::string raw_path_;
  Payload* const payload_;
  const uint64_t digest_;
  int64_t step_ = 0;
  OpenedStep opened_;
};

template <typename Payload>
absl::StatusOr<std::unique_ptr<Restore<Payload>>> Restore<Payload>::Make(
    const BenchOptions& options, const Workspace& workspace, Payload* payload) {
  std::unique_ptr<Restore> restore(new Restore(options, workspace, payload));
  CKPTDB_RETURN_IF_ERROR(restore->SaveAll(options, workspace));
  return restore;
}

template <typename Payload>
absl::Status Restore<Payload>::SaveAll(const BenchOptions& options,
                                       const Workspace& workspace) {
  RankState state;
  payload_->AddTo(&state);
  CKPTDB_ASSIGN_OR_RETURN(const auto save,
                          StoreSave::Make(workspace, options, &state));
  CKPTDB_RETURN_IF_ERROR(save->Save());
  step_ = save->last_step();
  CKPTDB_RETURN_IF_ERROR(MakeEmptyFolder(raw_path_));
  return RawWrite(raw_path_, payload_->payload(), {false, kRawFiles});
}

template <typename Payload>
absl::Status Restore<Payload>::Read() {
  CKPTDB_ASSIGN_OR_RETURN(opened_.store, Store::Open(store_path_));
  CKPTDB_ASSIGN_OR_RETURN(opened_.step, opened_.store->OpenStep(step_));
  return payload_->ReadFrom(*opened_.step, read_);
}

template <typename Payload>
absl::Status Restore<Payload>::CloseAndCheck() {
  opened_.step.reset();
  opened_.store.reset();
  if (payload_->Digest() == digest_) return absl::OkStatus();
  return absl::DataLossError("what was restored is not what was saved");
}

template <typename Payload>
Contestant Restore<Payload>::Ours() {
  Contestant ours;
  ours.name = "ours";
  ours.prepare = [this] {
    payload_->Clear();
    return MakeCold(store_path_);
  };
  ours.run = [this] { return Read(); };
  ours.finish = [this] { return CloseAndCheck(); };
  return ours;
}

template <typename Payload>
std::vector<Contestant> Restore<Payload>::RawReaders() {
  std::vector<Contestant> readers;
  for (const RawVariant& variant : RawVariants(raw_path_)) {
    Contestant reader;
    reader.name = variant.Name();
    reader.prepare = [this] {
      payload_->Clear();
      return MakeCold(raw_path_);
    };
    reader.run = [this, variant] {
      return RawRead(raw_path_, payload_->payload(), kRawFiles, variant);
    };
    reader.finish = [this] { return CloseAndCheck(); };
    readers.push_back(std::move(reader));
  }
  return readers;
}

template <typename Payload>
absl::Status RunOne(const std::string& name, const BenchOptions& options,
                    Payload* payload, Report* report) {
  constexpr uint64_t kCopies = 3;
  CKPTDB_ASSIGN_OR_RETURN(
      const auto workspace,
      Workspace::Make(options.dir, kCopies * payload->bytes()));
  CKPTDB_ASSIGN_OR_RETURN(const auto restore,
                          Restore<Payload>::Make(options, *workspace, payload));
  std::vector<Contestant> contestants = {restore->Ours()};
  for (Contestant& reader : restore->RawReaders()) {
    contestants.push_back(std::move(reader));
  }
  CKPTDB_ASSIGN_OR_RETURN(const std::vector<Outcome> outcomes,
                          TakeTurns(name, contestants, options.repetitions));
  CaseResult result = Compare(name, payload->bytes(), outcomes);
  result.goals = {{"ratio", result.ratio(), kMaxRestoreRatio}};
  report->Add(std::move(result));
  return absl::OkStatus();
}

}  // namespace

absl::Status RunRestore(const BenchOptions& options, Report* report) {
  {
    CKPTDB_ASSIGN_OR_RETURN(const auto table,
                            Table::Make(options.rows, options.seed));
    CKPTDB_RETURN_IF_ERROR(
        RunOne("restore/full", options, table.get(), report));
  }
  CKPTDB_ASSIGN_OR_RETURN(const auto tensors,
                          Tensors::Make(options.dense_bytes, options.seed));
  return RunOne("restore/dense", options, tensors.get(), report);
}

}  // namespace ckptdb::bench
