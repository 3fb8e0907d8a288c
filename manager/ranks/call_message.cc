// SPDX-License-Identifier: Apache-2.0
#include "manager/ranks/call_message.h"

#include "absl/strings/str_cat.h"
#include "manager/ranks/message_codec.h"
#include "schema/status.h"

namespace ckptdb::internal {

template <>
struct Fields<CallMessage> {
  static auto Of(auto& m) {
    return std::tie(m.type, m.kind, m.number, m.waited, m.silence, m.channel,
                    m.call, m.status, m.value);
  }
};

std::string DescribeCall(CallKind kind, absl::string_view tag) {
  static constexpr const char* kNames[] = {
      "barrier",    "broadcast", "gather",    "tell",
      "all-to-all", "tell each", "all-gather"};
  return absl::StrCat(kNames[static_cast<size_t>(kind)], " ", tag);
}

std::string Encode(const CallMessage& message) {
  // Enough for the other fields, unless the status is long.
  constexpr size_t kOthers = 256;
  return EncodeMessage(message, kOthers + message.channel.size() +
                                    message.call.size() + message.value.size());
}

absl::Status Decode(absl::string_view bytes, CallMessage* message) {
  CKPTDB_RETURN_IF_ERROR(DecodeMessage(bytes, message));
  if (message->type <= CallMessage::Type::kHeard &&
      message->kind <= CallKind::kAllGather) {
    return absl::OkStatus();
  }
  return CannotDecode(bytes.size());
}

}  // namespace ckptdb::internal
