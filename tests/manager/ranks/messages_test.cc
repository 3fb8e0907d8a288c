// SPDX-License-Identifier: Apache-2.0
// The messages between the ranks of a manager.
#include "manager/ranks/messages.h"

#include "schema/bytes/keys.h"
#include "schema/records/staged.h"
#include "schema/types.h"
#include "tests/support/test.h"

namespace ckptdb::testing {
namespace {

using internal::SavePart;

SavePart SamplePart() {
  SavePart part;
  part.staged.record().uuid = std::string(16, 'u');
  part.staged.record().version = {30, 9};
  part.staged.record().rank = 1;
  part.staged.record().world_size = 2;
  part.staged.record().rank_record = std::string("\0record", 7);
  for (uint32_t chunk = 0; chunk < 3; ++chunk) {
    std::string key = ItemPrefix({30, 9}, 1, Item::Kind::kTensor, "w");
    AppendChunk(chunk, &key);
    part.staged.record().inline_entries.emplace_back(
        key, std::string(chunk * 1000, '\0'));
  }
  return part;
}

TEST(SavePartMessage, RoundTrips) {
  const SavePart sent = SamplePart();
  SavePart received;
  ASSERT_OK(internal::Decode(Encode(sent), &received));
  EXPECT_OK(received.status);
  EXPECT_EQ(received.staged, sent.staged);
}

TEST(SavePartMessage, OfAFailedRankHasOnlyTheError) {
  SavePart sent = SamplePart();
  sent.status = absl::ResourceExhaustedError("no room");
  const std::string bytes = Encode(sent);
  EXPECT_LT(bytes.size(), 200U);
  SavePart received;
  ASSERT_OK(internal::Decode(bytes, &received));
  EXPECT_EQ(received.status, sent.status);
  EXPECT_EQ(received.staged, StagedRank());
}

TEST(SavePartMessage, OfAnInvalidPartHasTheError) {
  SavePart sent = SamplePart();
  sent.staged.record().rank_record.clear();
  SavePart received;
  ASSERT_OK(internal::Decode(Encode(sent), &received));
  EXPECT_THAT(received.status, InvalidArgument("rank record"));
}

TEST(SavePartMessage, RejectsEveryCut) {
  const std::string bytes = Encode(SamplePart());
  for (size_t length = 0; length < bytes.size(); ++length) {
    SCOPED_TRACE(length);
    SavePart received;
    EXPECT_THAT(
        internal::Decode(absl::string_view(bytes).substr(0, length), &received),
        AnyOf(Internal(absl::StrCat(length, " bytes")),
              DataLoss("of a staged rank")));
  }
}

TEST(SavePartMessage, RejectsFlippedBits) {
  std::string bytes = Encode(SamplePart());
  // The last entry has 2,000 bytes of value.
  for (size_t i = 0; i < 2000; i += 7) {
    char& byte = bytes[bytes.size() - 1 - i];
    byte ^= 1;
    SavePart received;
    EXPECT_THAT(internal::Decode(bytes, &received),
                DataLoss("of a staged rank"));
    byte ^= 1;
  }
}

TEST(AnnouncementMessage, RoundTripsAndRejectsEveryCut) {
  internal::Announcement sent;
  sent.error = absl::NotFoundError("no step");
  sent.finish_save = true;
  sent.step = 300;
  sent.decision = {SavePolicy::Kind::kEphemeral, "every 10 steps"};
  sent.plan = {50, 99, 400};
  sent.version = {300, 7};
  sent.whole = false;
  sent.parent = {200, 5};
  sent.base_reason = std::string("\0x", 2);
  const std::string bytes = Encode(sent);
  internal::Announcement received;
  ASSERT_OK(internal::Decode(bytes, &received));
  EXPECT_EQ(received.error, sent.error);
  EXPECT_TRUE(received.finish_save);
  EXPECT_FALSE(received.preempted);
  EXPECT_EQ(received.step, 300);
  EXPECT_EQ(received.decision, sent.decision);
  EXPECT_EQ(received.plan.begin_in, 50);
  EXPECT_EQ(received.plan.end_in, 99);
  EXPECT_EQ(received.plan.due_step, 400);
  EXPECT_EQ(received.version, sent.version);
  EXPECT_FALSE(received.whole);
  EXPECT_EQ(received.parent, sent.parent);
  EXPECT_EQ(received.base_reason, sent.base_reason);
  for (size_t length = 0; length < bytes.size(); ++length) {
    EXPECT_THAT(
        internal::Decode(absl::string_view(bytes).substr(0, length), &received),
        Internal(absl::StrCat(length, " bytes")));
  }
  EXPECT_THAT(internal::Decode(bytes + "x", &received),
              Internal("cannot decode"));
}

// A size that is far larger than the message allocates nothing.
TEST(EvaluationPartsMessage, RejectsHugeSizes) {
  internal::EvaluationParts sent;
  sent.parts = {{5, "meters", "loader"}, {6, "", "end"}};
  std::string bytes = Encode(sent);
  internal::EvaluationParts received;
  ASSERT_OK(internal::Decode(bytes, &received));
  EXPECT_EQ(received.parts, sent.parts);
  // The size of the list follows the 8 bytes of the empty status.
  for (size_t i = 8; i < 16; ++i) bytes[i] = '\xff';
  EXPECT_THAT(internal::Decode(bytes, &received), Internal("cannot decode"));
}

TEST(AgreedBasesMessage, RoundTrips) {
  internal::AgreedBases sent;
  sent.status = absl::DeadlineExceededError("rank 3 of 4 is missing");
  sent.bases = {{"user", "its rows were replaced"}, {"item", ""}};
  internal::AgreedBases received;
  ASSERT_OK(internal::Decode(Encode(sent), &received));
  EXPECT_EQ(received.status, sent.status);
  EXPECT_EQ(received.bases, sent.bases);
}

}  // namespace
}  // namespace ckptdb::testing
