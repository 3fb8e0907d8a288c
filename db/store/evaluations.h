// Saves, reads and deletes evaluations of steps for the owner; internal to db/.
#ifndef CKPTDB_DB_STORE_EVALUATIONS_H_
#define CKPTDB_DB_STORE_EVALUATIONS_H_

#include <cstdint>
#include <optional>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "ckptdb/db/store/committer.h"
#include "ckptdb/db/store/step_catalog.h"
#include "ckptdb/db/store/store_folder.h"
#include "ckptdb/schema/types.h"

namespace ckptdb::internal {

// Implements the Store calls of the same names; see their contracts there.
// Calls that change records take Committer::changes(), so that their step
// stays; the others hold the step. Stateless; any thread may call it.
class Evaluations {
 public:
  Evaluations(StoreFolder* folder, StepCatalog* catalog, Committer* committer)
      : folder_(folder), catalog_(catalog), committer_(committer) {}

  absl::Status Save(int64_t step, absl::string_view evaluation,
                    absl::string_view group,
                    absl::Span<const StepRecord::Evaluation::Part> ranks);
  absl::StatusOr<std::optional<StepRecord::Evaluation>> Find(
      int64_t step, absl::string_view evaluation, uint32_t rank);
  absl::StatusOr<std::vector<StepRecord::Evaluation::Key>> List(int64_t step);
  absl::Status Delete(absl::Span<const int64_t> steps);

 private:
  StoreFolder* const folder_;
  StepCatalog* const catalog_;
  Committer* const committer_;
};

}  // namespace ckptdb::internal

#endif  // CKPTDB_DB_STORE_EVALUATIONS_H_
