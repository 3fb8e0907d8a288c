// SPDX-License-Identifier: Apache-2.0
// The rules of the smaller records, and the limit of every record's size.
#include "schema/records/evaluation.h"
#include "tests/schema/records/record_rules.h"

namespace ckptdb::testing {
namespace {

TEST(AttemptRecord, Rules) {
  using R = AttemptRecord*;
  RecordRules<AttemptRecord> rules("attempt record", EncodeAttemptRecord,
                                   DecodeAttemptRecord, {SampleAttempt()});
  rules.Versions();
  const std::pair<AttemptState, std::string> states[] = {
      {AttemptState::kBegun, "begun"},
      {AttemptState::kCommitted, "committed"},
      {AttemptState::kRetired, "retired"}};
  for (const auto& [state, name] : states) {
    rules.Good([state = state](R r) { r->state = state; });
    EXPECT_EQ(std::string(AttemptStateName(state)), name);
  }
  rules.Bad("state 3 is unknown",
            [](R r) { r->state = static_cast<AttemptState>(3); });
  rules.Bad("folds attempt 9; expected an older attempt",
            [](R r) { r->folds = r->version.attempt; });
  rules.Good([](R r) { r->folds = r->version.attempt - 1; });
  rules.Good([](R r) { r->folds = 0; });
  rules.Check();
}

TEST(RootRecord, Rules) {
  RecordRules<RootRecord> rules("root record", EncodeRootRecord,
                                DecodeRootRecord, {SampleRoot()});
  rules.Uuids(&RootRecord::uuid);
  rules.Metadata();
  rules.Bad("next attempt 0 is invalid; attempts start at 1",
            [](RootRecord* r) {
              r->next_attempt = 0;
              r->owners.clear();
            });
  rules.Bad("owners have attempts 0 to 12; expected 1 to 12",
            [](RootRecord* r) { r->owners[0] = 5; });
  rules.Bad("owners have attempts 2 to 13; expected 1 to 12",
            [](RootRecord* r) { r->owners[13] = 5; });
  rules.Good([](RootRecord* r) { r->parts = StoreParts(); });
  rules.Good([](RootRecord* r) {
    r->parts = StoreParts{{"user", "it*"}, {"embedding"}, {7, 128}, {"mlp.*"}};
  });
  rules.Bad("parts slices from 9 to before 9 are invalid", [](RootRecord* r) {
    r->parts = StoreParts{{}, {}, {9, 9}, {}};
  });
  rules.Bad("parts slices from 0 to before 65537 are invalid",
            [](RootRecord* r) {
              r->parts = StoreParts{{}, {}, {0, kSlices + 1}, {}};
            });
  rules.Bad("part \"\" is empty", [](RootRecord* r) {
    r->parts = StoreParts{{""}, {}, {}, {}};
  });
  rules.Check();
}

TEST(Lease, Rules) {
  using R = Lease*;
  RecordRules<Lease> rules("lease", EncodeLease, DecodeLease, {SampleLease()});
  rules.Uuids(&Lease::uuid);
  rules.Bad("step -4 is negative", [](R r) { r->step = -4; });
  rules.Bad("versions has attempt 0", [](R r) { r->versions = {{10, 0}}; });
  rules.Bad("versions has negative step -1", [](R r) {
    r->versions = {{10, 2}, {-1, 9}};
  });
  rules.Bad("versions has duplicate step 20 attempt 5", [](R r) {
    r->versions = {{20, 5}, {30, 9}, {20, 5}};
  });
  rules.Good([](R r) { r->versions.clear(); });
  rules.Check();
}

TEST(EvaluationRecord, Rules) {
  using Record = StepRecord::Evaluation;
  RecordRules<Record> rules(
      "evaluation record", EncodeEvaluationRecord, DecodeEvaluationRecord,
      {SampleEvaluation(), {0, "", "", {0, 1}, "e", "g", 0, 1}});
  rules.Versions();
  rules.Worlds();
  rules.Names("evaluation", [](Record* r, std::string name) {
    r->evaluation = std::move(name);
  });
  rules.Names("group",
              [](Record* r, std::string name) { r->group = std::move(name); });
  rules.Around(kMaxEvaluationBytes,
               "meters and loader have 8388609 bytes; the limit is 8388608",
               [](Record* r, uint64_t bytes) {
                 r->meters.assign(bytes / 2, 'm');
                 r->loader.assign(bytes - bytes / 2, 'l');
               });
  rules.Check();
}

TEST(PostRecord, Rules) {
  RecordRules<Post> rules("post", EncodePost, DecodePost,
                          {SamplePost(),
                           {"a", "b", {0, 1}, 0, true, {}},
                           {"a", "b", {0, 1}, 0, false, {}, true}});
  rules.Versions();
  rules.Uuids(&Post::uuid);
  rules.Uuids(&Post::store_uuid);
  rules.Names("name of a metric", [](Post* p, std::string name) {
    p->metrics = {{std::move(name), 1}};
  });
  rules.Around(
      kMaxMetrics, "metrics have 4097 entries; the limit is 4096",
      [](Post* p, uint64_t count) { p->metrics = SomeMetrics(count); });
  rules.Bad("unpin is set together with pin", [](Post* p) { p->unpin = true; });
  rules.Good([](Post* p) {
    p->pin = false;
    p->unpin = true;
  });
  rules.Bad("lifetime 3 is unknown",
            [](Post* p) { p->lifetime = static_cast<Post::Lifetime>(3); });
  rules.Bad("metrics are empty, and no pin is requested", [](Post* p) {
    p->metrics.clear();
    p->pin = false;
  });
  rules.Check();
}

TEST(Ticket, Rules) {
  using Record = internal::TicketRecord;
  using R = Record*;
  Record least = SampleTicket();
  least.slices.reset();
  least.parent.reset();
  least.parent_tables.reset();
  RecordRules<Record> rules("ticket", EncodeTicket, DecodeTicket,
                            {SampleTicket(), least});
  rules.Versions();
  rules.Worlds();
  rules.Uuids(&Record::uuid);
  rules.Paths("staging",
              [](R r, std::string path) { r->staging = std::move(path); });
  rules.Around(kSlices,
               "slices [30000, 65537] are not a range within [0, 65536]",
               [](R r, uint64_t end) {
                 r->slices = SliceRange{30000, static_cast<uint32_t>(end)};
               });
  rules.Bad("slices [65537, 65536] are not a range within [0, 65536]", [](R r) {
    r->slices = SliceRange{kSlices + 1, kSlices};
  });
  rules.Bad("slices [2, 1] are not a range", [](R r) {
    r->slices = SliceRange{2, 1};
  });
  rules.Good([](R r) { r->slices = std::nullopt; });
  rules.Good([](R r) { r->parent.reset(); });
  rules.Check();
}

TEST(StagedRank, Rules) {
  using Record = internal::StagedRecord;
  using R = Record*;
  RecordRules<Record> rules("staged rank", EncodeStagedRank, DecodeStagedRank,
                            {SampleStagedRank()});
  rules.Versions();
  rules.Worlds();
  rules.Uuids(&Record::uuid);
  rules.Paths("path", [](R r, std::string path) {
    r->files = {{std::move(path), 1, 2, 3}};
  });
  rules.Bad("rank record is empty", [](R r) { r->rank_record.clear(); });
  rules.Good([](R r) {
    r->files.clear();
    r->inline_entries.clear();
  });
  const auto key = [](const std::string& bytes) {
    return [bytes](R r) { r->inline_entries = {{bytes, ""}}; };
  };
  const std::string foreign = "does not belong to step 30 attempt 9 rank 1";
  rules.Bad("inline entry key 6162 is too short", key("ab"));
  rules.Bad(
      "inline entry of step 31 attempt 9 rank 1 tensor \"bias\" chunk 0 " +
          foreign,
      key(SampleEntryKey({31, 9}, 1)));
  rules.Bad(foreign, key(SampleEntryKey({30, 8}, 1)));
  rules.Bad(foreign, key(SampleEntryKey({30, 9}, 0)));
  rules.Check();
}

TEST(StagedRank, RandomRoundTrips) {
  std::mt19937_64 random(TestSeed());
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
    ASSERT_EQ(DecodeStagedRank(internal::EncodeUnchecked(staged)).value(),
              staged);
  }
}

TEST(Records, BytesOfARecordAreLimited) {
  using internal::CheckBodyBytes;
  using internal::RecordKind;
  for (const RecordKind kind :
       {RecordKind::kStep, RecordKind::kRank, RecordKind::kAttempt,
        RecordKind::kRoot, RecordKind::kLease, RecordKind::kEvaluation,
        RecordKind::kPost, RecordKind::kTicket, RecordKind::kStagedRank}) {
    const bool carries =
        kind == RecordKind::kTicket || kind == RecordKind::kStagedRank;
    const uint64_t limit = carries ? kMaxTransferBytes : kMaxRecordBytes;
    EXPECT_OK(CheckBodyBytes(kind, limit - 1));
    EXPECT_OK(CheckBodyBytes(kind, limit));
    EXPECT_THAT(
        CheckBodyBytes(kind, limit + 1),
        DataLoss(absl::StrCat(limit + 1, " exceeds the limit of ", limit)));
  }
}

// The size is checked before building a FlatBuffer, which aborts at 2 GiB.
TEST(Records, RejectsATooLargeRecordBeforeBuildingIt) {
  StepRecord::Rank record = SampleRank();
  record.items[1].base_reason.assign(kMaxRecordBytes, 'x');
  EXPECT_GT(internal::LeastBytes(record), kMaxRecordBytes);
  EXPECT_THAT(EncodeRankRecord(record),
              InvalidArgument(StartsWith("rank record: size ")));
}

}  // namespace
}  // namespace ckptdb::testing
