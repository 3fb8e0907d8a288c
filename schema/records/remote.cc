// SPDX-License-Identifier: Apache-2.0
#include "schema/records/remote.h"

#include <tuple>

#include "absl/strings/str_cat.h"
#include "schema/records/checks.h"
#include "schema/records/flat.h"
#include "schema/status.h"

namespace ckptdb::internal {
namespace {

using flatbuffers::FlatBufferBuilder;
using flatbuffers::Offset;
using flatbuffers::Vector;

constexpr RecordKind kFormatKind = RecordKind::kRemoteFormat;
constexpr RecordKind kVersionKind = RecordKind::kRemoteVersion;
constexpr RecordKind kCatalogKind = RecordKind::kRemoteCatalog;

enum EntryFlags : uint32_t { kIsEphemeral = 1, kIsPinned = 2, kIsBad = 4 };

absl::Status CheckFormat(const RemoteFormat& format) {
  return CheckUuid(kFormatKind, format.uuid);
}

// The records are checked when they are decoded.
absl::Status CheckRemoteVersion(const RemoteVersion& version) {
  if (version.step_record.empty()) {
    return BadField(kVersionKind, "step record", "is empty");
  }
  CKPTDB_RETURN_IF_ERROR(CheckWorldSize(
      kVersionKind, static_cast<uint32_t>(version.rank_records.size())));
  for (size_t i = 0; i < version.files.size(); ++i) {
    const RemoteFile& file = version.files[i];
    if (i > 0 && file.number <= version.files[i - 1].number) {
      return BadField(kVersionKind, "files",
                      absl::StrCat("have number ", file.number, " after ",
                                   version.files[i - 1].number));
    }
    if (file.first_key.empty() || file.last_key < file.first_key) {
      return BadField(kVersionKind, "files",
                      absl::StrCat("have wrong bounds of the keys of number ",
                                   file.number));
    }
  }
  return absl::OkStatus();
}

absl::Status CheckEntry(const RemoteEntry& entry) {
  CKPTDB_RETURN_IF_ERROR(CheckVersion(kCatalogKind, "version", entry.version));
  CKPTDB_RETURN_IF_ERROR(CheckVersion(kCatalogKind, "state", entry.state));
  for (const Version& version : entry.needs) {
    CKPTDB_RETURN_IF_ERROR(CheckVersion(kCatalogKind, "needs", version));
  }
  if (entry.epoch == 0) return BadField(kCatalogKind, "epoch", "is 0");
  if (entry.use > RemoteEntry::Use::kDropped) {
    return BadField(kCatalogKind, "use",
                    absl::StrCat(static_cast<int>(entry.use), " is unknown"));
  }
  if (entry.kind > StepRecord::Kind::kDelta) {
    return BadField(kCatalogKind, "kind",
                    absl::StrCat(static_cast<int>(entry.kind), " is unknown"));
  }
  return absl::OkStatus();
}

absl::Status CheckCatalog(const RemoteCatalog& catalog) {
  if (catalog.number == 0) return BadField(kCatalogKind, "number", "is 0");
  if (catalog.epoch == 0) return BadField(kCatalogKind, "epoch", "is 0");
  CKPTDB_RETURN_IF_ERROR(CheckUuid(kCatalogKind, catalog.owner));
  CKPTDB_RETURN_IF_ERROR(CheckUuid(kCatalogKind, catalog.token));
  const RemoteEntry* before = nullptr;
  for (const RemoteEntry& entry : catalog.entries) {
    CKPTDB_RETURN_IF_ERROR(CheckEntry(entry));
    if (before != nullptr && std::tie(entry.version, entry.epoch) <=
                                 std::tie(before->version, before->epoch)) {
      return BadField(kCatalogKind, "entries",
                      absl::StrCat("have ", ToString(entry.version), " after ",
                                   ToString(before->version)));
    }
    before = &entry;
  }
  for (const Version& version : catalog.forgotten) {
    CKPTDB_RETURN_IF_ERROR(CheckVersion(kCatalogKind, "forgotten", version));
  }
  return absl::OkStatus();
}

Offset<Vector<Offset<fbs::InlineEntry>>> AddKeysAndValues(
    const KeysAndValues& entries, FlatBufferBuilder* builder) {
  std::vector<Offset<fbs::InlineEntry>> added;
  added.reserve(entries.size());
  for (const auto& [key, value] : entries) {
    const auto key_bytes = AddBytes(key, builder);
    added.push_back(
        fbs::CreateInlineEntry(*builder, key_bytes, AddBytes(value, builder)));
  }
  return builder->CreateVector(added);
}

KeysAndValues ReadKeysAndValues(
    const Vector<Offset<fbs::InlineEntry>>* entries) {
  KeysAndValues read;
  read.reserve(SizeOf(entries));
  if (entries == nullptr) return read;
  for (const fbs::InlineEntry* entry : *entries) {
    read.emplace_back(BytesOf(entry->key()), BytesOf(entry->value()));
  }
  return read;
}

Offset<Vector<const fbs::Version*>> AddVersions(
    const std::vector<Version>& versions, FlatBufferBuilder* builder) {
  std::vector<fbs::Version> structs;
  structs.reserve(versions.size());
  for (const Version& version : versions) structs.push_back(ToFbs(version));
  return builder->CreateVectorOfStructs(structs);
}

// Copies bytes, because the verifier does not check the alignment of elements.
std::vector<Version> ReadVersions(const Vector<const fbs::Version*>* versions) {
  std::vector<Version> read;
  for (size_t i = 0; i < SizeOf(versions); ++i) {
    fbs::Version version;
    std::memcpy(static_cast<void*>(&version),
                versions->Data() + i * sizeof(version), sizeof(version));
    read.push_back(FromFbs(version));
  }
  return read;
}

// A builder ends the process at 2 GiB, so the size is checked before.
uint64_t LeastBytesOf(const RemoteVersion& version) {
  uint64_t bytes = version.step_record.size();
  for (const std::string& record : version.rank_records) bytes += record.size();
  for (const KeysAndValues* entries :
       {&version.evaluations, &version.inline_entries}) {
    for (const auto& [key, value] : *entries)
      bytes += key.size() + value.size();
  }
  for (const RemoteFile& file : version.files) {
    bytes += file.first_key.size() + file.last_key.size();
  }
  return bytes;
}

uint64_t LeastBytesOf(const RemoteCatalog& catalog) {
  uint64_t bytes = catalog.forgotten.size() * sizeof(fbs::Version);
  for (const RemoteEntry& entry : catalog.entries) {
    bytes += entry.needs.size() * sizeof(fbs::Version);
  }
  return bytes;
}

// Seals a built object that is not too large.
absl::StatusOr<std::string> SealChecked(RecordKind kind,
                                        const FlatBufferBuilder& builder) {
  CKPTDB_RETURN_IF_ERROR(AsInvalid(CheckBodyBytes(kind, builder.GetSize())));
  return Seal(kind, builder);
}

Offset<fbs::RemoteEntry> AddRemoteEntry(const RemoteEntry& entry,
                                        FlatBufferBuilder* builder) {
  const auto needs = AddVersions(entry.needs, builder);
  const fbs::Version version = ToFbs(entry.version);
  const fbs::Version state = ToFbs(entry.state);
  const uint32_t flags = (entry.ephemeral ? kIsEphemeral : 0u) |
                         (entry.pinned ? kIsPinned : 0u) |
                         (entry.quarantined ? kIsBad : 0u);
  return fbs::CreateRemoteEntry(
      *builder, &version, &state, entry.epoch, entry.revision,
      static_cast<uint8_t>(entry.use), entry.object_bytes, entry.object_hash,
      entry.lineage, entry.record_hash, entry.data_bytes, entry.data_files,
      entry.dropped_at_micros, entry.committed_at_micros,
      static_cast<uint8_t>(entry.kind), flags, needs, entry.owner);
}

RemoteEntry ReadRemoteEntry(const fbs::RemoteEntry& from) {
  RemoteEntry entry;
  if (from.version() != nullptr) entry.version = FromFbs(*from.version());
  if (from.state() != nullptr) entry.state = FromFbs(*from.state());
  entry.epoch = from.epoch();
  entry.revision = from.revision();
  entry.use = static_cast<RemoteEntry::Use>(from.use());
  entry.object_bytes = from.object_bytes();
  entry.object_hash = from.object_hash();
  entry.lineage = from.lineage();
  entry.record_hash = from.record_hash();
  entry.data_bytes = from.data_bytes();
  entry.data_files = from.data_files();
  entry.dropped_at_micros = from.dropped_at_micros();
  entry.committed_at_micros = from.committed_at_micros();
  entry.kind = static_cast<StepRecord::Kind>(from.kind());
  entry.ephemeral = (from.flags() & kIsEphemeral) != 0;
  entry.pinned = (from.flags() & kIsPinned) != 0;
  entry.quarantined = (from.flags() & kIsBad) != 0;
  entry.needs = ReadVersions(from.needs());
  entry.owner = from.owner();
  return entry;
}

}  // namespace

absl::StatusOr<std::string> EncodeRemoteFormat(const RemoteFormat& format) {
  CKPTDB_RETURN_IF_ERROR(AsInvalid(CheckFormat(format)));
  FlatBufferBuilder builder;
  const auto uuid = AddString(format.uuid, &builder);
  builder.Finish(
      fbs::CreateRemoteFormat(builder, uuid, format.created_at_micros));
  return SealChecked(kFormatKind, builder);
}

absl::StatusOr<RemoteFormat> DecodeRemoteFormat(absl::string_view bytes) {
  CKPTDB_ASSIGN_OR_RETURN(const auto from,
                          Opened<fbs::RemoteFormat>::Open(kFormatKind, bytes));
  RemoteFormat format{ToStd(from->uuid()), from->created_at_micros()};
  CKPTDB_RETURN_IF_ERROR(CheckFormat(format));
  return format;
}

absl::StatusOr<std::string> EncodeRemoteVersion(const RemoteVersion& version) {
  CKPTDB_RETURN_IF_ERROR(AsInvalid(CheckRemoteVersion(version)));
  CKPTDB_RETURN_IF_ERROR(
      AsInvalid(CheckBodyBytes(kVersionKind, LeastBytesOf(version))));
  FlatBufferBuilder builder;
  const auto step_record = AddBytes(version.step_record, &builder);
  std::vector<Offset<fbs::RemoteBytes>> ranks;
  for (const std::string& record : version.rank_records) {
    const auto bytes = AddBytes(record, &builder);
    ranks.push_back(fbs::CreateRemoteBytes(builder, bytes));
  }
  const auto rank_records = builder.CreateVector(ranks);
  const auto evaluations = AddKeysAndValues(version.evaluations, &builder);
  const auto inline_entries =
      AddKeysAndValues(version.inline_entries, &builder);
  std::vector<Offset<fbs::RemoteFile>> added;
  for (const RemoteFile& file : version.files) {
    const auto first = AddBytes(file.first_key, &builder);
    const auto last = AddBytes(file.last_key, &builder);
    added.push_back(fbs::CreateRemoteFile(builder, file.number, file.bytes,
                                          file.hash, first, last));
  }
  const auto files = builder.CreateVector(added);
  builder.Finish(fbs::CreateRemoteVersion(builder, step_record, rank_records,
                                          evaluations, inline_entries, files));
  return SealChecked(kVersionKind, builder);
}

absl::StatusOr<RemoteVersion> DecodeRemoteVersion(absl::string_view bytes) {
  CKPTDB_ASSIGN_OR_RETURN(
      const auto from, Opened<fbs::RemoteVersion>::Open(kVersionKind, bytes));
  RemoteVersion version;
  version.step_record = BytesOf(from->step_record());
  for (const fbs::RemoteBytes* record : *from->rank_records()) {
    version.rank_records.push_back(BytesOf(record->bytes()));
  }
  version.evaluations = ReadKeysAndValues(from->evaluations());
  version.inline_entries = ReadKeysAndValues(from->inline_entries());
  if (from->files() != nullptr) {
    for (const fbs::RemoteFile* file : *from->files()) {
      version.files.push_back({file->number(), file->bytes(), file->hash(),
                               BytesOf(file->first_key()),
                               BytesOf(file->last_key())});
    }
  }
  CKPTDB_RETURN_IF_ERROR(CheckRemoteVersion(version));
  return version;
}

absl::StatusOr<std::string> EncodeRemoteCatalog(const RemoteCatalog& catalog) {
  CKPTDB_RETURN_IF_ERROR(AsInvalid(CheckCatalog(catalog)));
  CKPTDB_RETURN_IF_ERROR(
      AsInvalid(CheckBodyBytes(kCatalogKind, LeastBytesOf(catalog))));
  CKPTDB_ASSIGN_OR_RETURN(const std::string root,
                          EncodeRootRecord(catalog.root));
  FlatBufferBuilder builder;
  const auto owner = AddString(catalog.owner, &builder);
  const auto token = AddString(catalog.token, &builder);
  const auto root_record = AddBytes(root, &builder);
  std::vector<Offset<fbs::RemoteEntry>> added;
  added.reserve(catalog.entries.size());
  for (const RemoteEntry& entry : catalog.entries) {
    added.push_back(AddRemoteEntry(entry, &builder));
  }
  const auto entries = builder.CreateVector(added);
  const auto forgotten = AddVersions(catalog.forgotten, &builder);
  builder.Finish(fbs::CreateRemoteCatalog(
      builder, catalog.number, catalog.epoch, owner, token,
      catalog.written_at_micros, catalog.horizon_micros, root_record, entries,
      forgotten));
  return SealChecked(kCatalogKind, builder);
}

absl::StatusOr<RemoteCatalog> DecodeRemoteCatalog(absl::string_view bytes) {
  CKPTDB_ASSIGN_OR_RETURN(
      const auto from, Opened<fbs::RemoteCatalog>::Open(kCatalogKind, bytes));
  RemoteCatalog catalog;
  catalog.number = from->number();
  catalog.epoch = from->epoch();
  catalog.owner = ToStd(from->owner());
  catalog.token = ToStd(from->token());
  catalog.written_at_micros = from->written_at_micros();
  catalog.horizon_micros = from->horizon_micros();
  CKPTDB_ASSIGN_OR_RETURN(catalog.root,
                          DecodeRootRecord(BytesOf(from->root_record())));
  for (const fbs::RemoteEntry* entry : *from->entries()) {
    catalog.entries.push_back(ReadRemoteEntry(*entry));
  }
  catalog.forgotten = ReadVersions(from->forgotten());
  CKPTDB_RETURN_IF_ERROR(CheckCatalog(catalog));
  return catalog;
}

}  // namespace ckptdb::internal
