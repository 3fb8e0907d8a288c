#include "ckptdb/manager/ranks/call_message.h"

#include <cstring>

#include "absl/strings/str_cat.h"
#include "ckptdb/manager/ranks/status_bytes.h"
#include "ckptdb/schema/status.h"

namespace ckptdb::internal {
namespace {

constexpr size_t kHeaderBytes = 2 + 3 * sizeof(uint64_t);

void AppendNumber(uint64_t number, std::string* bytes) {
  bytes->append(reinterpret_cast<const char*>(&number), sizeof(number));
}

void AppendDuration(absl::Duration duration, std::string* bytes) {
  AppendNumber(uint64_t(absl::ToInt64Microseconds(duration)), bytes);
}

// Returns the number at the start of `bytes`, which has one, and removes it.
uint64_t TakeNumber(absl::string_view* bytes) {
  uint64_t number = 0;
  std::memcpy(&number, bytes->data(), sizeof(number));
  bytes->remove_prefix(sizeof(number));
  return number;
}

absl::Duration TakeDuration(absl::string_view* bytes) {
  return absl::Microseconds(int64_t(TakeNumber(bytes)));
}

void AppendSized(absl::string_view part, std::string* bytes) {
  AppendNumber(part.size(), bytes);
  bytes->append(part.data(), part.size());
}

bool TakeSized(absl::string_view* bytes, std::string* part) {
  if (bytes->size() < sizeof(uint64_t)) return false;
  const uint64_t size = TakeNumber(bytes);
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
  AppendDuration(message.waited, &bytes);
  AppendDuration(message.silence, &bytes);
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
  if (type > static_cast<uint8_t>(CallMessage::Type::kHeard) ||
      kind > static_cast<uint8_t>(CallKind::kTellEach)) {
    return error;
  }
  message->type = static_cast<CallMessage::Type>(type);
  message->kind = static_cast<CallKind>(kind);
  bytes.remove_prefix(2);
  message->number = TakeNumber(&bytes);
  message->waited = TakeDuration(&bytes);
  message->silence = TakeDuration(&bytes);
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
