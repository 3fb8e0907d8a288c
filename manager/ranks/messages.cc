#include "ckptdb/manager/ranks/messages.h"

#include <cstring>
#include <nlohmann/json.hpp>
#include <utility>

#include "absl/strings/str_cat.h"
#include "ckptdb/manager/ranks/status_bytes.h"
#include "ckptdb/schema/bytes/page.h"
#include "ckptdb/schema/records/staged.h"
#include "ckptdb/schema/status.h"

namespace ckptdb::internal {
namespace {

using Json = nlohmann::json;

// Encodes as CBOR, in which a string may have any bytes.
std::string ToBytes(const Json& json) {
  const std::vector<uint8_t> bytes = Json::to_cbor(json);
  return std::string(bytes.begin(), bytes.end());
}

Json ToJson(const absl::Status& status) { return EncodeStatus(status); }
Json ToJson(const Version& version) {
  return Json::array({version.step, version.attempt});
}
// All fields of a result go to the other ranks, as each reports the save.
Json ToJson(const SaveResult& result) {
  return {{"version", ToJson(result.version)},
          {"raw", result.raw_bytes},
          {"stored", result.exclusive_bytes},
          {"reused", result.borrowed_bytes},
          {"kind", static_cast<int>(result.kind)},
          {"deltas", result.deltas},
          {"base_due_reason", result.base_due_reason},
          {"commit", result.commit_micros}};
}

absl::Status StatusFrom(const Json& json) {
  return DecodeStatus(json.get_ref<const std::string&>());
}
Version VersionFrom(const Json& json) {
  return {json.at(0).get<int64_t>(), json.at(1).get<uint32_t>()};
}
// A field that is missing throws, which Parse turns into Internal.
SaveResult ResultFrom(const Json& json) {
  SaveResult result;
  result.version = VersionFrom(json.at("version"));
  json.at("raw").get_to(result.raw_bytes);
  json.at("stored").get_to(result.exclusive_bytes);
  json.at("reused").get_to(result.borrowed_bytes);
  result.kind = static_cast<StepRecord::Kind>(json.at("kind").get<int>());
  json.at("deltas").get_to(result.deltas);
  json.at("base_due_reason").get_to(result.base_due_reason);
  json.at("commit").get_to(result.commit_micros);
  return result;
}

absl::Status CannotDecode(size_t bytes, absl::string_view why) {
  return absl::InternalError(absl::StrCat("cannot decode a message of ", bytes,
                                          " bytes from another rank: ", why));
}

// The json library throws; nothing of it leaves this file.
template <typename Read>
absl::Status Parse(absl::string_view bytes, Read read) {
  try {
    read(Json::from_cbor(bytes.begin(), bytes.end()));
    return absl::OkStatus();
  } catch (const Json::exception& error) {
    return CannotDecode(bytes.size(), error.what());
  }
}

using Entries = std::vector<std::pair<std::string, std::string>>;

void AppendSize(uint64_t size, std::string* bytes) {
  bytes->append(reinterpret_cast<const char*>(&size), sizeof(size));
}

void AppendWithSize(absl::string_view part, std::string* bytes) {
  AppendSize(part.size(), bytes);
  bytes->append(part.data(), part.size());
}

// These take what is at the beginning of *bytes, and return false when it is
// truncated.
bool TakeSize(absl::string_view* bytes, uint64_t* size) {
  if (bytes->size() < sizeof(*size)) return false;
  std::memcpy(size, bytes->data(), sizeof(*size));
  bytes->remove_prefix(sizeof(*size));
  return true;
}
bool TakeSized(absl::string_view* bytes, absl::string_view* part) {
  uint64_t size = 0;
  if (!TakeSize(bytes, &size) || bytes->size() < size) return false;
  *part = bytes->substr(0, size);
  bytes->remove_prefix(size);
  return true;
}

// Returns the bytes that the entries take in a message, so that its memory is
// allocated once.
uint64_t SizeOf(const Entries& entries) {
  uint64_t bytes = 0;
  for (const auto& [key, value] : entries) {
    bytes += 2 * sizeof(uint64_t) + key.size() + value.size();
  }
  return bytes;
}

// Returns DataLoss where the entries changed on their way: they go into the
// write batch as they are, and a changed one would be committed as if it had
// been saved.
absl::Status CheckEntries(absl::string_view bytes, uint64_t hash) {
  const uint64_t found = HashBytes(bytes);
  if (found == hash) return absl::OkStatus();
  return absl::DataLossError(absl::StrCat(
      "the hash of the ", bytes.size(),
      " bytes of a staged rank's entries for the write batch is 0x",
      absl::Hex(found), ", and was 0x", absl::Hex(hash),
      " when they were sent"));
}

// Returns Internal for entries that are truncated. It is called for bytes whose
// hash was right.
absl::Status TakeEntries(absl::string_view bytes, Entries* entries) {
  while (!bytes.empty()) {
    absl::string_view key;
    absl::string_view value;
    if (!TakeSized(&bytes, &key) || !TakeSized(&bytes, &value)) {
      return absl::InternalError(
          "cannot decode the entries of a staged rank for the write batch: one "
          "is truncated");
    }
    entries->emplace_back(key, value);
  }
  return absl::OkStatus();
}

}  // namespace

std::string Encode(const Announcement& message) {
  return ToBytes({{"error", ToJson(message.error)},
                  {"finish_save", message.finish_save},
                  {"preempted", message.preempted},
                  {"promoted", message.promoted},
                  {"step", message.step},
                  {"kind", static_cast<int>(message.decision.kind)},
                  {"reason", message.decision.reason},
                  {"begin_error", ToJson(message.begin_error)},
                  {"version", ToJson(message.version)},
                  {"whole", message.whole},
                  {"base_reason", message.base_reason}});
}
absl::Status Decode(absl::string_view bytes, Announcement* message) {
  return Parse(bytes, [&](const Json& json) {
    message->error = StatusFrom(json.at("error"));
    json.at("finish_save").get_to(message->finish_save);
    json.at("preempted").get_to(message->preempted);
    json.at("promoted").get_to(message->promoted);
    json.at("step").get_to(message->step);
    message->decision.kind =
        static_cast<SavePolicy::Kind>(json.at("kind").get<int>());
    json.at("reason").get_to(message->decision.reason);
    message->begin_error = StatusFrom(json.at("begin_error"));
    message->version = VersionFrom(json.at("version"));
    json.at("whole").get_to(message->whole);
    json.at("base_reason").get_to(message->base_reason);
  });
}

std::string Encode(const Outcome& message) {
  return ToBytes({{"status", ToJson(message.status)},
                  {"result", ToJson(message.result)},
                  {"retired", message.retired}});
}
absl::Status Decode(absl::string_view bytes, Outcome* message) {
  return Parse(bytes, [&](const Json& json) {
    message->status = StatusFrom(json.at("status"));
    message->result = ResultFrom(json.at("result"));
    json.at("retired").get_to(message->retired);
  });
}

// A SavePart is the hash of the entries, the message proper, and the entries.
// CBOR would copy the entries once more, so they follow it as they are.
std::string Encode(SavePart message) {
  StagedRecord record = std::move(message.staged.record());
  Entries entries = std::exchange(record.inline_entries, {});
  std::string staged;
  if (message.status.ok()) {
    absl::StatusOr<std::string> encoded = EncodeStagedRank(record);
    message.status = encoded.status();
    if (encoded.ok()) staged = *std::move(encoded);
  }
  // A rank that has failed sends its error alone.
  if (!message.status.ok()) entries.clear();
  const std::string proper =
      ToBytes({{"status", ToJson(message.status)}, {"staged", staged}});
  std::string bytes;
  bytes.reserve(2 * sizeof(uint64_t) + proper.size() + SizeOf(entries));
  AppendSize(0, &bytes);  // where the hash goes
  AppendWithSize(proper, &bytes);
  const size_t begin = bytes.size();
  for (const auto& [key, value] : entries) {
    AppendWithSize(key, &bytes);
    AppendWithSize(value, &bytes);
  }
  const uint64_t hash = HashBytes(absl::string_view(bytes).substr(begin));
  std::memcpy(bytes.data(), &hash, sizeof(hash));
  return bytes;
}
absl::Status Decode(absl::string_view bytes, SavePart* message) {
  absl::string_view proper;
  uint64_t hash = 0;
  absl::string_view entries = bytes;
  if (!TakeSize(&entries, &hash) || !TakeSized(&entries, &proper)) {
    return CannotDecode(bytes.size(), "it is truncated");
  }
  std::string staged;
  CKPTDB_RETURN_IF_ERROR(Parse(proper, [&](const Json& json) {
    message->status = StatusFrom(json.at("status"));
    json.at("staged").get_to(staged);
  }));
  if (!message->status.ok()) return absl::OkStatus();
  CKPTDB_RETURN_IF_ERROR(CheckEntries(entries, hash));
  CKPTDB_ASSIGN_OR_RETURN(StagedRecord record, DecodeStagedRank(staged));
  CKPTDB_RETURN_IF_ERROR(TakeEntries(entries, &record.inline_entries));
  message->staged = StagedRank(std::move(record));
  return absl::OkStatus();
}

std::string Encode(const StagedPart& message) {
  return ToBytes(
      {{"status", ToJson(message.status)}, {"staged", message.staged}});
}
absl::Status Decode(absl::string_view bytes, StagedPart* message) {
  return Parse(bytes, [&](const Json& json) {
    message->status = StatusFrom(json.at("status"));
    json.at("staged").get_to(message->staged);
  });
}

std::string Encode(const RestoreTarget& message) {
  return ToBytes(
      {{"error", ToJson(message.error)}, {"version", ToJson(message.version)}});
}
absl::Status Decode(absl::string_view bytes, RestoreTarget* message) {
  return Parse(bytes, [&](const Json& json) {
    message->error = StatusFrom(json.at("error"));
    message->version = VersionFrom(json.at("version"));
  });
}

std::string Encode(const BaseReasons& message) {
  return ToBytes(Json(message));
}
absl::Status Decode(absl::string_view bytes, BaseReasons* message) {
  return Parse(bytes, [&](const Json& json) { json.get_to(*message); });
}

std::string Encode(const AgreedBases& message) {
  return ToBytes(
      {{"status", ToJson(message.status)}, {"bases", Json(message.bases)}});
}
absl::Status Decode(absl::string_view bytes, AgreedBases* message) {
  return Parse(bytes, [&](const Json& json) {
    message->status = StatusFrom(json.at("status"));
    json.at("bases").get_to(message->bases);
  });
}

std::string Encode(const StepRecord::Evaluation::Part& message) {
  return ToBytes({{"processed", message.processed},
                  {"meters", message.meters},
                  {"loader", message.loader}});
}
absl::Status Decode(absl::string_view bytes,
                    StepRecord::Evaluation::Part* message) {
  return Parse(bytes, [&](const Json& json) {
    json.at("processed").get_to(message->processed);
    json.at("meters").get_to(message->meters);
    json.at("loader").get_to(message->loader);
  });
}

std::string Encode(const std::vector<StepRecord::Evaluation::Part>& message) {
  Json parts = Json::array();
  for (const StepRecord::Evaluation::Part& part : message)
    parts.push_back(Encode(part));
  return ToBytes({{"parts", std::move(parts)}});
}
absl::Status Decode(absl::string_view bytes,
                    std::vector<StepRecord::Evaluation::Part>* message) {
  std::vector<std::string> parts;
  CKPTDB_RETURN_IF_ERROR(
      Parse(bytes, [&](const Json& json) { json.at("parts").get_to(parts); }));
  message->resize(parts.size());
  for (size_t i = 0; i < parts.size(); ++i) {
    CKPTDB_RETURN_IF_ERROR(Decode(parts[i], &(*message)[i]));
  }
  return absl::OkStatus();
}

}  // namespace ckptdb::internal
