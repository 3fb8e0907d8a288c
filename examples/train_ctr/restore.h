// Restores a step of a store into tables and tensors, for a trainer that
// resumes and a process that follows it.
//
// A step of train_ctr holds each embedding table as a table, each tensor of the
// perceptron as a tensor, and the progress as a blob of rank 0. With several
// ranks each has its part of the tables and some of the tensors.
#ifndef CKPTDB_EXAMPLES_TRAIN_CTR_RESTORE_H_
#define CKPTDB_EXAMPLES_TRAIN_CTR_RESTORE_H_

#include <ckptdb/db/reader.h>
#include <ckptdb/manager/model_state.h>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "train_ctr/embedding_table.h"
#include "train_ctr/tensor.h"

namespace train_ctr {

inline constexpr absl::string_view kProgress = "progress";
inline const std::string kProgressBlob = ckptdb::ExtraBlob(kProgress);

ckptdb::DType DTypeOf(ElementType type);

// Returns a tensor as a manager saves and restores it.
ckptdb::TensorState TensorOf(const TensorView& tensor);

// Returns DataLoss if the step's table does not have the columns of this one.
absl::Status CheckColumns(const ckptdb::StepReader& step,
                          const EmbeddingTable& table);

// The table is the step's then. `rows` puts all its slots into it. Returns
// DataLoss if the step's table does not have the columns of this one, or the
// rows that it says.
absl::Status RestoreTable(const ckptdb::StepReader& step,
                          const EmbeddingTable& table, ckptdb::LiveTable* rows);

// Returns DataLoss if the step's tensor does not have the type and shape of
// this one.
absl::Status RestoreTensor(const ckptdb::StepReader& step,
                           const TensorView& tensor);

}  // namespace train_ctr

#endif  // CKPTDB_EXAMPLES_TRAIN_CTR_RESTORE_H_
