// SPDX-License-Identifier: Apache-2.0
// Fixed-width numbers and strings written to bytes and read back, for state
// that is saved as a blob. Little-endian, like the machines this runs on.
#ifndef CKPTDB_EXAMPLES_TRAIN_CTR_BYTES_H_
#define CKPTDB_EXAMPLES_TRAIN_CTR_BYTES_H_

#include <cstring>
#include <string>
#include <type_traits>

#include "absl/strings/string_view.h"

namespace train_ctr {

class ByteWriter {
 public:
  template <typename T>
  void Put(T value) {
    static_assert(std::is_arithmetic_v<T>);
    bytes_.append(reinterpret_cast<const char*>(&value), sizeof value);
  }
  void PutString(absl::string_view text) {
    Put(static_cast<uint64_t>(text.size()));
    bytes_.append(text.data(), text.size());
  }
  std::string Take() { return std::move(bytes_); }

 private:
  std::string bytes_;
};

// Reads values from bytes. If the bytes are too short every read gives zero,
// and ok() is false.
class ByteReader {
 public:
  explicit ByteReader(absl::string_view bytes) : bytes_(bytes) {}

  template <typename T>
  T Get() {
    static_assert(std::is_arithmetic_v<T>);
    T value{};
    const absl::string_view from = GetBytes(sizeof value);
    if (!from.empty()) std::memcpy(&value, from.data(), sizeof value);
    return value;
  }
  std::string GetString() { return std::string(GetBytes(Get<uint64_t>())); }

  bool ok() const { return ok_; }
  // Returns whether everything was read, and nothing was missing.
  bool complete() const { return ok_ && bytes_.empty(); }

 private:
  absl::string_view GetBytes(uint64_t count) {
    if (!ok_ || count > bytes_.size()) {
      ok_ = false;
      return {};
    }
    const absl::string_view front = bytes_.substr(0, count);
    bytes_.remove_prefix(count);
    return front;
  }

  absl::string_view bytes_;
  bool ok_ = true;
};

}  // namespace train_ctr

#endif  // CKPTDB_EXAMPLES_TRAIN_CTR_BYTES_H_
