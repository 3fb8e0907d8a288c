// SPDX-License-Identifier: Apache-2.0
#include "schema/records/staged.h"

#include <functional>
#include <random>
#include <string>

#include "schema/records/record_checks.h"
#include "schema/types.h"
#include "tests/schema/samples.h"
#include "tests/support/seed.h"
#include "tests/support/status_matchers.h"

namespace ckptdb {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using testing::SampleEntryKey;
using testing::SampleStagedRank;
using testing::SampleTicket;
using ::testing::StartsWith;
using testing::StatusIs;

absl::StatusOr<internal::TicketRecord> Changed(
    const std::function<void(internal::TicketRecord*)>& change) {
  internal::TicketRecord ticket = SampleTicket();
  change(&ticket);
  return DecodeTicket(internal::EncodeUnchecked(ticket));
}

absl::StatusOr<internal::StagedRecord> Changed(
    const std::function<void(internal::StagedRecord*)>& change) {
  internal::StagedRecord staged = SampleStagedRank();
  change(&staged);
  return DecodeStagedRank(internal::EncodeUnchecked(staged));
}

void ExpectBadTicket(const std::function<void(internal::TicketRecord*)>& change,
                     const std::string& words) {
  EXPECT_THAT(Changed(change),
              StatusIs(absl::StatusCode::kDataLoss,
                       AllOf(StartsWith("ticket: "), HasSubstr(words))));
}

void ExpectBadRank(const std::function<void(internal::StagedRecord*)>& change,
                   const std::string& words) {
  EXPECT_THAT(Changed(change),
              StatusIs(absl::StatusCode::kDataLoss,
                       AllOf(StartsWith("staged rank: "), HasSubstr(words))));
}

TEST(Ticket, RoundTripOfAllFields) {
  ASSERT_OK_AND_ASSIGN(const internal::TicketRecord back,
                       DecodeTicket(internal::EncodeUnchecked(SampleTicket())));
  EXPECT_EQ(back, SampleTicket());
}

TEST(Ticket, RoundTripWithoutSlicesAndParent) {
  internal::TicketRecord ticket = SampleTicket();
  ticket.slices.reset();
  ticket.parent.reset();
  ticket.parent_tables.reset();
  ASSERT_OK_AND_ASSIGN(const internal::TicketRecord back,
                       DecodeTicket(internal::EncodeUnchecked(ticket)));
  EXPECT_EQ(back, ticket);
}

TEST(Ticket, RejectsWrongFields) {
  ExpectBadTicket([](internal::TicketRecord* t) { t->uuid = "../x"; },
                  "uuid \"../x\"");
  ExpectBadTicket([](internal::TicketRecord* t) { t->version.step = -1; },
                  "version has negative step -1");
  ExpectBadTicket([](internal::TicketRecord* t) { t->version.attempt = 0; },
                  "version has attempt 0");
  ExpectBadTicket([](internal::TicketRecord* t) { t->world_size = 0; },
                  "world size 0 is out of range; expected 1 to 65536");
  ExpectBadTicket(
      [](internal::TicketRecord* t) { t->world_size = kMaxWorldSize + 1; },
      "world size 65537 is out of range; expected 1 to 65536");
  ExpectBadTicket([](internal::TicketRecord* t) { t->rank = 2; },
                  "rank 2 is out of range for world size 2");
  ExpectBadTicket(
      [](internal::TicketRecord* t) { t->slices->end = kSlices + 1; },
      "slices [30000, 65537] are not a range within [0, 65536]");
  ExpectBadTicket(
      [](internal::TicketRecord* t) { t->slices->begin = kSlices + 1; },
      "slices [65537, 65536] are not a range within [0, 65536]");
  ExpectBadTicket([](internal::TicketRecord* t) { t->staging = "/tmp"; },
                  "staging \"/tmp\" is absolute");
  ExpectBadTicket(
      [](internal::TicketRecord* t) { t->staging = "staging/../.."; },
      "contains \"..\"");
}

TEST(StagedRank, RoundTripOfAllFields) {
  ASSERT_OK_AND_ASSIGN(
      const internal::StagedRecord back,
      DecodeStagedRank(internal::EncodeUnchecked(SampleStagedRank())));
  EXPECT_EQ(back, SampleStagedRank());
}

TEST(StagedRank, RejectsWrongVersionsAndRanks) {
  ExpectBadRank([](internal::StagedRecord* s) { s->uuid = ""; },
                "uuid \"\" of 0 bytes");
  ExpectBadRank([](internal::StagedRecord* s) { s->version.step = -1; },
                "version has negative step -1");
  ExpectBadRank([](internal::StagedRecord* s) { s->version.attempt = 0; },
                "version has attempt 0");
  ExpectBadRank([](internal::StagedRecord* s) { s->world_size = 0; },
                "world size 0 is out of range; expected 1 to 65536");
  ExpectBadRank([](internal::StagedRecord* s) { s->rank = 2; },
                "rank 2 is out of range for world size 2");
}

TEST(StagedRank, RejectsWrongPaths) {
  const auto path = [](const std::string& to) {
    return [to](internal::StagedRecord* s) { s->files[1].path = to; };
  };
  ExpectBadRank(path(""), "path \"\" is empty");
  ExpectBadRank(path("/etc/x"), "path \"/etc/x\" is absolute");
  ExpectBadRank(path(".."), "path \"..\" contains \"..\"");
  ExpectBadRank(path("a/../../b"), "path \"a/../../b\" contains \"..\"");
  ExpectBadRank(path(std::string("a\0b", 3)), "contains a NUL byte");
  EXPECT_OK(Changed(
      std::function<void(internal::StagedRecord*)>(path("a..b/..c/d.."))));
}

TEST(StagedRank, RejectsWrongEntries) {
  const auto key = [](const std::string& to) {
    return [to](internal::StagedRecord* s) { s->inline_entries[0].first = to; };
  };
  ExpectBadRank(key("ab"), "inline entry key 6162 is too short");
  ExpectBadRank(key(SampleEntryKey({31, 9}, 1)),
                "inline entry of step 31 attempt 9 rank 1 tensor \"bias\" "
                "chunk 0 does not belong to step 30 attempt 9 rank 1");
  ExpectBadRank(key(SampleEntryKey({30, 8}, 1)),
                "does not belong to step 30 attempt 9");
  ExpectBadRank(key(SampleEntryKey({30, 9}, 0)),
                "does not belong to step 30 attempt 9");
}

TEST(StagedRank, RejectsAMissingRankRecord) {
  ExpectBadRank([](internal::StagedRecord* s) { s->rank_record.clear(); },
                "rank record is empty");
}

TEST(StagedRank, RandomRoundTrips) {
  std::mt19937_64 random(testing::TestSeed());
  for (int i = 0; i < 300; ++i) {
    internal::StagedRecord staged = SampleStagedRank();
    staged.version = {static_cast<int64_t>(random() >> 1),
                      static_cast<uint32_t>(1 + random() % 1000000)};
    staged.world_size = static_cast<uint32_t>(1 + random() % kMaxWorldSize);
    staged.rank = static_cast<uint32_t>(random() % staged.world_size);
    staged.files.clear();
    staged.inline_entries.clear();
    for (uint64_t n = random() % 10; n > 0; --n) {
      staged.files.push_back({std::to_string(random()), random(), random()});
      staged.inline_entries.emplace_back(
          SampleEntryKey(staged.version, staged.rank),
          std::string(random() % 5000, static_cast<char>(random())));
    }
    staged.rank_record.assign(1 + random() % 500, static_cast<char>(random()));
    ASSERT_OK_AND_ASSIGN(const internal::StagedRecord back,
                         DecodeStagedRank(internal::EncodeUnchecked(staged)));
    ASSERT_EQ(back, staged);
  }
}

}  // namespace
}  // namespace ckptdb
