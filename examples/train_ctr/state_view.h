// A view of all state of a trainer, wherever it is.
#ifndef CKPTDB_EXAMPLES_TRAIN_CTR_STATE_VIEW_H_
#define CKPTDB_EXAMPLES_TRAIN_CTR_STATE_VIEW_H_

#include <string>
#include <vector>

#include "train_ctr/embedding_table.h"
#include "train_ctr/tensor.h"

namespace train_ctr {

// Points to what has the state.
struct StateView {
  std::vector<const EmbeddingTable*> tables;
  std::vector<TensorView> tensors;
  std::string progress;
};

}  // namespace train_ctr

#endif  // CKPTDB_EXAMPLES_TRAIN_CTR_STATE_VIEW_H_
