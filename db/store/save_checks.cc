// SPDX-License-Identifier: Apache-2.0
#include "db/store/save_checks.h"

#include <algorithm>
#include <cstdint>
#include <optional>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "db/base/option_checks.h"
#include "db/base/staging.h"
#include "db/stage/published_blobs.h"
#include "schema/bytes/names.h"
#include "schema/bytes/user_metadata.h"
#include "schema/status.h"
#include "schema/types.h"

namespace ckptdb::internal {
namespace {

absl::Status CheckBounds(const SaveSpec& spec) {
  const std::vector<uint32_t>& bounds = spec.slice_bounds;
  if (bounds.empty()) return absl::OkStatus();
  // Each rank has one range, which may be empty; together they cover all
  // slices.
  const bool right = bounds.size() == spec.world_size + size_t{1} &&
                     bounds.front() == 0 && bounds.back() == kSlices &&
                     std::is_sorted(bounds.begin(), bounds.end());
  if (right) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("slice bounds [", absl::StrJoin(bounds, ", "),
                   "] do not ascend from 0 to ", kSlices, " in ",
                   spec.world_size, " ranges; see EvenSliceBounds"));
}

// Rejects a time before 1970.
absl::Status CheckTime(absl::string_view what, std::optional<int64_t> micros) {
  if (micros.value_or(0) >= 0) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(what, " ", *micros, " is below 0"));
}

}  // namespace

absl::Status PinnedError(const StepRecord& record) {
  return absl::FailedPreconditionError(
      absl::StrCat("step ", record.version.step, " is pinned; unpin it first"));
}

absl::Status CheckMetrics(const Metrics& metrics) {
  if (metrics.size() > kMaxMetrics) {
    return absl::InvalidArgumentError(
        absl::StrCat(metrics.size(), " metrics; the limit is ", kMaxMetrics));
  }
  for (const auto& [name, value] : metrics) {
    CKPTDB_RETURN_IF_ERROR(CheckName("metric name", name));
  }
  return absl::OkStatus();
}

// The comparison is false for a NaN, so a NaN is rejected, too.
absl::Status CheckChainBounds(const StoreOptions::ChainBounds& bounds) {
  if (bounds.max_delta_ratio >= 0) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("StoreOptions::ChainBounds::max_delta_ratio is ",
                   bounds.max_delta_ratio, "; it must be at least 0"));
}

absl::Status CheckSaveSpec(const SaveSpec& spec) {
  if (spec.step < 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("step ", spec.step, " is below 0"));
  }
  CKPTDB_RETURN_IF_ERROR(CheckTime("begun_at_micros", spec.begun_at_micros));
  if (spec.world_size == 0 || spec.world_size > kMaxWorldSize) {
    return absl::InvalidArgumentError(absl::StrCat(
        "world size ", spec.world_size, " is not in 1 to ", kMaxWorldSize));
  }
  CKPTDB_RETURN_IF_ERROR(CheckEnumerator("SaveSpec::abandoned", spec.abandoned,
                                         SaveSpec::Abandoned::kRemove));
  return CheckBounds(spec);
}

absl::Status CheckPublication(const SaveSpec& spec) {
  CKPTDB_RETURN_IF_ERROR(CheckMetrics(spec.metrics));
  CKPTDB_RETURN_IF_ERROR(
      CheckTime("committed_at_micros", spec.committed_at_micros));
  CKPTDB_RETURN_IF_ERROR(CheckChainBounds(spec.bounds));
  CKPTDB_RETURN_IF_ERROR(CheckBlobs(spec.blobs));
  return CheckUserMetadata(spec.user_metadata);
}

}  // namespace ckptdb::internal
