// SPDX-License-Identifier: Apache-2.0
#include "schema/records/envelope.h"

#include <xxhash.h>

#include <bit>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "schema/bytes/limits.h"
#include "schema/status.h"

namespace ckptdb::internal {
namespace {

static_assert(std::endian::native == std::endian::little,
              "the bytes of a store are little-endian");

constexpr uint32_t kMagic = 0x44524b43;  // "CKRD"

struct Envelope {
  uint32_t magic;
  uint16_t kind;
  uint16_t format_version;
  uint64_t hash;
};
static_assert(sizeof(Envelope) == kEnvelopeBytes);

// Hashes the body, seeded with the bytes before the hash: a flipped bit of the
// version is then reported as damage, not as a newer format.
uint64_t HashOf(const Envelope& envelope, absl::string_view body) {
  uint64_t seed = 0;
  std::memcpy(&seed, &envelope, sizeof(seed));
  return XXH3_64bits_withSeed(body.data(), body.size(), seed);
}

// Checks magic, size and hash, which are the same in all versions of the
// format, so that damage is detected before the version is examined.
absl::Status CheckIntact(RecordKind kind, const Envelope& envelope,
                         absl::string_view body) {
  if (envelope.magic != kMagic) {
    return BadField(
        kind, "magic",
        absl::StrCat("0x", absl::Hex(envelope.magic),
                     " is invalid; expected 0x", absl::Hex(kMagic)));
  }
  CKPTDB_RETURN_IF_ERROR(CheckBodyBytes(kind, body.size()));
  const uint64_t hash = HashOf(envelope, body);
  if (hash == envelope.hash) return absl::OkStatus();
  return BadField(kind, "hash",
                  absl::StrCat("0x", absl::Hex(envelope.hash),
                               " does not match the bytes, whose hash is 0x",
                               absl::Hex(hash)));
}

}  // namespace

absl::string_view RecordName(RecordKind kind) {
  switch (kind) {
    case RecordKind::kStep:
      return "step record";
    case RecordKind::kRank:
      return "rank record";
    case RecordKind::kAttempt:
      return "attempt record";
    case RecordKind::kRoot:
      return "root record";
    case RecordKind::kLease:
      return "lease";
    case RecordKind::kTicket:
      return "ticket";
    case RecordKind::kStagedRank:
      return "staged rank";
    case RecordKind::kEvaluation:
      return "evaluation record";
    case RecordKind::kPost:
      return "post";
    case RecordKind::kRemoteFormat:
      return "format of the remote";
    case RecordKind::kRemoteVersion:
      return "version object";
    case RecordKind::kRemoteCatalog:
      return "remote catalog";
  }
  return "record";
}

absl::Status BadField(RecordKind kind, absl::string_view field,
                      absl::string_view why) {
  return absl::DataLossError(
      absl::StrCat(RecordName(kind), ": ", field, " ", why));
}

absl::Status CheckBodyBytes(RecordKind kind, uint64_t bytes) {
  // These contain whole records.
  const bool carries_records = kind == RecordKind::kTicket ||
                               kind == RecordKind::kStagedRank ||
                               kind == RecordKind::kRemoteVersion;
  const uint64_t limit = carries_records ? kMaxTransferBytes : kMaxRecordBytes;
  if (bytes <= limit) return absl::OkStatus();
  return BadField(
      kind, "size",
      absl::StrCat(bytes, " exceeds the limit of ", limit, " bytes"));
}

// The kind and the version are set before the hash, which depends on them.
std::string Seal(RecordKind kind, absl::string_view body,
                 uint16_t format_version) {
  Envelope envelope{kMagic, static_cast<uint16_t>(kind), format_version, 0};
  envelope.hash = HashOf(envelope, body);
  std::string bytes(kEnvelopeBytes + body.size(), '\0');
  std::memcpy(bytes.data(), &envelope, sizeof(envelope));
  body.copy(bytes.data() + kEnvelopeBytes, body.size());
  return bytes;
}

absl::StatusOr<absl::string_view> Unseal(RecordKind kind,
                                         absl::string_view bytes) {
  if (bytes.size() < kEnvelopeBytes) {
    return BadField(
        kind, "size",
        absl::StrCat(bytes.size(), " is too small; the envelope alone has ",
                     kEnvelopeBytes, " bytes"));
  }
  Envelope envelope;
  std::memcpy(&envelope, bytes.data(), sizeof(envelope));
  const absl::string_view body = bytes.substr(kEnvelopeBytes);
  CKPTDB_RETURN_IF_ERROR(CheckIntact(kind, envelope, body));
  // Only rank records have newer versions: see "Records" in docs/format.md.
  const uint16_t newest =
      kind == RecordKind::kRank ? kShardsFormatVersion : kFormatVersion;
  if (envelope.format_version > newest) {
    return absl::FailedPreconditionError(absl::StrCat(
        RecordName(kind), ": format version ", envelope.format_version,
        " is newer than ", newest,
        ", the newest that this library reads; use a newer library"));
  }
  if (envelope.format_version == 0) {
    return absl::DataLossError(absl::StrCat(
        RecordName(kind), ": invalid format version 0; versions start at 1"));
  }
  // The kind is compared last, because a newer version may have unknown kinds.
  if (envelope.kind != static_cast<uint16_t>(kind)) {
    return BadField(kind, "kind",
                    absl::StrCat(envelope.kind, " is wrong; expected ",
                                 static_cast<uint16_t>(kind)));
  }
  return body;
}

}  // namespace ckptdb::internal
