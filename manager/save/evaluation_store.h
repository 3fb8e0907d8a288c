// SPDX-License-Identifier: Apache-2.0
// The EvaluationState of a manager; internal to manager/.
#ifndef CKPTDB_MANAGER_SAVE_EVALUATION_STORE_H_
#define CKPTDB_MANAGER_SAVE_EVALUATION_STORE_H_

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "db/reader.h"
#include "db/store.h"
#include "manager/coordinator.h"
#include "manager/evaluation_state.h"
#include "schema/types.h"

namespace ckptdb::internal {

class EvaluationStore : public EvaluationState {
 public:
  // `store` is set on the owner, `reader` on all ranks of a read-only manager.
  // All arguments outlive it.
  EvaluationStore(std::string path, Store* store, Reader* reader,
                  Coordinator* ranks, absl::Duration deadline);

  absl::Status AddGroup(const std::string& group, BlobState* meters) override;
  absl::Status Save(const Name& name, BlobState* loader,
                    uint64_t processed) override;
  absl::StatusOr<uint64_t> Load(const Name& name, BlobState* loader) override;
  absl::Status Cleanup(int64_t step) override;
  absl::Status CleanupAll(std::optional<int64_t> except) override;

  // Releases the store; calls that need it then return FailedPrecondition.
  void Close();

 private:
  absl::StatusOr<BlobState*> FindGroup(const std::string& group) const;
  absl::StatusOr<StepRecord::Evaluation> DumpPart(const Name& name,
                                                  BlobState* loader,
                                                  uint64_t processed);
  absl::Status SaveParts(const Name& name,
                         const absl::StatusOr<std::vector<std::string>>& parts);
  absl::StatusOr<std::optional<StepRecord::Evaluation>> Find(
      const Name& name, uint32_t rank) const;
  absl::StatusOr<std::vector<StepRecord::Evaluation>> FindParts(
      const Name& name) const;
  absl::Status CheckFound(const Name& name,
                          const StepRecord::Evaluation& found) const;
  absl::Status Remove(absl::string_view tag, const std::vector<int64_t>& steps);
  absl::Status CheckOpen() const;
  absl::Status CheckWritable() const;

  const std::string path_;
  Store* store_;
  Reader* reader_;
  bool closed_ = false;
  Coordinator* const ranks_;
  const absl::Duration deadline_;
  std::map<std::string, BlobState*> groups_;
};

}  // namespace ckptdb::internal

#endif  // CKPTDB_MANAGER_SAVE_EVALUATION_STORE_H_
