// SPDX-License-Identifier: Apache-2.0
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "bench/cases.h"
#include "bench/payload.h"
#include "bench/store_save.h"
#include "schema/status.h"

namespace ckptdb::bench {
namespace {

constexpr double kMaxRestoreRatio = 1.05;
constexpr int kRawFiles = 4;

// A payload, Table or Tensors, in a store and in raw files.
template <typename Payload>
class Restore {
 public:
  Restore(const BenchOptions& options, const Workspace& workspace,
          Payload* payload)
      : options_(options),
        workspace_(workspace),
        payload_(payload),
        digest_(payload->Digest()) {}

  // Saves the payload to the store, which is closed, and to raw files.
  absl::Status SaveAll() {
    RankState state;
    payload_->AddTo(&state);
    CKPTDB_ASSIGN_OR_RETURN(const auto save,
                            StoreSave::Make(workspace_, options_, &state));
    CKPTDB_RETURN_IF_ERROR(save->Save());
    step_ = save->last_step();
    CKPTDB_RETURN_IF_ERROR(MakeEmptyFolder(raw_path_));
    return RawWrite(raw_path_, payload_->payload(), {false, kRawFiles});
  }

  // Opens the store and the step, and reads all.
  Contestant Ours() {
    return Cold("ours", store_path_, [this]() -> absl::Status {
      CKPTDB_ASSIGN_OR_RETURN(store_, Store::Open(store_path_));
      CKPTDB_ASSIGN_OR_RETURN(reader_, store_->OpenStep(step_));
      return payload_->ReadFrom(*reader_, ReadOptionsOf(options_));
    });
  }
  Contestant Raw(const RawVariant& variant) {
    return Cold(variant.Name(), raw_path_, [this, variant] {
      return RawRead(raw_path_, payload_->payload(), kRawFiles, variant);
    });
  }
  const std::string& raw_path() const { return raw_path_; }

 private:
  // Runs with nothing below `folder` in the page cache. Then closes the store,
  // and compares what was read with what was saved.
  Contestant Cold(std::string name, const std::string& folder,
                  std::function<absl::Status()> run) {
    return {std::move(name),
            [this, folder] {
              payload_->Clear();
              return MakeCold(folder);
            },
            std::move(run),
            [this] {
              reader_.reset();
              store_.reset();
              return payload_->Digest() == digest_
                         ? absl::OkStatus()
                         : absl::DataLossError(
                               "what was restored is not what was saved");
            }};
  }

  const BenchOptions& options_;
  const Workspace& workspace_;
  const std::string store_path_ = workspace_.Path("store");
  const std::string raw_path_ = workspace_.Path("raw");
  Payload* const payload_;
  const uint64_t digest_;
  int64_t step_ = 0;
  std::unique_ptr<Store> store_;
  std::unique_ptr<StepReader> reader_;
};

template <typename Payload>
absl::Status RunOne(const std::string& name, const BenchOptions& options,
                    Payload* payload, Report* report) {
  constexpr uint64_t kCopies = 3;
  CKPTDB_ASSIGN_OR_RETURN(
      const auto workspace,
      Workspace::Make(options.dir, kCopies * payload->bytes()));
  Restore<Payload> restore(options, *workspace, payload);
  CKPTDB_RETURN_IF_ERROR(restore.SaveAll());
  std::vector<Contestant> contestants = {restore.Ours()};
  for (const RawVariant& variant : RawVariants(restore.raw_path())) {
    contestants.push_back(restore.Raw(variant));
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
