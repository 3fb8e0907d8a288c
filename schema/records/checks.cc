// SPDX-License-Identifier: Apache-2.0
#include "schema/records/checks.h"

#include <algorithm>
#include <cstddef>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "schema/bytes/limits.h"
#include "schema/bytes/names.h"
#include "schema/types.h"

namespace ckptdb::internal {

// Attempts start at 1; 0 means "no version".
absl::Status CheckVersion(RecordKind kind, absl::string_view field,
                          const Version& version) {
  if (version.step < 0) {
    return BadField(kind, field,
                    absl::StrCat("has negative step ", version.step));
  }
  if (version.attempt == 0)
    return BadField(kind, field, "has attempt 0; attempts start at 1");
  return absl::OkStatus();
}

absl::Status CheckWorldSize(RecordKind kind, uint32_t world_size) {
  if (world_size > 0 && world_size <= kMaxWorldSize) return absl::OkStatus();
  return BadField(kind, "world size",
                  absl::StrCat(world_size, " is out of range; expected 1 to ",
                               kMaxWorldSize));
}

absl::Status CheckRank(RecordKind kind, uint32_t rank, uint32_t world_size) {
  if (rank < world_size) return absl::OkStatus();
  return BadField(
      kind, "rank",
      absl::StrCat(rank, " is out of range for world size ", world_size));
}

absl::Status CheckSliceBounds(RecordKind kind,
                              absl::Span<const uint32_t> bounds,
                              uint32_t world_size) {
  constexpr absl::string_view kField = "slice bounds";
  if (bounds.empty()) return absl::OkStatus();
  if (bounds.size() != world_size + size_t{1}) {
    return BadField(kind, kField,
                    absl::StrCat("have ", bounds.size(), " entries; expected ",
                                 world_size + size_t{1}));
  }
  if (bounds.front() != 0 || bounds.back() != kSlices) {
    return BadField(kind, kField,
                    absl::StrCat("span ", bounds.front(), " to ", bounds.back(),
                                 "; expected 0 to ", kSlices));
  }
  // Equal bounds mean a rank without slices.
  const auto* const fall = std::is_sorted_until(bounds.begin(), bounds.end());
  if (fall == bounds.end()) return absl::OkStatus();
  return BadField(kind, kField,
                  absl::StrCat("decrease from ", *(fall - 1), " to ", *fall,
                               " at rank ", fall - bounds.begin()));
}

// The uuid of a lease or a post is the name of a file, so no other characters
// are permitted.
absl::Status CheckUuid(RecordKind kind, absl::string_view uuid) {
  const bool good =
      !uuid.empty() && uuid.size() <= kMaxUuidBytes &&
      std::all_of(uuid.begin(), uuid.end(), [](char c) {
        return c == '-' || absl::ascii_isalnum(static_cast<unsigned char>(c));
      });
  if (good) return absl::OkStatus();
  return BadField(
      kind, "uuid",
      absl::StrCat("\"", absl::CHexEscape(uuid.substr(0, kMaxUuidBytes)),
                   "\" of ", uuid.size(), " bytes is invalid; expected 1 to ",
                   kMaxUuidBytes, " letters, digits and hyphens"));
}

// The same checks serve both directions: an error is damage in a record that
// was read, and a mistake in one that is to be written.
absl::Status AsInvalid(const absl::Status& checked) {
  if (checked.ok()) return checked;
  return absl::InvalidArgumentError(checked.message());
}

absl::Status CheckNameField(RecordKind kind, absl::string_view field,
                            absl::string_view name) {
  absl::Status status = CheckName(field, name);
  if (status.ok()) return status;
  return absl::DataLossError(
      absl::StrCat(RecordName(kind), ": ", status.message()));
}

// The path comes from another process and is joined to a store's folder, which
// it must not leave.
absl::Status CheckPath(RecordKind kind, absl::string_view field,
                       absl::string_view path) {
  const std::vector<absl::string_view> parts = absl::StrSplit(path, '/');
  absl::string_view why;
  if (path.empty()) {
    why = "is empty";
  } else if (path.front() == '/') {
    why = "is absolute; expected a relative path";
  } else if (path.find('\0') != absl::string_view::npos) {
    why = "contains a NUL byte";
  } else if (std::find(parts.begin(), parts.end(), "..") != parts.end()) {
    why = "contains \"..\"";
  } else {
    return absl::OkStatus();
  }
  constexpr size_t kShown = 256;
  return BadField(
      kind, field,
      absl::StrCat("\"", absl::CHexEscape(path.substr(0, kShown)), "\" ", why));
}

std::string DuplicateName(absl::string_view name) {
  return absl::StrCat("have duplicate name \"", absl::Utf8SafeCHexEscape(name),
                      "\"");
}

}  // namespace ckptdb::internal
