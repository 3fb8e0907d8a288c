// SPDX-License-Identifier: Apache-2.0
// The codec of the messages between ranks; internal to manager/.
//
// A message names its fields once, for both directions; it may be a field of
// another one:
//
//   template <>
//   struct Fields<RestoreTarget> {
//     static auto Of(auto& m) { return std::tie(m.error, m.version); }
//   };
//
//   const std::string bytes = EncodeMessage(target);
//   CKPTDB_RETURN_IF_ERROR(DecodeMessage(bytes, &target));
//
// Numbers are encoded as they are in memory, without padding; strings and lists
// as 8 bytes of size followed by their contents. All ranks run the same build,
// and the bytes are not stored.
#ifndef CKPTDB_MANAGER_RANKS_MESSAGE_CODEC_H_
#define CKPTDB_MANAGER_RANKS_MESSAGE_CODEC_H_

#include <cstdint>
#include <cstring>
#include <map>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "schema/types.h"

namespace ckptdb::internal {

// The code, the message and the payloads, by their type URLs. Empty for OK.
std::string EncodeStatus(const absl::Status& status);
// Returns Internal for bytes that EncodeStatus did not produce.
absl::Status DecodeStatus(absl::string_view bytes);

// Specialized for each message.
template <typename Message>
struct Fields;

template <>
struct Fields<Version> {
  static auto Of(auto& m) { return std::tie(m.step, m.attempt); }
};

template <typename T>
concept HasFields = requires(T& message) {
  Fields<T>::Of(message);
};

template <typename T>
concept PlainNumber = std::is_arithmetic_v<T> || std::is_enum_v<T>;

// Appends values to *bytes.
class MessageWriter {
 public:
  explicit MessageWriter(std::string* bytes) : bytes_(bytes) {}

  template <typename... Values>
  void Put(const Values&... values) {
    (PutOne(values), ...);
  }

 private:
  template <PlainNumber Number>
  void PutOne(Number number) {
    bytes_->append(reinterpret_cast<const char*>(&number), sizeof(number));
  }
  void PutOne(absl::string_view value) {
    PutOne(uint64_t{value.size()});
    bytes_->append(value.data(), value.size());
  }
  void PutOne(const std::string& value) { PutOne(absl::string_view(value)); }
  void PutOne(const absl::Status& status) { PutOne(EncodeStatus(status)); }
  void PutOne(absl::Duration duration) {
    PutOne(absl::ToInt64Microseconds(duration));
  }
  template <typename First, typename Second>
  void PutOne(const std::pair<First, Second>& pair) {
    Put(pair.first, pair.second);
  }
  template <typename Value>
  void PutOne(const std::vector<Value>& values) {
    PutList(values);
  }
  template <typename Key, typename Value>
  void PutOne(const std::map<Key, Value>& values) {
    PutList(values);
  }
  template <HasFields Message>
  void PutOne(const Message& message) {
    std::apply([this](const auto&... fields) { this->Put(fields...); },
               Fields<Message>::Of(message));
  }
  template <typename List>
  void PutList(const List& list) {
    PutOne(uint64_t{list.size()});
    for (const auto& each : list) PutOne(each);
  }

  std::string* const bytes_;
};

// Reads the output of a MessageWriter. If the bytes are truncated, ok() is
// false and all values read are arbitrary.
class MessageReader {
 public:
  explicit MessageReader(absl::string_view bytes) : rest_(bytes) {}

  template <typename... Values>
  bool Get(Values*... values) {
    (GetOne(values), ...);
    return ok_;
  }
  bool ok() const { return ok_; }
  // The bytes not yet read.
  absl::string_view rest() const { return rest_; }

 private:
  absl::string_view TakeBytes(uint64_t size) {
    ok_ = ok_ && size <= rest_.size();
    if (!ok_) return {};
    const absl::string_view bytes = rest_.substr(0, size);
    rest_.remove_prefix(size);
    return bytes;
  }
  template <PlainNumber Number>
  void GetOne(Number* number) {
    const absl::string_view bytes = TakeBytes(sizeof(*number));
    if (ok_) std::memcpy(number, bytes.data(), sizeof(*number));
  }
  void GetOne(bool* flag) {
    uint8_t byte = 0;
    GetOne(&byte);
    *flag = byte != 0;
  }
  // Refers to the bytes, which the reader does not own.
  void GetOne(absl::string_view* value) {
    uint64_t size = 0;
    GetOne(&size);
    *value = TakeBytes(size);
  }
  void GetOne(std::string* value) {
    absl::string_view bytes;
    GetOne(&bytes);
    value->assign(bytes.data(), bytes.size());
  }
  void GetOne(absl::Status* status) {
    absl::string_view bytes;
    GetOne(&bytes);
    *status = DecodeStatus(bytes);
  }
  void GetOne(absl::Duration* duration) {
    int64_t micros = 0;
    GetOne(&micros);
    *duration = absl::Microseconds(micros);
  }
  template <typename First, typename Second>
  void GetOne(std::pair<First, Second>* pair) {
    Get(&pair->first, &pair->second);
  }
  // The size is not trusted, so nothing is reserved for it.
  template <typename Value>
  void GetOne(std::vector<Value>* values) {
    uint64_t size = 0;
    GetOne(&size);
    values->clear();
    for (uint64_t i = 0; i < size && ok_; ++i) GetOne(&values->emplace_back());
  }
  template <typename Key, typename Value>
  void GetOne(std::map<Key, Value>* values) {
    uint64_t size = 0;
    GetOne(&size);
    values->clear();
    for (uint64_t i = 0; i < size && ok_; ++i) {
      std::pair<Key, Value> each;
      GetOne(&each);
      values->insert(std::move(each));
    }
  }
  template <HasFields Message>
  void GetOne(Message* message) {
    std::apply([this](auto&... fields) { this->Get(&fields...); },
               Fields<Message>::Of(*message));
  }

  absl::string_view rest_;
  bool ok_ = true;
};

// Encodes a message, or a list of them. Initially allocates `expected_bytes`.
template <typename Message>
std::string EncodeMessage(const Message& message, size_t expected_bytes = 0) {
  std::string bytes;
  bytes.reserve(expected_bytes);
  MessageWriter(&bytes).Put(message);
  return bytes;
}

// Returns the error of a message of `bytes` bytes.
absl::Status CannotDecode(size_t bytes);

// Returns Internal for bytes that are truncated, or longer than the message.
template <typename Message>
absl::Status DecodeMessage(absl::string_view bytes, Message* message) {
  MessageReader reader(bytes);
  const bool decoded = reader.Get(message) && reader.rest().empty();
  return decoded ? absl::OkStatus() : CannotDecode(bytes.size());
}

}  // namespace ckptdb::internal

#endif  // CKPTDB_MANAGER_RANKS_MESSAGE_CODEC_H_
