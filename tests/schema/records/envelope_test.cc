// SPDX-License-Identifier: Apache-2.0
// The envelope, and damage that must be detected in records of every kind: a
// flipped bit, truncation, another kind, a newer format.
#include "schema/records/envelope.h"

#include <cstring>

#include "absl/strings/escaping.h"
#include "schema/bytes/limits.h"
#include "schema/records/evaluation.h"
#include "schema/records/records.h"
#include "schema/records/staged.h"
#include "schema/types.h"
#include "tests/schema/samples.h"
#include "tests/support/test.h"

namespace ckptdb::testing {
namespace {

using internal::kEnvelopeBytes;
using internal::RecordKind;
using internal::Seal;
using internal::Unseal;

struct Kind {
  RecordKind kind;
  std::string name;
  std::string bytes;  // a sample
  std::function<absl::Status(absl::string_view)> decode;
};

template <typename Record>
Kind KindOf(RecordKind kind, std::string name,
            const absl::StatusOr<std::string>& bytes,
            absl::StatusOr<Record> (*decode)(absl::string_view)) {
  return {kind, std::move(name), bytes.value(),
          [decode](auto sealed) { return decode(sealed).status(); }};
}

std::vector<Kind> Kinds() {
  return {
      KindOf(RecordKind::kStep, "step record", EncodeStepRecord(SampleStep()),
             DecodeStepRecord),
      KindOf(RecordKind::kRank, "rank record", EncodeRankRecord(SampleRank()),
             DecodeRankRecord),
      KindOf(RecordKind::kAttempt, "attempt record",
             EncodeAttemptRecord(SampleAttempt()), DecodeAttemptRecord),
      KindOf(RecordKind::kRoot, "root record", EncodeRootRecord(SampleRoot()),
             DecodeRootRecord),
      KindOf(RecordKind::kLease, "lease", EncodeLease(SampleLease()),
             DecodeLease),
      KindOf(RecordKind::kTicket, "ticket", EncodeTicket(SampleTicket()),
             DecodeTicket),
      KindOf(RecordKind::kStagedRank, "staged rank",
             EncodeStagedRank(SampleStagedRank()), DecodeStagedRank),
      KindOf(RecordKind::kEvaluation, "evaluation record",
             EncodeEvaluationRecord(SampleEvaluation()),
             DecodeEvaluationRecord),
      KindOf(RecordKind::kPost, "post", EncodePost(SamplePost()), DecodePost)};
}

auto IsLoss(const std::string& record, const std::string& words) {
  return DataLoss(StartsWith(record + ": "), words);
}

TEST(Envelope, FirstBytes) {
  const std::string bytes = Seal(RecordKind::kLease, "body");
  EXPECT_EQ(absl::BytesToHexString(bytes.substr(0, 8)), "434b524405000100");
  EXPECT_EQ(bytes.substr(kEnvelopeBytes), "body");
  EXPECT_EQ(Unseal(RecordKind::kLease, bytes).value(), "body");
}

TEST(Envelope, HashCoversTheHeader) {
  const std::string bytes = Seal(RecordKind::kLease, "body");
  std::string newer = bytes;
  newer[6] = 2;
  EXPECT_THAT(Unseal(RecordKind::kLease, newer), IsLoss("lease", "hash 0x"));
  std::string other = bytes;
  other[4] = static_cast<char>(RecordKind::kRoot);
  EXPECT_THAT(Unseal(RecordKind::kRoot, other),
              IsLoss("root record", "hash 0x"));
}

TEST(Envelope, NamesTheWrongField) {
  std::string bytes = Seal(RecordKind::kStep, "body");
  EXPECT_THAT(Unseal(RecordKind::kStep, bytes.substr(0, 15)),
              IsLoss("step record",
                     "size 15 is too small; the envelope alone has 16 bytes"));
  bytes[0] = 'X';
  EXPECT_THAT(Unseal(RecordKind::kStep, bytes),
              IsLoss("step record",
                     "magic 0x44524b58 is invalid; expected 0x44524b43"));
  bytes[0] = 'C';
  EXPECT_THAT(Unseal(RecordKind::kRank, bytes),
              IsLoss("rank record", "kind 1 is wrong; expected 2"));
  EXPECT_THAT(Unseal(RecordKind::kStep, Seal(RecordKind::kStep, "body", 0)),
              IsLoss("step record", "invalid format version 0"));
  bytes[8] = static_cast<char>(bytes[8] + 1);
  EXPECT_THAT(
      Unseal(RecordKind::kStep, bytes),
      IsLoss("step record", " does not match the bytes, whose hash is "));
}

TEST(Envelope, BytesAtAndOverTheLimit) {
  std::string body(kMaxRecordBytes, 'b');
  EXPECT_OK(Unseal(RecordKind::kStep, Seal(RecordKind::kStep, body)));
  body.pop_back();
  EXPECT_OK(Unseal(RecordKind::kStep, Seal(RecordKind::kStep, body)));
  body.append("bb");
  EXPECT_THAT(Unseal(RecordKind::kStep, Seal(RecordKind::kStep, body)),
              IsLoss("step record",
                     "size 268435457 exceeds the limit of 268435456 bytes"));
}

TEST(Records, TheSamplesDecode) {
  for (const Kind& each : Kinds()) EXPECT_OK(each.decode(each.bytes));
}

TEST(Records, RejectsANewerFormatWithBothVersions) {
  for (const Kind& each : Kinds()) {
    const uint16_t newest =
        each.kind == RecordKind::kRank ? kShardsFormatVersion : kFormatVersion;
    const std::string newer =
        Seal(each.kind, absl::string_view(each.bytes).substr(kEnvelopeBytes),
             newest + 1);
    EXPECT_THAT(
        each.decode(newer),
        StatusIs(absl::StatusCode::kFailedPrecondition,
                 absl::StrCat(each.name, ": format version ", newest + 1,
                              " is newer than ", newest,
                              ", the newest that this library reads; use a "
                              "newer library")));
  }
}

TEST(Records, DetectsEveryFlippedBit) {
  for (const Kind& each : Kinds()) {
    for (size_t bit = 0; bit < each.bytes.size() * 8; ++bit) {
      std::string flipped = each.bytes;
      flipped[bit / 8] = static_cast<char>(flipped[bit / 8] ^ (1 << bit % 8));
      ASSERT_THAT(each.decode(flipped),
                  IsLoss(each.name, bit < 32 ? "magic 0x" : "hash 0x"))
          << "bit " << bit;
    }
  }
}

TEST(Records, DetectsEveryTruncation) {
  for (const Kind& each : Kinds()) {
    for (size_t bytes = 0; bytes < each.bytes.size(); ++bytes) {
      ASSERT_THAT(
          each.decode(each.bytes.substr(0, bytes)),
          IsLoss(each.name, bytes < kEnvelopeBytes ? "size " : "hash 0x"))
          << bytes << " bytes";
    }
  }
}

TEST(Records, RejectsRecordsOfAnotherKind) {
  for (const Kind& each : Kinds()) {
    for (const Kind& other : Kinds()) {
      if (other.kind == each.kind) continue;
      EXPECT_THAT(
          each.decode(other.bytes),
          IsLoss(each.name, "kind " +
                                std::to_string(static_cast<int>(other.kind)) +
                                " is wrong; expected "));
    }
  }
}

// With a valid hash, a body that is not a FlatBuffer, or another record's.
TEST(Records, RejectsInvalidFlatBuffers) {
  for (const Kind& each : Kinds()) {
    for (const std::string& body :
         {std::string(), std::string("x"), std::string(1000, '\xff'),
          std::string(64, '\0')}) {
      EXPECT_THAT(each.decode(Seal(each.kind, body)),
                  IsLoss(each.name, "body is not a valid FlatBuffer"));
    }
  }
}

// A flipped bit with a corrected hash gives another record or an error; never a
// crash.
TEST(Records, FlipsAndTruncationsPastTheHashAreDataLossOrAnotherRecord) {
  for (const Kind& each : Kinds()) {
    const std::string body = each.bytes.substr(kEnvelopeBytes);
    const auto check = [&](const std::string& changed) {
      const absl::Status status = each.decode(Seal(each.kind, changed));
      if (!status.ok()) {
        ASSERT_THAT(status, IsLoss(each.name, ""));
      }
    };
    for (size_t bit = 0; bit < body.size() * 8; ++bit) {
      std::string flipped = body;
      flipped[bit / 8] = static_cast<char>(flipped[bit / 8] ^ (1 << bit % 8));
      check(flipped);
    }
    for (size_t bytes = 0; bytes < body.size(); ++bytes) {
      check(body.substr(0, bytes));
    }
  }
}

}  // namespace
}  // namespace ckptdb::testing
