// SPDX-License-Identifier: Apache-2.0
#include "schema/records/metrics.h"

#include <string>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "schema/records/checks.h"
#include "schema/status.h"
#include "schema/types.h"

namespace ckptdb::internal {
namespace {

using flatbuffers::FlatBufferBuilder;
using flatbuffers::Offset;

absl::Status CheckCount(RecordKind kind, size_t count) {
  if (count <= kMaxMetrics) return absl::OkStatus();
  return BadField(
      kind, "metrics",
      absl::StrCat("have ", count, " entries; the limit is ", kMaxMetrics));
}

}  // namespace

Offset<FlatMetrics> AddMetrics(const Metrics& metrics,
                               FlatBufferBuilder* builder) {
  std::vector<Offset<fbs::Metric>> entries;
  for (const auto& [name, value] : metrics) {
    const auto added = AddString(name, builder);
    entries.push_back(fbs::CreateMetric(*builder, added, value));
  }
  return builder->CreateVector(entries);
}

absl::Status CheckMetrics(RecordKind kind, const Metrics& metrics) {
  CKPTDB_RETURN_IF_ERROR(CheckCount(kind, metrics.size()));
  for (const auto& [name, value] : metrics) {
    CKPTDB_RETURN_IF_ERROR(CheckNameField(kind, "name of a metric", name));
  }
  return absl::OkStatus();
}

absl::StatusOr<Metrics> ReadMetrics(RecordKind kind,
                                    const FlatMetrics* entries) {
  Metrics metrics;
  // The count is checked before any entry is copied.
  CKPTDB_RETURN_IF_ERROR(CheckCount(kind, SizeOf(entries)));
  if (entries == nullptr) return metrics;
  for (const fbs::Metric* entry : *entries) {
    const std::string name = ToStd(entry->name());
    // Duplicate names are rejected: readers could disagree on which one counts.
    if (!metrics.emplace(name, entry->value()).second) {
      return BadField(kind, "metrics", DuplicateName(name));
    }
  }
  return metrics;
}

}  // namespace ckptdb::internal
