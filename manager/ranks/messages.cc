// SPDX-License-Identifier: Apache-2.0
#include "manager/ranks/messages.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "manager/ranks/message_codec.h"
#include "schema/bytes/page.h"
#include "schema/records/record_checks.h"
#include "schema/records/staged.h"
#include "schema/status.h"

namespace ckptdb::internal {

// Only Store::Save sets stage_micros.
template <>
struct Fields<SaveResult> {
  static auto Of(auto& m) {
    return std::tie(m.version, m.raw_bytes, m.exclusive_bytes, m.borrowed_bytes,
                    m.kind, m.deltas, m.base_due_reason, m.commit_micros);
  }
};
template <>
struct Fields<StepRecord::Evaluation> {
  static auto Of(auto& m) { return std::tie(m.processed, m.meters, m.loader); }
};
template <>
struct Fields<StagedFile> {
  static auto Of(auto& m) {
    return std::tie(m.path, m.bytes, m.entries, m.first_entry);
  }
};
template <>
struct Fields<StagedRecord> {
  static auto Of(auto& m) {
    return std::tie(m.uuid, m.version, m.rank, m.world_size, m.files,
                    m.rank_record, m.inline_entries);
  }
};

template <>
struct Fields<StepPlan> {
  static auto Of(auto& m) { return std::tie(m.begin_in, m.end_in, m.due_step); }
};
template <>
struct Fields<Vote> {
  static auto Of(auto& m) { return std::tie(m.meet, m.plan); }
};
template <>
struct Fields<Announcement> {
  static auto Of(auto& m) {
    return std::tie(m.error, m.finish_save, m.preempted, m.promoted, m.step,
                    m.decision.kind, m.decision.reason, m.plan, m.begin_error,
                    m.version, m.whole, m.parent, m.base_reason);
  }
};
template <>
struct Fields<Notice> {
  static auto Of(auto& m) { return std::tie(m.preempted, m.error); }
};
template <>
struct Fields<Outcome> {
  static auto Of(auto& m) { return std::tie(m.status, m.result, m.retired); }
};
template <>
struct Fields<AgreedBases> {
  static auto Of(auto& m) { return std::tie(m.status, m.bases); }
};
template <>
struct Fields<ReplicaDigests> {
  static auto Of(auto& m) { return std::tie(m.status, m.digests); }
};
template <>
struct Fields<EvaluationParts> {
  static auto Of(auto& m) { return std::tie(m.status, m.parts); }
};
template <>
struct Fields<RestoreTarget> {
  static auto Of(auto& m) { return std::tie(m.error, m.version); }
};

namespace {

// The expected size of a SavePart, so that its memory is allocated once.
uint64_t SizeOf(const StagedRecord& staged) {
  constexpr uint64_t kOthers = 512;
  constexpr uint64_t kFile = 64;
  uint64_t bytes = kOthers + staged.rank_record.size();
  for (const StagedFile& file : staged.files) bytes += kFile + file.path.size();
  for (const auto& [key, value] : staged.inline_entries) {
    bytes += 2 * sizeof(uint64_t) + key.size() + value.size();
  }
  return bytes;
}

// Returns DataLoss if the bytes changed in transit: entries are added to the
// write batch as they are, so a changed one would be committed as if it had
// been saved.
absl::Status CheckHash(absl::string_view bytes, uint64_t hash) {
  const uint64_t found = HashBytes(bytes);
  if (found == hash) return absl::OkStatus();
  return absl::DataLossError(
      absl::StrCat("the ", bytes.size(), " bytes of a staged rank have hash 0x",
                   absl::Hex(found), "; the rank that sent them computed 0x",
                   absl::Hex(hash)));
}

}  // namespace

// The status, the staged rank, and the hash of the staged rank. A rank that has
// failed sends only its status.
std::string Encode(const SavePart& message) {
  const StagedRecord& staged = message.staged.record();
  absl::Status status = message.status;
  if (status.ok()) status = AsInvalid(Check(staged));
  std::string bytes;
  bytes.reserve(SizeOf(staged));
  MessageWriter writer(&bytes);
  writer.Put(status);
  if (!status.ok()) return bytes;
  const size_t begin = bytes.size();
  writer.Put(staged);
  writer.Put(HashBytes(absl::string_view(bytes).substr(begin)));
  return bytes;
}
absl::Status Decode(absl::string_view bytes, SavePart* message) {
  MessageReader reader(bytes);
  if (!reader.Get(&message->status)) return CannotDecode(bytes.size());
  if (!message->status.ok()) return absl::OkStatus();
  absl::string_view staged = reader.rest();
  uint64_t hash = 0;
  if (staged.size() < sizeof(hash)) return CannotDecode(bytes.size());
  MessageReader(staged.substr(staged.size() - sizeof(hash))).Get(&hash);
  staged.remove_suffix(sizeof(hash));
  CKPTDB_RETURN_IF_ERROR(CheckHash(staged, hash));
  StagedRecord record;
  CKPTDB_RETURN_IF_ERROR(DecodeMessage(staged, &record));
  CKPTDB_RETURN_IF_ERROR(Check(record));
  message->staged = StagedRank(std::move(record));
  return absl::OkStatus();
}

template <typename Message>
std::string Encode(const Message& message) {
  return EncodeMessage(message);
}
template <typename Message>
absl::Status Decode(absl::string_view bytes, Message* message) {
  return DecodeMessage(bytes, message);
}

template std::string Encode(const Announcement&);
template std::string Encode(const Notice&);
template std::string Encode(const Vote&);
template std::string Encode(const Outcome&);
template std::string Encode(const BaseReasons&);
template std::string Encode(const AgreedBases&);
template std::string Encode(const ReplicaDigests&);
template std::string Encode(const EvaluationParts&);
template std::string Encode(const RestoreTarget&);
template absl::Status Decode(absl::string_view, Announcement*);
template absl::Status Decode(absl::string_view, Notice*);
template absl::Status Decode(absl::string_view, Vote*);
template absl::Status Decode(absl::string_view, Outcome*);
template absl::Status Decode(absl::string_view, BaseReasons*);
template absl::Status Decode(absl::string_view, AgreedBases*);
template absl::Status Decode(absl::string_view, ReplicaDigests*);
template absl::Status Decode(absl::string_view, EvaluationParts*);
template absl::Status Decode(absl::string_view, RestoreTarget*);

}  // namespace ckptdb::internal
