// SPDX-License-Identifier: Apache-2.0
// A save of the rows that changed, against a save of all of them.
#include <utility>
#include <vector>

#include "bench/cases.h"
#include "bench/chain_store.h"
#include "bench/store_save.h"
#include "schema/status.h"

namespace ckptdb::bench {
namespace {

constexpr double kMaxBytesRatio = 1.03;
constexpr double kMaxPartOfFull = 0.03;
constexpr double kMaxFixedSeconds = 0.020;

// Each repetition: a base, a delta over it, and the delta's bytes written raw.
class DeltaSaves {
 public:
  DeltaSaves(ChainStore* chain, const Workspace& workspace)
      : chain_(chain), raw_(workspace.Path("raw")) {
    full_.name = "full save";
    delta_.name = "ours";
    for (const RawVariant& variant : RawVariants(workspace.Path(""))) {
      variants_.push_back(variant);
      writes_.push_back({variant.Name(), {}});
    }
  }

  absl::Status Turn() {
    CKPTDB_RETURN_IF_ERROR(chain_->Clear());
    CKPTDB_RETURN_IF_ERROR(Save(&full_, [&] { return chain_->SaveBase(); }));
    const uint64_t before = FileBytes(chain_->path());
    CKPTDB_RETURN_IF_ERROR(Save(&delta_, [&] { return chain_->SaveDelta(); }));
    written_bytes_ = static_cast<double>(FileBytes(chain_->path()) - before);
    const Memory all = chain_->table().payload()[1];
    const std::vector<Memory> payload = {
        {all.data, static_cast<size_t>(chain_->bytes_changed())}};
    for (size_t i = 0; i < variants_.size(); ++i) {
      CKPTDB_RETURN_IF_ERROR(MakeEmptyFolder(raw_));
      CKPTDB_RETURN_IF_ERROR(SyncFileSystem(raw_));
      CKPTDB_ASSIGN_OR_RETURN(const Sample sample, Measure([&] {
                                return RawWrite(raw_, payload, variants_[i]);
                              }));
      writes_[i].samples.push_back(sample);
    }
    return Remove(raw_);
  }

  CaseResult Result() const {
    std::vector<Outcome> outcomes = {delta_};
    outcomes.insert(outcomes.end(), writes_.begin(), writes_.end());
    CaseResult result = Compare("delta", chain_->bytes_changed(), outcomes);
    const double full = SecondsOf(full_).median;
    const double bytes_ratio =
        written_bytes_ / static_cast<double>(chain_->bytes_changed());
    result.figures = {
        {"rows", static_cast<double>(chain_->table().rows())},
        {"rows_changed", static_cast<double>(chain_->rows_changed())},
        {"full_save_seconds", full},
        {"written_bytes", written_bytes_}};
    result.goals = {{"written_bytes_ratio", bytes_ratio, kMaxBytesRatio},
                    {"seconds", result.seconds.median,
                     kMaxPartOfFull * full + kMaxFixedSeconds}};
    return result;
  }

 private:
  // Other work of the chain, such as its digest, is not measured.
  template <typename SaveFunction>
  absl::Status Save(Outcome* outcome, const SaveFunction& save) {
    CKPTDB_ASSIGN_OR_RETURN(const SaveResult saved, save());
    outcome->samples.push_back(chain_->last_sample());
    return saved.borrowed_bytes == 0
               ? absl::OkStatus()
               : absl::UnavailableError("a save wrote less than all");
  }

  ChainStore* const chain_;
  const std::string raw_;
  std::vector<RawVariant> variants_;
  std::vector<Outcome> writes_;
  Outcome full_;
  Outcome delta_;
  double written_bytes_ = 0;
};

}  // namespace

absl::Status RunDelta(const BenchOptions& options, Report* report) {
  constexpr uint64_t kCopies = 2;
  CKPTDB_ASSIGN_OR_RETURN(
      const auto workspace,
      Workspace::Make(options.dir, kCopies * options.rows * Table::kRowBytes));
  CKPTDB_ASSIGN_OR_RETURN(const auto chain,
                          ChainStore::Make(*workspace, options));
  DeltaSaves saves(chain.get(), *workspace);
  for (int i = 0; i < options.repetitions; ++i) {
    CKPTDB_RETURN_IF_ERROR(saves.Turn());
  }
  report->Add(saves.Result());
  return absl::OkStatus();
}

}  // namespace ckptdb::bench
