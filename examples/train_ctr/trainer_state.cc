#include "train_ctr/trainer_state.h"

#include <ckptdb/schema/status.h>

#include <utility>

#include "train_ctr/restore.h"

namespace train_ctr {

absl::StatusOr<std::unique_ptr<ckptdb::RowSource>>
TrainerState::Table::AllRows() const {
  return std::make_unique<TableRowSource>(*table_);
}

absl::StatusOr<std::unique_ptr<ckptdb::RowSource>> TrainerState::Table::RowsOf(
    absl::Span<const int64_t> ids) const {
  CKPTDB_ASSIGN_OR_RETURN(TableRowSource rows,
                          TableRowSource::Of(*table_, ids));
  return std::make_unique<TableRowSource>(std::move(rows));
}

absl::Status TrainerState::Register(ckptdb::ModelState* model) {
  CKPTDB_RETURN_IF_ERROR(model->AddObject(std::string(kProgress), &progress_));
  for (const TensorView& tensor : progress_.trainer()->tensors()) {
    ckptdb::TensorState state;
    state.dtype = DTypeOf(tensor.type);
    state.shape = tensor.shape;
    state.data = tensor.values;
    CKPTDB_RETURN_IF_ERROR(model->AddTensor(tensor.name, std::move(state)));
  }
  for (Table& table : tables_) {
    CKPTDB_RETURN_IF_ERROR(model->AddTable(table.name(), &table));
  }
  return absl::OkStatus();
}

}  // namespace train_ctr
