// SPDX-License-Identifier: Apache-2.0
#include "schema/records/records.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstring>
#include <map>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "schema/bytes/page.h"
#include "schema/records/checks.h"
#include "schema/records/flat.h"
#include "schema/records/metadata.h"
#include "schema/records/metrics.h"
#include "schema/records/parts_codec.h"
#include "schema/records/record_checks.h"
#include "schema/status.h"
#include "schema/types.h"

namespace ckptdb {
namespace {

using flatbuffers::FlatBufferBuilder;
using flatbuffers::Offset;
using flatbuffers::Vector;
using internal::AddString;
using internal::BadField;
using internal::CheckVersion;
using internal::FromFbs;
using internal::Opened;
using internal::RecordKind;
using internal::Seal;
using internal::SizeOf;
using internal::ToFbs;
using internal::ToStd;

enum StepFlags : uint32_t {
  kEphemeral = 1,
  kPinned = 2,
  kQuarantined = 4,
  kAllFlags = 7,
};

// These two complete the conversions of flat.h, so that the templates below
// accept branches as well as versions.
fbs::Branch ToFbs(const StepRecord::Branch& branch) {
  return {branch.first, branch.last};
}

StepRecord::Branch FromFbs(const fbs::Branch& branch) {
  return {branch.first(), branch.last()};
}

// Copies bytes for the same reason as ToStd for numbers.
template <typename Struct>
auto ToStd(const Vector<const Struct*>* structs) {
  std::vector<decltype(FromFbs(Struct()))> out;
  for (size_t i = 0; i < SizeOf(structs); ++i) {
    Struct each;
    std::memcpy(static_cast<void*>(&each), structs->Data() + i * sizeof(each),
                sizeof(each));
    out.push_back(FromFbs(each));
  }
  return out;
}

template <typename T>
auto AddStructs(const std::vector<T>& values, FlatBufferBuilder* builder) {
  std::vector<decltype(ToFbs(T()))> structs;
  structs.reserve(values.size());
  for (const T& value : values) structs.push_back(ToFbs(value));
  return builder->CreateVectorOfStructs(structs);
}

using Owners = std::map<uint32_t, uint64_t>;

Offset<Vector<const fbs::Owner*>> AddOwners(const Owners& owners,
                                            FlatBufferBuilder* builder) {
  if (owners.empty()) return {};
  std::vector<fbs::Owner> structs;
  for (const auto& [first, id] : owners) structs.emplace_back(id, first);
  return builder->CreateVectorOfStructs(structs);
}

absl::StatusOr<Owners> ReadOwners(RecordKind kind,
                                  const Vector<const fbs::Owner*>* from) {
  Owners owners;
  for (size_t i = 0; i < SizeOf(from); ++i) {
    fbs::Owner each;
    std::memcpy(static_cast<void*>(&each), from->Data() + i * sizeof(each),
                sizeof(each));
    if (!owners.empty() && each.first() <= owners.rbegin()->first) {
      return BadField(kind, "owners",
                      absl::StrCat("are out of order: attempt ", each.first(),
                                   " follows ", owners.rbegin()->first));
    }
    owners.emplace(each.first(), each.id());
  }
  return owners;
}

// Checks that no version appears twice. Sorts a copy; the record keeps its
// order.
absl::Status CheckVersions(RecordKind kind, absl::string_view field,
                           std::vector<Version> versions) {
  for (const Version& version : versions) {
    CKPTDB_RETURN_IF_ERROR(CheckVersion(kind, field, version));
  }
  std::sort(versions.begin(), versions.end());
  const auto duplicate = std::adjacent_find(versions.begin(), versions.end());
  if (duplicate == versions.end()) return absl::OkStatus();
  return BadField(kind, field,
                  absl::StrCat("has duplicate ", ToString(*duplicate)));
}

// Checks an optional version. If absent, it must be {}, because it is not
// stored.
absl::Status CheckOptional(absl::string_view field, bool has,
                           const Version& version) {
  if (has) return CheckVersion(RecordKind::kStep, field, version);
  if (version == Version()) return absl::OkStatus();
  return BadField(RecordKind::kStep, field,
                  absl::StrCat("is ", ToString(version), "; expected none"));
}

// The chain of a full step contains only the step; that of a delta step has the
// parent before the step.
absl::Status CheckLineage(const StepRecord& record) {
  constexpr RecordKind kKind = RecordKind::kStep;
  const std::vector<Version>& chain = record.chain;
  CKPTDB_RETURN_IF_ERROR(
      CheckOptional("parent", record.has_parent, record.parent));
  if (record.has_parent && record.parent == record.version) {
    return BadField(kKind, "parent", "is the step itself");
  }
  if (record.kind == StepRecord::Kind::kFull) {
    if (chain.size() == 1) return absl::OkStatus();
    return BadField(kKind, "chain",
                    absl::StrCat("of a full step has ", chain.size(),
                                 " versions; expected 1"));
  }
  if (!record.has_parent)
    return BadField(kKind, "parent", "of a delta step is missing");
  if (chain.size() >= 2 && chain[chain.size() - 2] == record.parent) {
    return absl::OkStatus();
  }
  return BadField(kKind, "chain",
                  absl::StrCat("does not go through the parent, ",
                               ToString(record.parent)));
}

// Checks that a chain ends at its step and never goes back, before CheckLineage
// examines the parent.
absl::Status CheckChain(const StepRecord& record) {
  constexpr RecordKind kKind = RecordKind::kStep;
  const std::vector<Version>& chain = record.chain;
  CKPTDB_RETURN_IF_ERROR(CheckVersions(kKind, "chain", chain));
  if (chain.empty() || chain.back() != record.version) {
    return BadField(kKind, "chain",
                    absl::StrCat("does not end at ", ToString(record.version)));
  }
  for (size_t i = 1; i < chain.size(); ++i) {
    if (chain[i].step >= chain[i - 1].step) continue;
    return BadField(kKind, "chain",
                    absl::StrCat("goes back from step ", chain[i - 1].step,
                                 " to step ", chain[i].step));
  }
  return CheckLineage(record);
}

// Checks the version that a folded step was folded from: an older attempt of
// the same step, because a fold does not change the state.
absl::Status CheckIncrement(const StepRecord& record) {
  constexpr RecordKind kKind = RecordKind::kStep;
  CKPTDB_RETURN_IF_ERROR(
      CheckOptional("increment", record.folded, record.folded_from));
  if (!record.folded) return absl::OkStatus();
  if (record.kind != StepRecord::Kind::kFull) {
    return BadField(kKind, "increment",
                    "is set for a delta step; only a folded step has one");
  }
  if (record.folded_from.step == record.version.step &&
      record.folded_from.attempt < record.version.attempt) {
    return absl::OkStatus();
  }
  return BadField(kKind, "increment",
                  absl::StrCat("is ", ToString(record.folded_from),
                               "; expected an older attempt of ",
                               ToString(record.version)));
}

// Checks that branches ascend without overlap and that the last one is the
// record's own. A fold counts with the attempt of its increment.
absl::Status CheckBranches(const StepRecord& record) {
  constexpr RecordKind kKind = RecordKind::kStep;
  const std::vector<StepRecord::Branch>& branches = record.branches;
  if (branches.empty() || branches.size() > kMaxBranches) {
    return BadField(kKind, "branches",
                    absl::StrCat("have ", branches.size(),
                                 " entries; expected 1 to ", kMaxBranches));
  }
  uint32_t before = 0;
  for (const StepRecord::Branch& branch : branches) {
    if (branch.first <= before || branch.last < branch.first) {
      return BadField(
          kKind, "branches",
          absl::StrCat("are out of order: attempts ", branch.first, " to ",
                       branch.last, " follow attempt ", before));
    }
    before = branch.last;
  }
  if (before == StateOf(record).attempt) return absl::OkStatus();
  return BadField(kKind, "branches",
                  absl::StrCat("end with attempt ", before, "; expected ",
                               StateOf(record).attempt));
}

// Older libraries recorded no owners, and may have saved on top of steps that
// have some.
absl::Status CheckOwners(RecordKind kind, const Owners& owners, uint32_t most) {
  if (owners.empty()) return absl::OkStatus();
  if (owners.size() > kMaxOwners) {
    return BadField(kind, "owners",
                    absl::StrCat("have ", owners.size(),
                                 " entries; expected at most ", kMaxOwners));
  }
  const uint32_t first = owners.begin()->first;
  const uint32_t last = owners.rbegin()->first;
  if (first > 0 && last <= most) return absl::OkStatus();
  return BadField(kind, "owners",
                  absl::StrCat("have attempts ", first, " to ", last,
                               "; expected 1 to ", most));
}

absl::Status CheckKind(StepRecord::Kind kind) {
  if (kind == StepRecord::Kind::kFull || kind == StepRecord::Kind::kDelta) {
    return absl::OkStatus();
  }
  return BadField(RecordKind::kStep, "kind",
                  absl::StrCat(static_cast<int>(kind),
                               " is unknown; expected 0 (full) or 1 (delta)"));
}

// Readers compare each rank record with the digest at its rank.
absl::Status CheckRankDigests(const StepRecord& record) {
  if (record.rank_digests.size() == record.world_size) return absl::OkStatus();
  return BadField(RecordKind::kStep, "rank digests",
                  absl::StrCat("have ", record.rank_digests.size(),
                               " entries; expected one for each of ",
                               record.world_size, " ranks"));
}

uint32_t FlagsOf(const StepRecord& record) {
  return (record.ephemeral ? kEphemeral : 0u) | (record.pinned ? kPinned : 0u) |
         (record.quarantined ? kQuarantined : 0u);
}

void AddTotals(const StepRecord& record, fbs::StepRecordBuilder* out) {
  out->add_items(record.items);
  out->add_rows(record.rows);
  out->add_raw_bytes(record.raw_bytes);
  out->add_stored_bytes(record.exclusive_bytes);
}

absl::Status SetFlags(uint32_t flags, StepRecord* record) {
  // A flag from a newer library may change the meaning of a step, so it is not
  // ignored.
  if ((flags & ~uint32_t{kAllFlags}) != 0) {
    return BadField(RecordKind::kStep, "flags",
                    absl::StrCat(flags, " have unknown bits"));
  }
  record->ephemeral = (flags & kEphemeral) != 0;
  record->pinned = (flags & kPinned) != 0;
  record->quarantined = (flags & kQuarantined) != 0;
  return absl::OkStatus();
}

}  // namespace

absl::Status internal::Check(const StepRecord& record) {
  constexpr RecordKind kKind = RecordKind::kStep;
  CKPTDB_RETURN_IF_ERROR(CheckKind(record.kind));
  CKPTDB_RETURN_IF_ERROR(CheckMetrics(RecordKind::kStep, record.metrics));
  CKPTDB_RETURN_IF_ERROR(internal::CheckMetadata(kKind, record.user_metadata));
  CKPTDB_RETURN_IF_ERROR(CheckVersion(kKind, "version", record.version));
  CKPTDB_RETURN_IF_ERROR(internal::CheckUuid(kKind, record.store_uuid));
  CKPTDB_RETURN_IF_ERROR(CheckChain(record));
  CKPTDB_RETURN_IF_ERROR(CheckIncrement(record));
  CKPTDB_RETURN_IF_ERROR(CheckBranches(record));
  CKPTDB_RETURN_IF_ERROR(
      CheckOwners(kKind, record.owners, StateOf(record).attempt));
  CKPTDB_RETURN_IF_ERROR(CheckVersions(kKind, "references", record.references));
  if (std::count(record.references.begin(), record.references.end(),
                 record.version) != 0) {
    return BadField(kKind, "references", "contain the step itself");
  }
  CKPTDB_RETURN_IF_ERROR(internal::CheckWorldSize(kKind, record.world_size));
  CKPTDB_RETURN_IF_ERROR(internal::CheckSliceBounds(kKind, record.slice_bounds,
                                                    record.world_size));
  CKPTDB_RETURN_IF_ERROR(CheckRankDigests(record));
  if (record.library_version.empty()) return absl::OkStatus();
  return internal::CheckNameField(kKind, "library version",
                                  record.library_version);
}

absl::string_view StepKindName(StepRecord::Kind kind) {
  return kind == StepRecord::Kind::kFull ? "full" : "delta";
}

absl::string_view AttemptStateName(AttemptState state) {
  switch (state) {
    case AttemptState::kBegun:
      return "begun";
    case AttemptState::kCommitted:
      return "committed";
    case AttemptState::kRetired:
      return "retired";
  }
  return "unknown";
}

// Codecs may differ: each page names its own, so rows with either can be
// merged.
bool SameSlots(absl::Span<const Slot> a, absl::Span<const Slot> b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [](const Slot& x, const Slot& y) {
                      return x.name == y.name && x.dtype == y.dtype &&
                             x.elements == y.elements;
                    });
}

