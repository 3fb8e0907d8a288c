#include "train_ctr/trainer_state.h"

#include <ckptdb/schema/status.h>

#include <string>

#include "train_ctr/restore.h"

namespace train_ctr {

absl::Status TrainerState::Register(ckptdb::ModelState* model) {
  CKPTDB_RETURN_IF_ERROR(model->AddObject(std::string(kProgress), &progress_));
  return progress_.trainer()->model()->Register(model);
}

}  // namespace train_ctr
