// What policies know of a step.
#ifndef CKPTDB_MANAGER_STEP_INFO_H_
#define CKPTDB_MANAGER_STEP_INFO_H_

#include <cstdint>

#include "ckptdb/schema/records.h"

namespace ckptdb {

struct StepInfo {
  int64_t step = 0;
  int64_t time_micros = 0;  // when its save began, since 1970, UTC
  bool ephemeral = false;
  Metrics metrics;
};

// Unsigned, as a record may have any numbers.
inline StepInfo StepInfoOf(const StepRecord& record) {
  const auto begun_at =
      static_cast<int64_t>(static_cast<uint64_t>(record.committed_at_micros) -
                           static_cast<uint64_t>(record.save_micros));
  return {record.version.step, begun_at, record.ephemeral, record.metrics};
}

}  // namespace ckptdb

#endif  // CKPTDB_MANAGER_STEP_INFO_H_