uint64_t LineageDigest(const StepRecord& record) {
  std::string bytes;
  // The layout is part of the format: see "StepRecord" in docs/format.md.
  const auto append = [&](auto number) {
    std::array<char, sizeof(number)> raw;
    std::memcpy(raw.data(), &number, raw.size());
    bytes.append(raw.data(), raw.size());
  };
  const auto append_all = [&](const auto& numbers) {
    append(uint64_t{numbers.size()});
    for (const auto number : numbers) append(number);
  };
  append_all(record.store_uuid);
  append(record.version.step);
  append(record.version.attempt);
  append(static_cast<uint8_t>(record.kind));
  append(record.parent.step);
  append(record.parent.attempt);
  append(record.parent_digest);
  append(record.world_size);
  append_all(record.slice_bounds);
  append_all(record.rank_digests);
  return HashBytes(bytes);
}

// Metrics and metadata have separate limits, but the chain and the ranks may be
// long.
uint64_t internal::LeastBytes(const StepRecord& record) {
  return (record.chain.size() + record.references.size()) *
             sizeof(fbs::Version) +
         (record.slice_bounds.size() * sizeof(uint32_t)) +
         (record.rank_digests.size() * sizeof(uint64_t));
}

std::string internal::EncodeUnchecked(const StepRecord& record) {
  FlatBufferBuilder builder;
  const auto chain = AddStructs(record.chain, &builder);
  const auto references = AddStructs(record.references, &builder);
  const auto bounds = builder.CreateVector(record.slice_bounds);
  const auto metrics = internal::AddMetrics(record.metrics, &builder);
  const auto metadata = internal::AddMetadata(record.user_metadata, &builder);
  const auto digests = builder.CreateVector(record.rank_digests);
  const auto library = AddString(record.library_version, &builder);
  const auto uuid = AddString(record.store_uuid, &builder);
  const auto branches = AddStructs(record.branches, &builder);
  const auto owners = AddOwners(record.owners, &builder);
  const fbs::Version parent = ToFbs(record.parent);
  const fbs::Version increment = ToFbs(record.folded_from);
  fbs::StepRecordBuilder out(builder);
  out.add_step(record.version.step);
  out.add_attempt(record.version.attempt);
  out.add_kind(static_cast<uint8_t>(record.kind));
  if (record.has_parent) out.add_parent(&parent);
  out.add_chain(chain);
  out.add_references(references);
  out.add_world_size(record.world_size);
  out.add_slice_bounds(bounds);
  out.add_save_micros(record.save_micros);
  out.add_committed_at_micros(record.committed_at_micros);
  out.add_flags(FlagsOf(record));
  out.add_metrics(metrics);
  out.add_user_metadata(metadata);
  out.add_rank_digests(digests);
  out.add_library_version(library);
  AddTotals(record, &out);
  out.add_store_uuid(uuid);
  out.add_parent_digest(record.parent_digest);
  if (record.folded) out.add_increment(&increment);
  out.add_base_bytes(record.base_bytes);
  out.add_delta_bytes(record.delta_bytes);
  out.add_branches(branches);
  out.add_owners(owners);
  builder.Finish(out.Finish());
  return Seal(RecordKind::kStep, builder);
}

