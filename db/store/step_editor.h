// Changes existing steps and the store's metadata; internal to db/.
#ifndef CKPTDB_DB_STORE_STEP_EDITOR_H_
#define CKPTDB_DB_STORE_STEP_EDITOR_H_

#include <cstdint>
#include <string>
#include <utility>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "ckptdb/db/store/committer.h"
#include "ckptdb/db/store/step_catalog.h"
#include "ckptdb/schema/types.h"

namespace ckptdb::internal {

// Implements the calls of Store that change a record; each holds
// Committer::changes(). Stateless; any thread may call it.
class StepEditor {
 public:
  // `store` is the path of the store, for errors.
  StepEditor(std::string store, StepCatalog* catalog, Committer* committer)
      : store_(std::move(store)), catalog_(catalog), committer_(committer) {}

  absl::Status Delete(int64_t step);

  // Writes the step's record as `change` leaves it, durably. No other change
  // can alter the record while `change` runs. `change` may return an error; it
  // must not change the fields that LineageDigest covers.
  using Change = absl::FunctionRef<absl::Status(StepRecord*)>;
  absl::Status ChangeRecord(int64_t step, Change change,
                            Spare spare = Spare::kKeep);
  absl::Status SetFlag(int64_t step, bool StepRecord::*flag, bool value,
                       Spare spare = Spare::kKeep);
  absl::Status AddMetrics(int64_t step, const Metrics& metrics);
  absl::Status SetUserMetadata(const UserMetadata& metadata);

 private:
  const std::string store_;
  StepCatalog* const catalog_;
  Committer* const committer_;
};

}  // namespace ckptdb::internal

#endif  // CKPTDB_DB_STORE_STEP_EDITOR_H_
