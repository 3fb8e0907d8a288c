// SPDX-License-Identifier: Apache-2.0
#include "tools/chain_length.h"

#include <limits>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "tools/format.h"

namespace ckptdb::tool {

uint64_t DeltasOf(const StepRecord& record) {
  return record.chain.empty() ? 0 : record.chain.size() - 1;
}

double DeltaRatio(const StepRecord& record) {
  if (record.delta_bytes == 0) return 0;
  if (record.base_bytes == 0) return std::numeric_limits<double>::infinity();
  return static_cast<double>(record.delta_bytes) /
         static_cast<double>(record.base_bytes);
}

std::string BaseDue(const StepRecord& record,
                    const StoreOptions::ChainBounds& bounds) {
  const uint64_t deltas = DeltasOf(record);
  if (deltas >= bounds.max_deltas) {
    return absl::StrFormat("the chain has %d deltas; the limit is %d", deltas,
                           bounds.max_deltas);
  }
  const double ratio = DeltaRatio(record);
  if (deltas == 0 || ratio <= bounds.max_delta_ratio) return "";
  return absl::StrFormat(
      "deltas are %.2f times the base (%s over %s); the limit is %.2f", ratio,
      FormatBytes(record.delta_bytes), FormatBytes(record.base_bytes),
      bounds.max_delta_ratio);
}

std::string ChainText(const StepRecord& record) {
  const uint64_t deltas = DeltasOf(record);
  if (deltas == 0) return "no deltas";
  return absl::StrCat(deltas, deltas == 1 ? " delta of " : " deltas of ",
                      FormatBytes(record.delta_bytes), " over a base of ",
                      FormatBytes(record.base_bytes));
}

void SetChainLength(const StepRecord& record, Json* json) {
  (*json)["deltas"] = DeltasOf(record);
  (*json)["base_bytes"] = record.base_bytes;
  (*json)["delta_bytes"] = record.delta_bytes;
  (*json)["delta_ratio"] = NumberJson(DeltaRatio(record));
}

}  // namespace ckptdb::tool