absl::StatusOr<std::string> EncodeStepRecord(const StepRecord& record) {
  return internal::EncodeChecked(RecordKind::kStep, record);
}

absl::StatusOr<StepRecord> DecodeStepRecord(absl::string_view bytes) {
  CKPTDB_ASSIGN_OR_RETURN(
      const auto from, Opened<fbs::StepRecord>::Open(RecordKind::kStep, bytes));
  StepRecord record;
  record.version = {from->step(), from->attempt()};
  CKPTDB_RETURN_IF_ERROR(SetFlags(from->flags(), &record));
  record.kind = static_cast<StepRecord::Kind>(from->kind());
  // A full step has a parent, too, if it was saved on top of another step.
  record.has_parent = from->parent() != nullptr;
  if (record.has_parent) record.parent = FromFbs(*from->parent());
  record.parent_digest = from->parent_digest();
  record.folded = from->increment() != nullptr;
  if (record.folded) record.folded_from = FromFbs(*from->increment());
  record.store_uuid = ToStd(from->store_uuid());
  record.chain = ToStd(from->chain());
  record.references = ToStd(from->references());
  record.world_size = from->world_size();
  record.slice_bounds = ToStd(from->slice_bounds());
  record.save_micros = from->save_micros();
  record.committed_at_micros = from->committed_at_micros();
  CKPTDB_ASSIGN_OR_RETURN(
      record.metrics,
      internal::ReadMetrics(RecordKind::kStep, from->metrics()));
  CKPTDB_ASSIGN_OR_RETURN(
      record.user_metadata,
      internal::ReadMetadata(RecordKind::kStep, from->user_metadata()));
  record.rank_digests = ToStd(from->rank_digests());
  record.library_version = ToStd(from->library_version());
  record.items = from->items();
  record.rows = from->rows();
  record.raw_bytes = from->raw_bytes();
  record.exclusive_bytes = from->stored_bytes();
  record.branches = ToStd(from->branches());
  CKPTDB_ASSIGN_OR_RETURN(record.owners,
                          ReadOwners(RecordKind::kStep, from->owners()));
  record.base_bytes = from->base_bytes();
  record.delta_bytes = from->delta_bytes();
  CKPTDB_RETURN_IF_ERROR(internal::Check(record));
  return record;
}

