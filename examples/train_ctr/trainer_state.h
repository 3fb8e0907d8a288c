// A trainer as ckptdb's manager sees it: its tables, its tensors, its progress.
#ifndef CKPTDB_EXAMPLES_TRAIN_CTR_TRAINER_STATE_H_
#define CKPTDB_EXAMPLES_TRAIN_CTR_TRAINER_STATE_H_

#include <ckptdb/manager/model_state.h>

#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "train_ctr/table_rows.h"
#include "train_ctr/trainer.h"

namespace train_ctr {

// Of a trainer that outlives it.
class TrainerState {
 public:
  explicit TrainerState(Trainer* trainer) : progress_(trainer) {
    for (size_t t = 0; t < trainer->tables().size(); ++t) {
      tables_.emplace_back(&trainer->tables()[t], &trainer->tracker(t));
    }
  }

  // Registers all of it.
  absl::Status Register(ckptdb::ModelState* model);

 private:
  class Table : public ckptdb::TableState {
   public:
    Table(EmbeddingTable* table, ckptdb::RowTracker* tracker)
        : table_(table), tracker_(tracker), live_(table) {}

    const std::string& name() const { return table_->name(); }
    std::vector<ckptdb::Slot> slots() const override {
      return TableSlots(table_->dim());
    }
    absl::StatusOr<std::unique_ptr<ckptdb::RowSource>> AllRows() const override;
    absl::StatusOr<std::unique_ptr<ckptdb::RowSource>> RowsOf(
        absl::Span<const int64_t> ids) const override;
    // All slots or none: a row of the table has them all.
    ckptdb::LiveTable* Live(absl::Span<const std::string> slots) override {
      return slots.size() == kTableSlots ? &live_ : nullptr;
    }
    ckptdb::RowTracker* tracker() override { return tracker_; }

   private:
    EmbeddingTable* const table_;
    ckptdb::RowTracker* const tracker_;
    LiveRows live_;
  };

  // The options, the step counter and the reader's position. It refuses those
  // of another trainer, and is loaded first.
  class Progress : public ckptdb::SavedObject {
   public:
    explicit Progress(Trainer* trainer) : trainer_(trainer) {}
    absl::StatusOr<std::string> Save() override { return trainer_->progress(); }
    absl::Status Load(absl::string_view bytes) override {
      return trainer_->RestoreProgress(bytes);
    }
    Trainer* trainer() const { return trainer_; }

   private:
    Trainer* const trainer_;
  };

  std::deque<Table> tables_;
  Progress progress_;
};

}  // namespace train_ctr

#endif  // CKPTDB_EXAMPLES_TRAIN_CTR_TRAINER_STATE_H_
