// SPDX-License-Identifier: Apache-2.0
#include "train_ctr/model.h"

#include <ckptdb/schema/status.h>

#include <utility>

#include "absl/strings/str_cat.h"

namespace train_ctr {
namespace {

absl::StatusOr<ModelMemory> NewMemory(const ModelOptions& options,
                                      const FieldLayout* layout,
                                      examples::Ranks* own) {
  std::vector<EmbeddingTableOptions> tables;
  for (const std::string& name : layout->tables) {
    tables.push_back({name, options.dim, options.seed});
  }
  if (!options.cuda_device) {
    return ModelMemory{
        std::make_unique<HostMachine>(),
        std::make_unique<HostRows>(tables, layout, own, options.sharding)};
  }
  if (own->size() > 1) {
    return absl::InvalidArgumentError(absl::StrCat(
        "--device cuda:", *options.cuda_device, " with ", own->size(),
        " ranks: a model in GPU memory is not divided among ranks; train with "
        "one rank, or without --device"));
  }
  return NewDeviceMemory(options, tables, layout);
}

}  // namespace

absl::StatusOr<std::unique_ptr<Model>> Model::Make(const ModelOptions& options,
                                                   const FieldLayout* layout,
                                                   examples::Ranks* own) {
  CKPTDB_ASSIGN_OR_RETURN(ModelMemory memory, NewMemory(options, layout, own));
  Machine* const machine = memory.machine.get();
  std::unique_ptr<Model> model(new Model(options, std::move(memory)));
  const size_t width = layout->fields() * options.dim;
  CKPTDB_ASSIGN_OR_RETURN(model->mlp_, Mlp::Make(machine, width, options.hidden,
                                                 options.batch, options.seed));
  CKPTDB_ASSIGN_OR_RETURN(model->inputs_,
                          machine->Allocate(options.batch * width));
  CKPTDB_ASSIGN_OR_RETURN(model->input_gradient_,
                          machine->Allocate(options.batch * width));
  return model;
}

absl::StatusOr<std::vector<float>> Model::Forward(const Batch& batch,
                                                  int64_t step) {
  CKPTDB_RETURN_IF_ERROR(rows()->Touch(batch.ids, step, inputs_));
  return mlp_->Forward(inputs_, batch.size());
}

absl::StatusOr<std::vector<float>> Model::Predict(const Batch& batch) {
  CKPTDB_RETURN_IF_ERROR(rows()->LookUp(batch.ids, inputs_));
  return mlp_->Forward(inputs_, batch.size());
}

absl::Status Model::Backward(const std::vector<float>& logit_gradient) {
  CKPTDB_RETURN_IF_ERROR(
      mlp_->Backward(inputs_, logit_gradient, input_gradient_));
  CKPTDB_RETURN_IF_ERROR(
      rows()->ApplyGradients(input_gradient_, options_.sparse_learning_rate));
  return mlp_->ApplyAdam(options_.dense_learning_rate);
}

absl::StatusOr<StateView> Model::View() {
  StateView view;
  CKPTDB_ASSIGN_OR_RETURN(view.tables, rows()->View());
  CKPTDB_ASSIGN_OR_RETURN(view.tensors, mlp_->Read());
  return view;
}

absl::Status Model::Register(ckptdb::ModelState* state) {
  CKPTDB_RETURN_IF_ERROR(mlp_->Register(state));
  return rows()->Register(state);
}

}  // namespace train_ctr
