// SPDX-License-Identifier: Apache-2.0
// A copy of a trainer's state in another process, such as a warm standby or a
// server of predictions. It is made of what the steps of a store hold, and so
// needs neither the trainer's options nor its log.
//
//   Replica replica;
//   CKPTDB_RETURN_IF_ERROR(replica.Restore(*step).status());
//   CKPTDB_RETURN_IF_ERROR(replica.Follow(*changes).status());
//   std::string digest = StateDigest(replica.state());
#ifndef CKPTDB_EXAMPLES_TRAIN_CTR_REPLICA_H_
#define CKPTDB_EXAMPLES_TRAIN_CTR_REPLICA_H_

#include <ckptdb/db/reader.h>

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "train_ctr/digest.h"
#include "train_ctr/embedding_table.h"
#include "train_ctr/state_view.h"

namespace train_ctr {

// The changes that a replica took to hold another step.
struct ReplicaChange {
  uint64_t rows_upserted = 0;
  uint64_t rows_erased = 0;
  // Tables that were cleared and read as a whole.
  std::vector<std::string> whole_tables;
  size_t tensors = 0;
};

// A replica of a trainer's state. After an error it must be restored. Not
// thread-safe.
class Replica {
 public:
  // Loads a step, whatever the replica holds. Returns DataLoss if the step is
  // not one that a trainer saves.
  absl::StatusOr<ReplicaChange> Restore(const ckptdb::StepReader& step);

  // Goes on from the step that `changes` begin at. A table that was saved whole
  // on the way is read as a whole.
  absl::StatusOr<ReplicaChange> Follow(const ckptdb::ChangeReader& changes);

  size_t rows() const;
  // Returns the state, which is valid until the next change.
  StateView state();

 private:
  struct Tensor {
    ElementType type = ElementType::kFloat32;
    std::vector<int64_t> shape;
    std::vector<char> values;
  };

  absl::StatusOr<EmbeddingTable*> FindOrAddTable(const ckptdb::StepReader& step,
                                                 const std::string& name);
  absl::Status RestoreRows(const ckptdb::StepReader& step,
                           const std::string& name, ReplicaChange* done);
  absl::Status FollowRows(const ckptdb::ChangeReader& changes,
                          const std::string& name, ReplicaChange* done);
  absl::Status ReadItem(const ckptdb::StepReader& step, ckptdb::Item::Kind kind,
                        const std::string& name, ReplicaChange* done);
  absl::Status ReadTensor(const ckptdb::StepReader& step,
                          const std::string& name);

  std::map<std::string, EmbeddingTable> tables_;
  std::map<std::string, Tensor> tensors_;
  std::string progress_;
};

}  // namespace train_ctr

#endif  // CKPTDB_EXAMPLES_TRAIN_CTR_REPLICA_H_