absl::Status internal::Check(const AttemptRecord& record) {
  constexpr RecordKind kKind = RecordKind::kAttempt;
  if (record.state > AttemptState::kRetired) {
    return BadField(
        kKind, "state",
        absl::StrCat(static_cast<int>(record.state), " is unknown"));
  }
  CKPTDB_RETURN_IF_ERROR(CheckVersion(kKind, "version", record.version));
  // A fold begins after the commit of the version that it folds, and attempts
  // ascend.
  if (record.folds == 0 || record.folds < record.version.attempt) {
    return absl::OkStatus();
  }
  return BadField(
      kKind, "folds",
      absl::StrCat("attempt ", record.folds, "; expected an older attempt"));
}

// The size is fixed and far below any limit.
uint64_t internal::LeastBytes(const AttemptRecord&) { return 0; }

std::string internal::EncodeUnchecked(const AttemptRecord& record) {
  FlatBufferBuilder builder;
  builder.Finish(fbs::CreateAttemptRecord(
      builder, record.version.step, record.version.attempt,
      static_cast<uint8_t>(record.state), record.begun_at_micros,
      record.folds));
  return Seal(RecordKind::kAttempt, builder);
}

absl::StatusOr<std::string> EncodeAttemptRecord(const AttemptRecord& record) {
  return internal::EncodeChecked(RecordKind::kAttempt, record);
}

