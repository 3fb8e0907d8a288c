#include "train_ctr/restore.h"

#include <ckptdb/schema/status.h>

#include <vector>

#include "absl/strings/str_cat.h"

namespace train_ctr {
namespace {

absl::Status UnlikeTrainer(absl::string_view kind, absl::string_view name) {
  return absl::DataLossError(
      absl::StrCat("the step's ", kind, " \"", name,
                   "\" has not the type and shape of the trainer's"));
}

}  // namespace

ckptdb::DType DTypeOf(ElementType type) {
  return type == ElementType::kFloat32 ? ckptdb::DType::kF32
                                       : ckptdb::DType::kI64;
}

ckptdb::TensorState TensorOf(const TensorView& tensor) {
  ckptdb::TensorState state;
  state.dtype = DTypeOf(tensor.type);
  state.shape = tensor.shape;
  state.data = tensor.values;
  return state;
}

absl::Status CheckColumns(const ckptdb::StepReader& step,
                          const EmbeddingTable& table) {
  CKPTDB_ASSIGN_OR_RETURN(const ckptdb::StepReader::TableSpec spec,
                          step.FindTable(table.name()));
  if (SameColumns(spec.slots, table.state()->slots())) return absl::OkStatus();
  return UnlikeTrainer("table", table.name());
}

absl::Status RestoreTable(const ckptdb::StepReader& step,
                          const EmbeddingTable& table,
                          ckptdb::LiveTable* rows) {
  CKPTDB_RETURN_IF_ERROR(CheckColumns(step, table));
  CKPTDB_RETURN_IF_ERROR(step.RestoreTable(
      table.name(), ckptdb::LiveTable::RestoreMode::kClear, {}, rows));
  CKPTDB_ASSIGN_OR_RETURN(const ckptdb::StepReader::TableSpec spec,
                          step.FindTable(table.name()));
  // For a delta step only the maximum number of rows is known.
  if (spec.exact ? table.rows() == spec.rows : table.rows() <= spec.rows) {
    return absl::OkStatus();
  }
  return absl::DataLossError(absl::StrCat("table \"", table.name(), "\" has ",
                                          table.rows(), " rows, not ",
                                          spec.rows));
}

absl::Status RestoreTensor(const ckptdb::StepReader& step,
                           const TensorView& tensor) {
  CKPTDB_ASSIGN_OR_RETURN(const ckptdb::StepReader::TensorSpec spec,
                          step.FindTensor(tensor.name));
  if (spec.dtype != DTypeOf(tensor.type) || spec.shape != tensor.shape) {
    return UnlikeTrainer("tensor", tensor.name);
  }
  return step.ReadTensor(tensor.name, tensor.values, tensor.bytes());
}

}  // namespace train_ctr
