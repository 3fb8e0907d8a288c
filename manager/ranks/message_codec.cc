// SPDX-License-Identifier: Apache-2.0
#include "manager/ranks/message_codec.h"

#include "absl/strings/cord.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"

namespace ckptdb::internal {

std::string EncodeStatus(const absl::Status& status) {
  if (status.ok()) return "";
  std::map<std::string, std::string> payloads;
  status.ForEachPayload([&](absl::string_view url, const absl::Cord& payload) {
    payloads.emplace(std::string(url), std::string(payload));
  });
  std::string bytes;
  MessageWriter(&bytes).Put(status.code(), status.message(), payloads);
  return bytes;
}

absl::Status DecodeStatus(absl::string_view bytes) {
  if (bytes.empty()) return absl::OkStatus();
  auto code = absl::StatusCode::kOk;
  absl::string_view message;
  std::map<std::string, std::string> payloads;
  MessageReader reader(bytes);
  const bool decoded = reader.Get(&code, &message, &payloads);
  if (!decoded || !reader.rest().empty() || code <= absl::StatusCode::kOk) {
    return absl::InternalError(
        absl::StrCat("cannot decode the status of another rank: \"",
                     absl::CHexEscape(bytes), "\""));
  }
  absl::Status status(code, message);
  for (const auto& [url, payload] : payloads) {
    status.SetPayload(url, absl::Cord(payload));
  }
  return status;
}

absl::Status CannotDecode(size_t bytes) {
  return absl::InternalError(
      absl::StrCat("cannot decode a message of ", bytes,
                   " bytes from another rank; all ranks must run the same "
                   "build"));
}

}  // namespace ckptdb::internal
