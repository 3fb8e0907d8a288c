#include "ckptdb/manager/ranks/call_message.h"

#include <cstring>

#include "absl/strings/str_cat.h"
#include "ckptdb/manager/ranks/status_bytes.h"
#include "ckptdb/schema/status.h"

namespace ckptdb::internal {
namespace {

constexpr size_t kHeaderBytes = 2 + 2 * sizeof(uint64_t);

void AppendNumber(uint64_t number, std::string* bytes) {
  bytes->append(reinterpret_cast<const char*>(&number), sizeof(number));
}

void AppendSized(absl::string_view part, std::string* bytes) {
  AppendNumber(part.size(), bytes);
  bytes->append(part.data(), part.size());
}

bool TakeSized(absl::string_view* bytes, std::string* part) {
  uint64_t size = 0;
  if (bytes->size() < sizeof(size)) return false;
  std::memcpy(&size, bytes->data(), sizeof(size));
  bytes->remove_prefix(sizeof(size));
  if (bytes->size() < size) return false;
  part->assign(bytes->data(), size);
  bytes->remove_prefix(size);
  return true;
}

}  // namespace

std::string DescribeCall(CallKind kind, absl::string_view tag) {
  static constexpr const char* kNames[] = {
      "barrier", "broadcast", "gather", "tell", "all-to-all", "tell each"};
  return absl::StrCat(kNames[static_cast<size_t>(kind)], " ", tag);
}

std::string Encode(const CallMessage& message) {
  const std::string status = EncodeStatus(message.status);
  std::string bytes;
  bytes.reserve(kHeaderBytes + 4 * sizeof(uint64_t) + message.channel.size() +
                message.call.size() + status.size() + message.value.size());
  bytes.push_back(static_cast<char>(message.type));
  bytes.push_back(static_cast<char>(message.kind));
  AppendNumber(message.number, &bytes);
  AppendNumber(uint64_t(absl::ToInt64Microseconds(message.waited)), &bytes);
  AppendSized(message.channel, &bytes);
  AppendSized(message.call, &bytes);
  AppendSized(status, &bytes);
  AppendSized(message.value, &bytes);
  return bytes;
}

absl::Status Decode(absl::string_view bytes, CallMessage* message) {
  absl::Status error = absl::InternalError(absl::StrCat(
      "cannot decode a message of ", bytes.size(),
      " bytes between coordinators; all ranks must run the same build"));
  if (bytes.size() < kHeaderBytes) return error;
  const auto type = static_cast<uint8_t>(bytes[0]);
  const auto kind = static_cast<uint8_t>(bytes[1]);
  if (type > static_cast<uint8_t>(CallMessage::Type::kResendValue) ||
      kind > static_cast<uint8_t>(CallKind::kTellEach)) {
    return error;
  }
  message->type = static_cast<CallMessage::Type>(type);
  message->kind = static_cast<CallKind>(kind);
  std::memcpy(&message->number, bytes.data() + 2, sizeof(message->number));
  int64_t waited = 0;
  std::memcpy(&waited, bytes.data() + 2 + sizeof(message->number),
              sizeof(waited));
  message->waited = absl::Microseconds(waited);
  bytes.remove_prefix(kHeaderBytes);
  std::string status;
  if (!TakeSized(&bytes, &message->channel) ||
      !TakeSized(&bytes, &message->call) || !TakeSized(&bytes, &status) ||
      !TakeSized(&bytes, &message->value) || !bytes.empty()) {
    return error;
  }
  message->status = DecodeStatus(status);
  return absl::OkStatus();
}

}  // namespace ckptdb::internal
