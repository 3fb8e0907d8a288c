// What policies know of a step.
#ifndef CKPTDB_MANAGER_STEP_INFO_H_
#define CKPTDB_MANAGER_STEP_INFO_H_

#include <cstdint>

#include "ckptdb/schema/records.h"

namespace ckptdb {

struct StepInfo {
  int64_t step = 0;
  int64_t time_micros = 0;  // when it was committed, since 1970, UTC
  bool ephemeral = false;
  Metrics metrics;
};

inline StepInfo StepInfoOf(const StepRecord& record) {
  return {record.version.step, record.committed_at_micros, record.ephemeral,
          record.metrics};
}

}  // namespace ckptdb

#endif  // CKPTDB_MANAGER_STEP_INFO_H_