absl::StatusOr<AttemptRecord> DecodeAttemptRecord(absl::string_view bytes) {
  CKPTDB_ASSIGN_OR_RETURN(const auto from, Opened<fbs::AttemptRecord>::Open(
                                               RecordKind::kAttempt, bytes));
  AttemptRecord record;
  record.version = {from->step(), from->attempt()};
  record.state = static_cast<AttemptState>(from->state());
  record.begun_at_micros = from->begun_at_micros();
  record.folds = from->folds();
  CKPTDB_RETURN_IF_ERROR(internal::Check(record));
  return record;
}

absl::Status internal::Check(const RootRecord& record) {
  constexpr RecordKind kKind = RecordKind::kRoot;
  CKPTDB_RETURN_IF_ERROR(
      CheckOwners(kKind, record.owners, record.next_attempt));
  if (record.parts.has_value()) {
    CKPTDB_RETURN_IF_ERROR(internal::CheckParts(*record.parts));
  }
  CKPTDB_RETURN_IF_ERROR(internal::CheckMetadata(kKind, record.user_metadata));
  CKPTDB_RETURN_IF_ERROR(internal::CheckUuid(kKind, record.uuid));
  if (record.next_attempt > 0) return absl::OkStatus();
  return BadField(kKind, "next attempt", "0 is invalid; attempts start at 1");
}

