// SPDX-License-Identifier: Apache-2.0
#include "schema/records/staged.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "schema/bytes/keys.h"
#include "schema/records/checks.h"
#include "schema/records/flat.h"
#include "schema/records/record_checks.h"
#include "schema/records/records.h"
#include "schema/status.h"

namespace ckptdb {
namespace {

using flatbuffers::FlatBufferBuilder;
using flatbuffers::Offset;
using internal::AddBytes;
using internal::AddString;
using internal::BadField;
using internal::BytesOf;
using internal::Opened;
using internal::RecordKind;
using internal::Seal;
using internal::SizeOf;
using internal::ToStd;
using internal::ViewOf;

// Checks the fields that a ticket and a staged rank share: store, version and
// rank.
absl::Status CheckPlace(RecordKind kind, absl::string_view uuid,
                        const Version& version, uint32_t rank,
                        uint32_t world_size) {
  CKPTDB_RETURN_IF_ERROR(internal::CheckUuid(kind, uuid));
  CKPTDB_RETURN_IF_ERROR(internal::CheckVersion(kind, "version", version));
  CKPTDB_RETURN_IF_ERROR(internal::CheckWorldSize(kind, world_size));
  return internal::CheckRank(kind, rank, world_size);
}

Offset<fbs::StagedFile> AddFile(const internal::StagedFile& file,
                                FlatBufferBuilder* builder) {
  const auto path = AddString(file.path, builder);
  return fbs::CreateStagedFile(*builder, path, file.bytes, file.entries,
                               file.first_entry);
}

Offset<fbs::InlineEntry> AddEntry(
    const std::pair<std::string, std::string>& entry,
    FlatBufferBuilder* builder) {
  const auto key = AddBytes(entry.first, builder);
  return fbs::CreateInlineEntry(*builder, key, AddBytes(entry.second, builder));
}

// Checks that an inline entry belongs to this version and rank, because it is
// put into the write batch under its own key.
absl::Status CheckEntryKey(const internal::StagedRecord& staged,
                           absl::string_view key) {
  constexpr RecordKind kKind = RecordKind::kStagedRank;
  const absl::StatusOr<DataKey> parsed = ParseDataKey(key);
  if (!parsed.ok()) {
    return BadField(kKind, "inline entry", parsed.status().message());
  }
  if (parsed->version == staged.version && parsed->rank == staged.rank) {
    return absl::OkStatus();
  }
  return BadField(
      kKind, "inline entry",
      absl::StrCat("of ", DescribeDataKey(key), " does not belong to ",
                   ToString(staged.version), " rank ", staged.rank));
}

// The copies exceed the record only if parts are referenced twice.
absl::Status CheckCopied(uint64_t copied, size_t record_bytes) {
  if (copied <= record_bytes) return absl::OkStatus();
  return BadField(RecordKind::kStagedRank, "parts",
                  absl::StrCat("reference more bytes than the ", record_bytes,
                               " of the record"));
}

// Reads the files, and counts bytes before copying them: a forged FlatBuffer
// may refer to one string many times.
absl::Status ReadFiles(const fbs::StagedRank& from, size_t record_bytes,
                       internal::StagedRecord* staged) {
  if (from.files() == nullptr) return absl::OkStatus();
  uint64_t copied = 0;
  for (const fbs::StagedFile* file : *from.files()) {
    const absl::string_view path = ViewOf(file->path());
    copied += path.size();
    CKPTDB_RETURN_IF_ERROR(CheckCopied(copied, record_bytes));
    staged->files.push_back({std::string(path), file->bytes(), file->entries(),
                             file->first_entry()});
  }
  return absl::OkStatus();
}

// Reads the inline entries, counting bytes in the same way.
absl::Status ReadEntries(const fbs::StagedRank& from, size_t record_bytes,
                         internal::StagedRecord* staged) {
  if (from.inline_entries() == nullptr) return absl::OkStatus();
  uint64_t copied = 0;
  for (const fbs::InlineEntry* entry : *from.inline_entries()) {
    copied += SizeOf(entry->key()) + SizeOf(entry->value());
    CKPTDB_RETURN_IF_ERROR(CheckCopied(copied, record_bytes));
    staged->inline_entries.emplace_back(BytesOf(entry->key()),
                                        BytesOf(entry->value()));
  }
  return absl::OkStatus();
}

bool SameRecord(const std::shared_ptr<const StepRecord::Rank>& a,
                const std::shared_ptr<const StepRecord::Rank>& b) {
  return a == nullptr || b == nullptr ? a == b : *a == *b;
}

// A record within a ticket; empty for none.
std::string EncodeNested(
    const std::shared_ptr<const StepRecord::Rank>& record) {
  return record == nullptr ? "" : internal::EncodeUnchecked(*record);
}

absl::StatusOr<std::shared_ptr<const StepRecord::Rank>> DecodeNested(
    absl::string_view field, absl::string_view bytes) {
  if (bytes.empty()) return nullptr;
  absl::StatusOr<StepRecord::Rank> record = DecodeRankRecord(bytes);
  // The owner's format is the ticket's, so a record of a newer one is damaged.
  if (!record.ok()) {
    return BadField(RecordKind::kTicket, field, record.status().message());
  }
  return std::make_shared<const StepRecord::Rank>(*std::move(record));
}

// A ticket has no slices, or their begin and end.
absl::Status CheckSlices(const std::vector<uint32_t>& slices) {
  if (slices.empty()) return absl::OkStatus();
  if (slices.size() == 2 && slices[0] <= slices[1] && slices[1] <= kSlices) {
    return absl::OkStatus();
  }
  return BadField(RecordKind::kTicket, "slices",
                  absl::StrCat("[", absl::StrJoin(slices, ", "),
                               "] are not a range within [0, ", kSlices, "]"));
}

}  // namespace

bool internal::TicketRecord::operator==(const TicketRecord& other) const {
  return uuid == other.uuid && version == other.version &&
         world_size == other.world_size && rank == other.rank &&
         slices == other.slices && staging == other.staging &&
         in_files == other.in_files && SameRecord(parent, other.parent) &&
         SameRecord(parent_tables, other.parent_tables);
}

absl::Status internal::Check(const internal::TicketRecord& ticket) {
  constexpr RecordKind kKind = RecordKind::kTicket;
  CKPTDB_RETURN_IF_ERROR(CheckPlace(kKind, ticket.uuid, ticket.version,
                                    ticket.rank, ticket.world_size));
  if (ticket.slices.has_value()) {
    CKPTDB_RETURN_IF_ERROR(
        CheckSlices({ticket.slices->begin, ticket.slices->end}));
  }
  for (const auto* record : {&ticket.parent, &ticket.parent_tables}) {
    if (*record != nullptr) CKPTDB_RETURN_IF_ERROR(internal::Check(**record));
  }
  return internal::CheckPath(kKind, "staging", ticket.staging);
}

uint64_t internal::LeastBytes(const internal::TicketRecord& ticket) {
  uint64_t bytes = ticket.staging.size();
  for (const auto* record : {&ticket.parent, &ticket.parent_tables}) {
    if (*record != nullptr) bytes += LeastBytes(**record);
  }
  return bytes;
}

std::string internal::EncodeUnchecked(const internal::TicketRecord& ticket) {
  FlatBufferBuilder builder;
  const auto uuid = AddString(ticket.uuid, &builder);
  // "No slices" and an empty range of slices differ, so the range is stored as
  // a vector of zero or two numbers.
  std::vector<uint32_t> slices;
  if (ticket.slices.has_value()) {
    slices = {ticket.slices->begin, ticket.slices->end};
  }
  const auto slice_vector = builder.CreateVector(slices);
  const auto staging = AddString(ticket.staging, &builder);
  const auto parent = AddBytes(EncodeNested(ticket.parent), &builder);
  const auto tables = AddBytes(EncodeNested(ticket.parent_tables), &builder);
  builder.Finish(fbs::CreateTicket(builder, uuid, ticket.version.step,
                                   ticket.version.attempt, ticket.world_size,
                                   ticket.rank, slice_vector, staging, parent,
                                   tables, ticket.in_files));
  return Seal(RecordKind::kTicket, builder);
}

absl::StatusOr<std::string> EncodeTicket(const internal::TicketRecord& ticket) {
  return internal::EncodeChecked(RecordKind::kTicket, ticket);
}

absl::StatusOr<internal::TicketRecord> DecodeTicket(absl::string_view bytes) {
  constexpr RecordKind kKind = RecordKind::kTicket;
  CKPTDB_ASSIGN_OR_RETURN(const auto from,
                          Opened<fbs::Ticket>::Open(kKind, bytes));
  internal::TicketRecord ticket;
  ticket.uuid = ToStd(from->uuid());
  ticket.version = {from->step(), from->attempt()};
  ticket.world_size = from->world_size();
  ticket.rank = from->rank();
  ticket.staging = ToStd(from->staging());
  ticket.in_files = from->in_files();
  CKPTDB_ASSIGN_OR_RETURN(ticket.parent,
                          DecodeNested("parent", BytesOf(from->parent())));
  CKPTDB_ASSIGN_OR_RETURN(
      ticket.parent_tables,
      DecodeNested("parent tables", BytesOf(from->parent_tables())));
  const std::vector<uint32_t> slices = ToStd(from->slices());
  // Accepts zero or two numbers, which are the begin and the end below.
  CKPTDB_RETURN_IF_ERROR(CheckSlices(slices));
  if (!slices.empty()) ticket.slices = SliceRange{slices[0], slices[1]};
  CKPTDB_RETURN_IF_ERROR(internal::Check(ticket));
  return ticket;
}

absl::Status internal::Check(const internal::StagedRecord& staged) {
  constexpr RecordKind kKind = RecordKind::kStagedRank;
  CKPTDB_RETURN_IF_ERROR(CheckPlace(kKind, staged.uuid, staged.version,
                                    staged.rank, staged.world_size));
  for (const internal::StagedFile& file : staged.files) {
    CKPTDB_RETURN_IF_ERROR(internal::CheckPath(kKind, "path", file.path));
  }
  for (const auto& [key, value] : staged.inline_entries) {
    CKPTDB_RETURN_IF_ERROR(CheckEntryKey(staged, key));
  }
  // Publish decodes and checks the record itself.
  if (!staged.rank_record.empty()) return absl::OkStatus();
  return BadField(kKind, "rank record", "is empty");
}

uint64_t internal::LeastBytes(const internal::StagedRecord& staged) {
  // Lower bounds of a FlatBuffers table of this kind.
  constexpr uint64_t kLeastFile = 32;
  constexpr uint64_t kLeastEntry = 16;
  uint64_t bytes = staged.rank_record.size();
  for (const internal::StagedFile& file : staged.files) {
    bytes += kLeastFile + file.path.size();
  }
  for (const auto& [key, value] : staged.inline_entries) {
    bytes += kLeastEntry + key.size() + value.size();
  }
  return bytes;
}

std::string internal::EncodeUnchecked(const internal::StagedRecord& staged) {
  FlatBufferBuilder builder;
  std::vector<Offset<fbs::StagedFile>> files;
  for (const internal::StagedFile& file : staged.files) {
    files.push_back(AddFile(file, &builder));
  }
  std::vector<Offset<fbs::InlineEntry>> entries;
  for (const auto& entry : staged.inline_entries) {
    entries.push_back(AddEntry(entry, &builder));
  }
  const auto uuid = AddString(staged.uuid, &builder);
  const auto file_vector = builder.CreateVector(files);
  const auto entry_vector = builder.CreateVector(entries);
  const auto record = AddBytes(staged.rank_record, &builder);
  builder.Finish(fbs::CreateStagedRank(
      builder, uuid, staged.version.step, staged.version.attempt, staged.rank,
      staged.world_size, file_vector, entry_vector, record));
  return Seal(RecordKind::kStagedRank, builder);
}

absl::StatusOr<std::string> EncodeStagedRank(
    const internal::StagedRecord& staged) {
  return internal::EncodeChecked(RecordKind::kStagedRank, staged);
}

absl::StatusOr<internal::StagedRecord> DecodeStagedRank(
    absl::string_view bytes) {
  constexpr RecordKind kKind = RecordKind::kStagedRank;
  CKPTDB_ASSIGN_OR_RETURN(const auto from,
                          Opened<fbs::StagedRank>::Open(kKind, bytes));
  internal::StagedRecord staged;
  staged.uuid = ToStd(from->uuid());
  staged.version = {from->step(), from->attempt()};
  staged.rank = from->rank();
  staged.world_size = from->world_size();
  const fbs::StagedRank& root = *from.operator->();
  CKPTDB_RETURN_IF_ERROR(ReadFiles(root, from.bytes(), &staged));
  CKPTDB_RETURN_IF_ERROR(ReadEntries(root, from.bytes(), &staged));
  staged.rank_record = BytesOf(from->rank_record());
  CKPTDB_RETURN_IF_ERROR(internal::Check(staged));
  return staged;
}

}  // namespace ckptdb
