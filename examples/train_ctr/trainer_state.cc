#include "train_ctr/trainer_state.h"

#include <ckptdb/schema/status.h>

#include <utility>

#include "train_ctr/restore.h"

namespace train_ctr {

absl::Status TrainerState::Register(ckptdb::ModelState* model) {
  CKPTDB_RETURN_IF_ERROR(model->AddObject(std::string(kProgress), &progress_));
  for (const TensorView& tensor : progress_.trainer()->tensors()) {
    ckptdb::TensorState state;
    state.dtype = DTypeOf(tensor.type);
    state.shape = tensor.shape;
    state.data = tensor.values;
    CKPTDB_RETURN_IF_ERROR(model->AddTensor(tensor.name, std::move(state)));
  }
  const ckptdb::TableSharding sharding =
      DeclaredSharding(progress_.trainer()->sharding());
  for (const EmbeddingTable& table : progress_.trainer()->tables()) {
    CKPTDB_RETURN_IF_ERROR(
        model->AddTable(table.name(), table.state(), sharding));
  }
  return absl::OkStatus();
}

}  // namespace train_ctr