// The metadata has a separate limit, far below that of records.
uint64_t internal::LeastBytes(const RootRecord&) { return 0; }

std::string internal::EncodeUnchecked(const RootRecord& record) {
  FlatBufferBuilder builder;
  const auto uuid = AddString(record.uuid, &builder);
  const auto metadata = internal::AddMetadata(record.user_metadata, &builder);
  const auto parts = internal::AddParts(record.parts, &builder);
  const auto owners = AddOwners(record.owners, &builder);
  builder.Finish(fbs::CreateRootRecord(
      builder, uuid, record.next_attempt, record.owner_epoch,
      record.created_at_micros, metadata, parts, owners));
  return Seal(RecordKind::kRoot, builder);
}

absl::StatusOr<std::string> EncodeRootRecord(const RootRecord& record) {
  return internal::EncodeChecked(RecordKind::kRoot, record);
}

absl::StatusOr<RootRecord> DecodeRootRecord(absl::string_view bytes) {
  CKPTDB_ASSIGN_OR_RETURN(
      const auto from, Opened<fbs::RootRecord>::Open(RecordKind::kRoot, bytes));
  RootRecord record;
  record.uuid = ToStd(from->uuid());
  record.next_attempt = from->next_attempt();
  record.owner_epoch = from->owner_epoch();
  record.created_at_micros = from->created_at_micros();
  CKPTDB_ASSIGN_OR_RETURN(
      record.user_metadata,
      internal::ReadMetadata(RecordKind::kRoot, from->user_metadata()));
  record.parts = internal::ToParts(from->parts());
  CKPTDB_ASSIGN_OR_RETURN(record.owners,
                          ReadOwners(RecordKind::kRoot, from->owners()));
  CKPTDB_RETURN_IF_ERROR(internal::Check(record));
  return record;
}

absl::Status internal::Check(const Lease& lease) {
  constexpr RecordKind kKind = RecordKind::kLease;
  CKPTDB_RETURN_IF_ERROR(internal::CheckUuid(kKind, lease.uuid));
  if (lease.step < 0) {
    return BadField(kKind, "step", absl::StrCat(lease.step, " is negative"));
  }
  return CheckVersions(kKind, "versions", lease.versions);
}

uint64_t internal::LeastBytes(const Lease& lease) {
  return lease.versions.size() * sizeof(fbs::Version);
}

std::string internal::EncodeUnchecked(const Lease& lease) {
  FlatBufferBuilder builder;
  const auto uuid = AddString(lease.uuid, &builder);
  const auto versions = AddStructs(lease.versions, &builder);
  builder.Finish(fbs::CreateLease(builder, uuid, lease.step, versions,
                                  lease.expires_at_micros));
  return Seal(RecordKind::kLease, builder);
}

absl::StatusOr<std::string> EncodeLease(const Lease& lease) {
  return internal::EncodeChecked(RecordKind::kLease, lease);
}

absl::StatusOr<Lease> DecodeLease(absl::string_view bytes) {
  CKPTDB_ASSIGN_OR_RETURN(const auto from,
                          Opened<fbs::Lease>::Open(RecordKind::kLease, bytes));
  Lease lease;
  lease.uuid = ToStd(from->uuid());
  lease.step = from->step();
  lease.versions = ToStd(from->versions());
  lease.expires_at_micros = from->expires_at_micros();
  CKPTDB_RETURN_IF_ERROR(internal::Check(lease));
  return lease;
}

}  // namespace ckptdb
