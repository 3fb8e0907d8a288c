#include "ckptdb/manager/messages.h"

#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "ckptdb/manager/status_bytes.h"
#include "ckptdb/schema/status.h"

namespace ckptdb::internal {
namespace {

using Json = nlohmann::json;

// As CBOR, in which a string may have any bytes.
std::string ToBytes(const Json& json) {
  const std::vector<uint8_t> bytes = Json::to_cbor(json);
  return std::string(bytes.begin(), bytes.end());
}

Json ToJson(const absl::Status& status) { return EncodeStatus(status); }
Json ToJson(const Version& version) {
  return Json::array({version.step, version.attempt});
}
Json ToJson(const SaveResult& result) {
  return {{"version", ToJson(result.version)},
          {"raw", result.raw_bytes},
          {"stored", result.stored_bytes},
          {"reused", result.reused_bytes},
          {"kind", static_cast<int>(result.kind)},
          {"deltas", result.deltas},
          {"base_due", result.base_due},
          {"commit", result.commit_micros}};
}

absl::Status StatusFrom(const Json& json) {
  return DecodeStatus(json.get_ref<const std::string&>());
}
Version VersionFrom(const Json& json) {
  return {json.at(0).get<int64_t>(), json.at(1).get<uint32_t>()};
}
SaveResult ResultFrom(const Json& json) {
  SaveResult result;
  result.version = VersionFrom(json.at("version"));
  json.at("raw").get_to(result.raw_bytes);
  json.at("stored").get_to(result.stored_bytes);
  json.at("reused").get_to(result.reused_bytes);
  result.kind = static_cast<StepKind>(json.at("kind").get<int>());
  json.at("deltas").get_to(result.deltas);
  json.at("base_due").get_to(result.base_due);
  json.at("commit").get_to(result.commit_micros);
  return result;
}

// The json library throws; nothing of it leaves this file.
template <typename Read>
absl::Status Parse(absl::string_view bytes, Read read) {
  try {
    read(Json::from_cbor(bytes.begin(), bytes.end()));
    return absl::OkStatus();
  } catch (const Json::exception& error) {
    return absl::InternalError(
        absl::StrCat("a message of ", bytes.size(),
                     " bytes from another rank is none: ", error.what()));
  }
}

}  // namespace

std::string Encode(const Announcement& message) {
  return ToBytes({{"error", ToJson(message.error)},
                  {"settle", message.settle},
                  {"preempted", message.preempted},
                  {"promoted", message.promoted},
                  {"step", message.step},
                  {"kind", static_cast<int>(message.decision.kind)},
                  {"why", message.decision.why},
                  {"version", ToJson(message.version)},
                  {"tickets", message.tickets},
                  {"whole", message.whole},
                  {"base_reason", message.base_reason}});
}
absl::Status Decode(absl::string_view bytes, Announcement* message) {
  return Parse(bytes, [&](const Json& json) {
    message->error = StatusFrom(json.at("error"));
    json.at("settle").get_to(message->settle);
    json.at("preempted").get_to(message->preempted);
    json.at("promoted").get_to(message->promoted);
    json.at("step").get_to(message->step);
    message->decision.kind = static_cast<SaveKind>(json.at("kind").get<int>());
    json.at("why").get_to(message->decision.why);
    message->version = VersionFrom(json.at("version"));
    json.at("tickets").get_to(message->tickets);
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

std::string Encode(const EvaluationPart& message) {
  return ToBytes({{"processed", message.processed},
                  {"meters", message.meters},
                  {"loader", message.loader}});
}
absl::Status Decode(absl::string_view bytes, EvaluationPart* message) {
  return Parse(bytes, [&](const Json& json) {
    json.at("processed").get_to(message->processed);
    json.at("meters").get_to(message->meters);
    json.at("loader").get_to(message->loader);
  });
}

std::string Encode(const std::vector<EvaluationPart>& message) {
  Json parts = Json::array();
  for (const EvaluationPart& part : message) parts.push_back(Encode(part));
  return ToBytes({{"parts", std::move(parts)}});
}
absl::Status Decode(absl::string_view bytes,
                    std::vector<EvaluationPart>* message) {
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
