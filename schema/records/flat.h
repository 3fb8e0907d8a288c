// SPDX-License-Identifier: Apache-2.0
// FlatBuffers in envelopes, and conversions of their parts; internal to
// schema/.
#ifndef CKPTDB_SCHEMA_RECORDS_FLAT_H_
#define CKPTDB_SCHEMA_RECORDS_FLAT_H_

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "ckptdb_generated.h"
#include "schema/bytes/limits.h"
#include "schema/records/envelope.h"
#include "schema/types.h"

namespace ckptdb::internal {

// Returns a finished builder's FlatBuffer in its envelope.
inline std::string Seal(RecordKind kind,
                        const flatbuffers::FlatBufferBuilder& built,
                        uint16_t format_version = kFormatVersion) {
  return Seal(
      kind,
      absl::string_view(reinterpret_cast<const char*>(built.GetBufferPointer()),
                        built.GetSize()),
      format_version);
}

// A verified FlatBuffer root that owns its memory.
template <typename Table>
class Opened {
 public:
  static absl::StatusOr<Opened> Open(RecordKind kind, absl::string_view bytes) {
    absl::StatusOr<absl::string_view> body = Unseal(kind, bytes);
    if (!body.ok()) return body.status();
    Opened opened;
    // FlatBuffers requires aligned memory. The extra word ensures that it is
    // not empty.
    opened.memory_.assign(body->size() / sizeof(uint64_t) + 1, 0);
    body->copy(reinterpret_cast<char*>(opened.memory_.data()), body->size());
    opened.bytes_ = body->size();
    flatbuffers::Verifier verifier(
        reinterpret_cast<const uint8_t*>(opened.memory_.data()), body->size(),
        kMaxDepth,
        static_cast<flatbuffers::uoffset_t>(body->size() / kLeastTableBytes));
    if (!verifier.VerifyBuffer<Table>(nullptr)) {
      return BadField(kind, "body", "is not a valid FlatBuffer");
    }
    return opened;
  }
  const Table* operator->() const {
    return flatbuffers::GetRoot<Table>(memory_.data());
  }
  // Size of the FlatBuffer. Copies of its parts never exceed it, unless parts
  // are referenced twice, which no encoder does.
  size_t bytes() const { return bytes_; }

 private:
  static constexpr flatbuffers::uoffset_t kMaxDepth = 8;
  // Each table has at least the offset to it and the offset to its vtable.
  static constexpr size_t kLeastTableBytes = 8;
  std::vector<uint64_t> memory_;
  size_t bytes_ = 0;
};

inline absl::string_view ViewOf(const flatbuffers::String* text) {
  return text == nullptr ? absl::string_view()
                         : absl::string_view(text->data(), text->size());
}
inline std::string ToStd(const flatbuffers::String* text) {
  return std::string(ViewOf(text));
}

inline fbs::Version ToFbs(const Version& version) {
  return fbs::Version(version.step, version.attempt);
}
inline Version FromFbs(const fbs::Version& version) {
  return {version.step(), version.attempt()};
}

// Returns 0 for an absent vector.
template <typename T>
size_t SizeOf(const flatbuffers::Vector<T>* vector) {
  return vector == nullptr ? 0 : vector->size();
}

// Copies a vector of numbers that may be absent. Copies bytes because the
// verifier does not check the alignment of elements.
template <typename T>
std::vector<T> ToStd(const flatbuffers::Vector<T>* numbers) {
  std::vector<T> out(SizeOf(numbers));
  if (!out.empty()) {
    std::memcpy(out.data(), numbers->Data(), out.size() * sizeof(T));
  }
  return out;
}

inline std::string BytesOf(const flatbuffers::Vector<uint8_t>* bytes) {
  return bytes == nullptr
             ? std::string()
             : std::string(reinterpret_cast<const char*>(bytes->data()),
                           bytes->size());
}

inline flatbuffers::Offset<flatbuffers::Vector<uint8_t>> AddBytes(
    absl::string_view bytes, flatbuffers::FlatBufferBuilder* builder) {
  return builder->CreateVector(reinterpret_cast<const uint8_t*>(bytes.data()),
                               bytes.size());
}

inline flatbuffers::Offset<flatbuffers::String> AddString(
    absl::string_view text, flatbuffers::FlatBufferBuilder* builder) {
  return builder->CreateString(text.data(), text.size());
}

}  // namespace ckptdb::internal

#endif  // CKPTDB_SCHEMA_RECORDS_FLAT_H_
