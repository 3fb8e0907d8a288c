// SPDX-License-Identifier: Apache-2.0
#include "train_ctr/host_model.h"

#include <ckptdb/schema/status.h>

#include <string>

namespace train_ctr {
namespace {

std::vector<EmbeddingTable> NewTables(const TrainerOptions& options,
                                      const FieldLayout& layout) {
  const std::vector<EmbeddingTableOptions> tables = TablesOf(options, layout);
  return {tables.begin(), tables.end()};
}

}  // namespace

HostModel::HostModel(const TrainerOptions& options, const FieldLayout& layout,
                     examples::Ranks* own)
    : options_(options),
      own_(own),
      tables_(NewTables(options, layout)),
      row_exchange_(own_, options.sharding, &layout, &tables_),
      mlp_(layout.fields() * options.dim, options.hidden, options.seed) {}

absl::StatusOr<std::vector<float>> HostModel::Forward(const Batch& share,
                                                      int64_t step) {
  CKPTDB_RETURN_IF_ERROR(row_exchange_.Touch(share.ids, step, &inputs_));
  return GatherLogits(share.size());
}

absl::StatusOr<std::vector<float>> HostModel::Predict(const Batch& share) {
  CKPTDB_RETURN_IF_ERROR(row_exchange_.LookUp(share.ids, &inputs_));
  return GatherLogits(share.size());
}

absl::StatusOr<std::vector<float>> HostModel::GatherLogits(size_t examples) {
  CKPTDB_ASSIGN_OR_RETURN(
      const examples::PerRank<float> shares,
      examples::AllGather(own_, "logits",
                          mlp_.Forward(inputs_.data(), examples)));
  std::vector<float> logits;
  for (const std::vector<float>& share : shares) {
    logits.insert(logits.end(), share.begin(), share.end());
  }
  return logits;
}

absl::Status HostModel::Backward(const std::vector<float>& logit_gradient) {
  mlp_.BackwardExamples(logit_gradient, &input_gradient_);
  CKPTDB_RETURN_IF_ERROR(row_exchange_.ApplyGradients(
      input_gradient_, options_.sparse_learning_rate));
  CKPTDB_RETURN_IF_ERROR(SumGradients());
  mlp_.ApplyAdam({.learning_rate = options_.dense_learning_rate});
  return absl::OkStatus();
}

absl::Status HostModel::SumGradients() {
  const size_t size = own_->size();
  examples::PerRank<float> factors(size);
  for (size_t r = 0; r < size; ++r) {
    factors[r] = mlp_.Factors(inputs_.data(), {r, size});
  }
  CKPTDB_ASSIGN_OR_RETURN(factors,
                          examples::Exchange(own_, "factors", factors));
  CKPTDB_ASSIGN_OR_RETURN(
      const examples::PerRank<float> parts,
      examples::AllGather(own_, "gradients",
                          mlp_.SumPart({own_->rank(), size}, factors)));
  mlp_.SetGradients(parts);
  return absl::OkStatus();
}

absl::Status HostModel::EraseUnseenSince(int64_t step) {
  for (EmbeddingTable& table : tables_) table.EraseUnseenSince(step);
  return absl::OkStatus();
}

size_t HostModel::rows() const {
  size_t rows = 0;
  for (const EmbeddingTable& table : tables_) rows += table.rows();
  return rows;
}

absl::StatusOr<StateView> HostModel::View() {
  StateView view;
  for (const EmbeddingTable& table : tables_) view.tables.push_back(&table);
  view.tensors = tensors();
  return view;
}

absl::Status HostModel::Register(ckptdb::ModelState* state) {
  for (const TensorView& tensor : tensors()) {
    CKPTDB_RETURN_IF_ERROR(state->AddTensor(tensor.name, tensor.state()));
  }
  const ckptdb::TableSharding sharding = DeclaredSharding(options_.sharding);
  for (const EmbeddingTable& table : tables_) {
    CKPTDB_RETURN_IF_ERROR(
        state->AddTable(table.name(), table.state(), sharding));
  }
  return absl::OkStatus();
}

}  // namespace train_ctr
