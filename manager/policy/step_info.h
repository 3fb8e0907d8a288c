// SPDX-License-Identifier: Apache-2.0
// Describes a stored step to policies; internal to manager/.
#ifndef CKPTDB_MANAGER_POLICY_STEP_INFO_H_
#define CKPTDB_MANAGER_POLICY_STEP_INFO_H_

#include <cstdint>

#include "manager/policies.h"
#include "schema/types.h"

namespace ckptdb::internal {

// The difference is unsigned, as a record may contain any numbers.
inline StepInfo StepInfoOf(const StepRecord& record) {
  const auto begun_at =
      static_cast<int64_t>(static_cast<uint64_t>(record.committed_at_micros) -
                           static_cast<uint64_t>(record.save_micros));
  return {record.version.step, begun_at, record.ephemeral, record.metrics};
}

}  // namespace ckptdb::internal

#endif  // CKPTDB_MANAGER_POLICY_STEP_INFO_H_
