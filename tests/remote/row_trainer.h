// SPDX-License-Identifier: Apache-2.0
// A trainer whose saves have data files: a table "t" of 2,500 rows with a slot
// "v" f32[128], and a tensor "w".
#ifndef CKPTDB_TESTS_REMOTE_ROW_TRAINER_H_
#define CKPTDB_TESTS_REMOTE_ROW_TRAINER_H_

#include <cstdint>
#include <cstring>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "db/store.h"
#include "schema/status.h"
#include "tests/tools/held_tables.h"

namespace ckptdb::testing {

class RowTrainer {
 public:
  static constexpr int64_t kRows = 2500;
  // Saves with fewer changed rows are stored inline.
  static constexpr int64_t kChanged = 1150;

  explicit RowTrainer(Store* store) : store_(store) {}

  // Continues from a step of the store.
  absl::Status Restore(int64_t step) {
    CKPTDB_ASSIGN_OR_RETURN(const StepRecord record, store_->FindStep(step));
    parent_ = StateOf(record);
    return absl::OkStatus();
  }
  absl::Status SaveFull(int64_t step) {
    return Save(step, 0, kRows, std::nullopt);
  }
  // Changes `changed` rows, from one that depends on the step.
  absl::Status SaveDelta(int64_t step, int64_t changed = kChanged) {
    const int64_t first = step * 37 % (kRows - changed);
    return Save(step, first, first + changed, HeldTables::Change{{step % 30}});
  }
  // Like SaveDelta, but replaces an existing step.
  absl::Status Overwrite(int64_t step) {
    overwrite_ = true;
    absl::Status status = SaveDelta(step);
    overwrite_ = false;
    return status;
  }
  void set_salt(float salt) { salt_ = salt; }
  void set_abandoned(SaveSpec::Abandoned abandoned) { abandoned_ = abandoned; }

 private:
  absl::Status Save(int64_t step, int64_t first, int64_t end,
                    std::optional<HeldTables::Change> change) {
    constexpr uint32_t kWidth = 128;
    HeldTables::RowList rows;
    for (int64_t id = first; id < end; ++id) {
      if (change.has_value() && id == change->erased[0]) continue;
      std::vector<float> row(kWidth, static_cast<float>(step) + salt_);
      row[0] = static_cast<float>(id);
      std::string bytes(row.size() * sizeof(float), '\0');
      std::memcpy(bytes.data(), row.data(), bytes.size());
      rows.emplace_back(id, std::move(bytes));
    }
    HeldTables tables;
    tables.Add("t", {{"v", DType::kF32, kWidth}}, rows, std::move(change));
    const std::vector<float> weights = {static_cast<float>(step), salt_};
    tables.state()->AddTensor("w", TensorView::Of(weights.data(), {2}));
    SaveSpec spec;
    spec.step = step;
    spec.parent = parent_;
    spec.overwrite = overwrite_;
    spec.abandoned = abandoned_;
    CKPTDB_ASSIGN_OR_RETURN(const SaveResult saved,
                            store_->Save(spec, *tables.state()));
    parent_ = saved.version;
    return absl::OkStatus();
  }

  Store* const store_;
  std::optional<Version> parent_;
  bool overwrite_ = false;
  SaveSpec::Abandoned abandoned_ = SaveSpec::Abandoned::kKeep;
  float salt_ = 0;
};

}  // namespace ckptdb::testing

#endif  // CKPTDB_TESTS_REMOTE_ROW_TRAINER_H_
