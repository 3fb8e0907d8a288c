// SPDX-License-Identifier: Apache-2.0
#include "schema/records/metadata.h"

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "schema/records/checks.h"
#include "schema/status.h"

namespace ckptdb::internal {
namespace {

// Does not report the size, which is only known up to where it exceeded the
// limit.
absl::Status CheckMetadataBytes(RecordKind kind, uint64_t bytes) {
  if (bytes <= kMaxMetadataBytes) return absl::OkStatus();
  return BadField(
      kind, "user metadata",
      absl::StrCat("exceeds the limit of ", kMaxMetadataBytes, " bytes"));
}

}  // namespace

flatbuffers::Offset<FlatMetadata> AddMetadata(
    const UserMetadata& metadata, flatbuffers::FlatBufferBuilder* builder) {
  std::vector<flatbuffers::Offset<fbs::Metadata>> entries;
  for (const auto& [name, value] : metadata) {
    const auto added = AddString(name, builder);
    entries.push_back(
        fbs::CreateMetadata(*builder, added, AddBytes(value, builder)));
  }
  return builder->CreateVector(entries);
}

absl::Status CheckMetadata(RecordKind kind, const UserMetadata& metadata) {
  uint64_t bytes = 0;
  for (const auto& [name, value] : metadata) {
    bytes += name.size() + value.size();
    CKPTDB_RETURN_IF_ERROR(CheckMetadataBytes(kind, bytes));
    CKPTDB_RETURN_IF_ERROR(CheckNameField(kind, "name of user metadata", name));
  }
  return absl::OkStatus();
}

absl::StatusOr<UserMetadata> ReadMetadata(RecordKind kind,
                                          const FlatMetadata* entries) {
  UserMetadata metadata;
  if (entries == nullptr) return metadata;
  uint64_t bytes = 0;
  for (const fbs::Metadata* entry : *entries) {
    // Checks the size before each copy.
    bytes += ViewOf(entry->name()).size() + SizeOf(entry->value());
    CKPTDB_RETURN_IF_ERROR(CheckMetadataBytes(kind, bytes));
    const std::string name = ToStd(entry->name());
    if (!metadata.emplace(name, BytesOf(entry->value())).second) {
      return BadField(kind, "user metadata", DuplicateName(name));
    }
  }
  return metadata;
}

}  // namespace ckptdb::internal
