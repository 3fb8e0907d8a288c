// SPDX-License-Identifier: Apache-2.0
#include "schema/records/records.h"

#include <cmath>
#include <functional>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "schema/records/record_checks.h"
#include "schema/types.h"
#include "tests/schema/samples.h"
#include "tests/support/seed.h"
#include "tests/support/status_matchers.h"

namespace ckptdb {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using testing::SampleAttempt;
using testing::SampleLease;
using testing::SampleRoot;
using testing::SampleStep;
using ::testing::StartsWith;
using testing::StatusIs;

auto IsLossOf(const std::string& record, const std::string& words) {
  return StatusIs(absl::StatusCode::kDataLoss,
                  AllOf(StartsWith(record + ": "), HasSubstr(words)));
}

// Returns the result of decoding the sample after one change.
absl::StatusOr<StepRecord> DecodeChanged(
    const std::function<void(StepRecord*)>& change) {
  StepRecord record = SampleStep();
  change(&record);
  return DecodeStepRecord(internal::EncodeUnchecked(record));
}

void ExpectGood(const std::function<void(StepRecord*)>& change) {
  StepRecord record = SampleStep();
  change(&record);
  ASSERT_OK_AND_ASSIGN(const StepRecord back,
                       DecodeStepRecord(internal::EncodeUnchecked(record)));
  EXPECT_EQ(back, record);
}

void ExpectBad(const std::function<void(StepRecord*)>& change,
               const std::string& words) {
  EXPECT_THAT(DecodeChanged(change), IsLossOf("step record", words));
}

TEST(StepRecord, RoundTripOfAllFields) {
  ExpectGood([](StepRecord*) {});
}

TEST(StepRecord, RoundTripOfTheMinimalRecord) {
  StepRecord record;
  record.store_uuid = testing::kSampleUuid;
  record.version = record.chain.emplace_back(Version{0, 1});
  record.branches = {{1, 1}};
  record.rank_digests = {0};
  ASSERT_OK_AND_ASSIGN(const StepRecord back,
                       DecodeStepRecord(internal::EncodeUnchecked(record)));
  EXPECT_EQ(back, record);
}

TEST(StepRecord, EachFlagAlone) {
  for (bool StepRecord::*flag : {&StepRecord::ephemeral, &StepRecord::pinned,
                                 &StepRecord::quarantined}) {
    ExpectGood([flag](StepRecord* record) {
      record->ephemeral = record->pinned = record->quarantined = false;
      record->*flag = true;
    });
  }
}

TEST(StepRecord, MetricsOfEveryKindOfNumber) {
  const double infinity = std::numeric_limits<double>::infinity();
  ASSERT_OK_AND_ASSIGN(
      const StepRecord back, DecodeChanged([&](StepRecord* record) {
        record->metrics = {{"nan", std::nan("")}, {"inf", -infinity}};
      }));
  EXPECT_TRUE(std::isnan(back.metrics.at("nan")));
  EXPECT_EQ(back.metrics.at("inf"), -infinity);
}

TEST(StepRecord, Versions) {
  ExpectBad(
      [](StepRecord* r) {
        r->chain.back() = r->version = {-1, 9};
      },
      "version has negative step -1");
  ExpectBad(
      [](StepRecord* r) {
        r->chain.back() = r->version = {30, 0};
      },
      "version has attempt 0");
  ExpectBad([](StepRecord* r) { r->chain[0].step = -2; },
            "chain has negative step -2");
  ExpectBad([](StepRecord* r) { r->chain[0].attempt = 0; },
            "chain has attempt 0");
  ExpectBad([](StepRecord* r) { r->references[1].attempt = 0; },
            "references has attempt 0");
  ExpectBad([](StepRecord* r) { r->references[1].step = -2; },
            "references has negative step -2");
  ExpectBad([](StepRecord* r) { r->parent.attempt = 0; },
            "parent has attempt 0");
}

TEST(StepRecord, Chain) {
  ExpectBad([](StepRecord* r) { r->chain.clear(); },
            "chain does not end at step 30 attempt 9");
  ExpectBad([](StepRecord* r) { r->chain.pop_back(); },
            "chain does not end at step 30 attempt 9");
  ExpectBad([](StepRecord* r) { r->chain[0] = r->chain[1]; },
            "chain has duplicate step 20 attempt 5");
  ExpectBad([](StepRecord* r) { r->chain[0].step = 21; },
            "chain goes back from step 21 to step 20");
  ExpectGood([](StepRecord* r) { r->chain[0].step = 20; });
  ExpectBad([](StepRecord* r) { r->chain[1].attempt = 6; },
            "chain does not go through the parent, step 20 attempt 5");
  ExpectBad([](StepRecord* r) { r->chain = {r->version}; },
            "chain does not go through the parent, step 20 attempt 5");
  ExpectBad([](StepRecord* r) { r->has_parent = false; },
            "parent of a delta step is missing");
}

TEST(StepRecord, RejectsAChainOfAFullStep) {
  const auto full = [](StepRecord* r) {
    r->kind = StepRecord::Kind::kFull;
    r->chain = {r->version};
  };
  ExpectGood(full);
  ExpectGood([&](StepRecord* r) {
    full(r);
    r->has_parent = false;
    r->parent = {};
  });
  ExpectBad([](StepRecord* r) { r->kind = StepRecord::Kind::kFull; },
            "chain of a full step has 3 versions; expected 1");
  ExpectBad(
      [&](StepRecord* r) {
        full(r);
        r->parent = r->version;
      },
      "parent is the step itself");
}

TEST(StepRecord, References) {
  ExpectBad([](StepRecord* r) { r->references[1] = r->references[0]; },
            "references has duplicate step 5 attempt 1");
  ExpectBad([](StepRecord* r) { r->references[1] = r->version; },
            "references contain the step itself");
  ExpectGood([](StepRecord* r) { r->references.clear(); });
}

TEST(StepRecord, Increment) {
  const auto folded = [](const Version& from) {
    return [from](StepRecord* r) {
      r->kind = StepRecord::Kind::kFull;
      r->chain = {r->version};
      r->folded = true;
      r->folded_from = from;
      r->branches = {{2, from.attempt}};
    };
  };
  ExpectGood(folded({30, 8}));
  ExpectBad(folded({30, 9}),
            "increment is step 30 attempt 9; expected an older attempt of "
            "step 30 attempt 9");
  ExpectBad(folded({29, 8}),
            "increment is step 29 attempt 8; expected an older attempt of "
            "step 30 attempt 9");
  ExpectBad(folded({30, 0}), "increment has attempt 0");
  ExpectBad(
      [](StepRecord* r) {
        r->folded = true;
        r->folded_from = {30, 8};
      },
      "increment is set for a delta step; only a folded step has one");
}

TEST(StepRecord, Branches) {
  const auto branches = [](const std::vector<StepRecord::Branch>& all) {
    return [all](StepRecord* r) { r->branches = all; };
  };
  ExpectGood(branches({{9, 9}}));
  ExpectGood(branches({{1, 9}}));
  ExpectGood(branches({{1, 1}, {2, 2}, {9, 9}}));
  ExpectBad(branches({{0, 9}}),
            "branches are out of order: attempts 0 to 9 follow attempt 0");
  ExpectBad(branches({{5, 4}, {9, 9}}),
            "branches are out of order: attempts 5 to 4 follow attempt 0");
  ExpectBad(branches({{1, 5}, {5, 9}}),
            "branches are out of order: attempts 5 to 9 follow attempt 5");
  ExpectBad(branches({{1, 8}}), "branches end with attempt 8; expected 9");
  ExpectBad(
      [](StepRecord* r) {
        r->kind = StepRecord::Kind::kFull;
        r->chain = {r->version};
        r->folded = true;
        r->folded_from = {30, 8};
      },
      "branches end with attempt 9; expected 8");
}

TEST(StepRecord, BranchesAtAndOverTheLimit) {
  const auto branches = [](uint32_t count) {
    return [count](StepRecord* r) {
      r->kind = StepRecord::Kind::kFull;
      r->version.attempt = count;
      r->chain = {r->version};
      r->branches.clear();
      for (uint32_t i = 1; i <= count; ++i) r->branches.push_back({i, i});
    };
  };
  ExpectBad(branches(0), "version has attempt 0");
  ExpectBad([](StepRecord* r) { r->branches.clear(); },
            "branches have 0 entries; expected 1 to 1024");
  ExpectGood(branches(kMaxBranches - 1));
  ExpectGood(branches(kMaxBranches));
  ExpectBad(branches(kMaxBranches + 1),
            "branches have 1025 entries; expected 1 to 1024");
}

TEST(StepRecord, StoreUuid) {
  ExpectBad([](StepRecord* r) { r->store_uuid = "../x"; }, "uuid \"../x\"");
  ExpectBad([](StepRecord* r) { r->store_uuid = ""; }, "uuid \"\"");
}

TEST(StepRecord, LineageDigestDistinguishesVersions) {
  const uint64_t digest = LineageDigest(SampleStep());
  const auto changed = [&](const std::function<void(StepRecord*)>& change) {
    StepRecord record = SampleStep();
    change(&record);
    return LineageDigest(record) != digest;
  };
  EXPECT_TRUE(changed([](StepRecord* r) { r->store_uuid += "x"; }));
  EXPECT_TRUE(changed([](StepRecord* r) { ++r->version.step; }));
  EXPECT_TRUE(changed([](StepRecord* r) { ++r->version.attempt; }));
  EXPECT_TRUE(
      changed([](StepRecord* r) { r->kind = StepRecord::Kind::kFull; }));
  EXPECT_TRUE(changed([](StepRecord* r) { ++r->parent.step; }));
  EXPECT_TRUE(changed([](StepRecord* r) { ++r->parent.attempt; }));
  EXPECT_TRUE(changed([](StepRecord* r) { ++r->parent_digest; }));
  EXPECT_TRUE(changed([](StepRecord* r) { ++r->world_size; }));
  EXPECT_TRUE(changed([](StepRecord* r) { ++r->slice_bounds[1]; }));
  EXPECT_TRUE(changed([](StepRecord* r) { ++r->rank_digests[1]; }));
  EXPECT_FALSE(changed([](StepRecord* r) {
    r->pinned = r->quarantined = r->ephemeral = false;
    r->metrics.clear();
    r->user_metadata.clear();
  }));
}

TEST(StepRecord, WorldSizeAtAndOverTheLimits) {
  const auto ranks = [](uint32_t world_size) {
    return [world_size](StepRecord* r) {
      r->world_size = world_size;
      r->rank_digests.resize(world_size);
      r->slice_bounds.clear();
    };
  };
  ExpectBad(ranks(0), "world size 0 is out of range; expected 1 to 65536");
  ExpectGood(ranks(1));
  ExpectGood(ranks(kMaxWorldSize - 1));
  ExpectGood(ranks(kMaxWorldSize));
  ExpectBad(ranks(kMaxWorldSize + 1),
            "world size 65537 is out of range; expected 1 to 65536");
}

TEST(StepRecord, RequiresADigestForEachRank) {
  ExpectBad([](StepRecord* r) { r->rank_digests.pop_back(); },
            "rank digests have 1 entries; expected one for each of 2 ranks");
  ExpectBad([](StepRecord* r) { r->rank_digests.push_back(1); },
            "rank digests have 3 entries; expected one for each of 2 ranks");
}

TEST(StepRecord, SliceBounds) {
  ExpectGood([](StepRecord* r) { r->slice_bounds.clear(); });
  ExpectGood([](StepRecord* r) { r->slice_bounds[1] = 0; });
  ExpectGood([](StepRecord* r) { r->slice_bounds[1] = kSlices; });
  ExpectBad([](StepRecord* r) { r->slice_bounds.pop_back(); },
            "slice bounds have 2 entries; expected 3");
  ExpectBad([](StepRecord* r) { r->slice_bounds[0] = 1; },
            "slice bounds span 1 to 65536; expected 0 to 65536");
  ExpectBad([](StepRecord* r) { r->slice_bounds[2] = kSlices - 1; },
            "slice bounds span 0 to 65535; expected 0 to 65536");
  ExpectBad([](StepRecord* r) { r->slice_bounds[1] = kSlices + 1; },
            "slice bounds decrease from 65537 to 65536 at rank 2");
}

TEST(StepRecord, MetricsAtAndOverTheLimit) {
  const auto metrics = [](size_t count) {
    return [count](StepRecord* r) {
      r->metrics.clear();
      for (size_t i = 0; i < count; ++i) r->metrics[std::to_string(i)] = 1;
    };
  };
  ExpectGood(metrics(0));
  ExpectGood(metrics(kMaxMetrics - 1));
  ExpectGood(metrics(kMaxMetrics));
  ExpectBad(metrics(kMaxMetrics + 1),
            "metrics have 4097 entries; the limit is 4096");
}

TEST(StepRecord, Names) {
  ExpectBad([](StepRecord* r) { r->metrics[""] = 1; },
            "name of a metric \"\" is empty");
  ExpectBad([](StepRecord* r) { r->metrics["a\xff"] = 1; },
            "is not UTF-8 at byte 1");
  ExpectGood([](StepRecord* r) { r->metrics[std::string(512, 'm')] = 1; });
  ExpectBad([](StepRecord* r) { r->metrics[std::string(513, 'm')] = 1; },
            "has 513 bytes; the limit is 512");
  ExpectBad([](StepRecord* r) { r->user_metadata[""] = ""; },
            "name of user metadata \"\" is empty");
  ExpectBad([](StepRecord* r) { r->library_version = "\xff"; },
            "library version \"\\xff\" is not UTF-8 at byte 0");
}

TEST(StepRecord, UserMetadataAtAndOverTheLimit) {
  const auto metadata = [](size_t bytes) {
    return [bytes](StepRecord* r) {
      r->user_metadata = {{"abcd", std::string(bytes / 2 - 4, 'x')},
                          {"efgh", std::string(bytes - bytes / 2 - 4, 'y')}};
    };
  };
  ExpectGood(metadata(kMaxMetadataBytes - 1));
  ExpectGood(metadata(kMaxMetadataBytes));
  ExpectBad(metadata(kMaxMetadataBytes + 1),
            "user metadata exceeds the limit of 1048576 bytes");
}

TEST(StepRecord, RandomRoundTrips) {
  std::mt19937_64 random(testing::TestSeed());
  for (int i = 0; i < 500; ++i) {
    StepRecord record = SampleStep();
    int64_t step = 0;
    record.chain.clear();
    for (uint32_t n = 0; n < 2 + random() % 20; ++n) {
      step += static_cast<int64_t>(random() >> (8 + random() % 56));
      record.chain.push_back({step, n * 3 + 1});
    }
    record.version = record.chain.back();
    record.parent = record.chain[record.chain.size() - 2];
    record.branches = {{1, record.parent.attempt},
                       {record.version.attempt, record.version.attempt}};
    record.world_size = 1 + random() % 100;
    record.rank_digests.resize(record.world_size);
    for (uint64_t& digest : record.rank_digests) digest = random();
    record.slice_bounds = EvenSliceBounds(record.world_size);
    record.save_micros = static_cast<int64_t>(random());
    record.committed_at_micros = static_cast<int64_t>(random());
    record.pinned = random() % 2 != 0;
    record.metrics[std::to_string(random())] =
        static_cast<double>(random()) / 3;
    record.user_metadata[std::to_string(random())] =
        std::string(random() % 1000, static_cast<char>(random()));
    ASSERT_OK_AND_ASSIGN(const StepRecord back,
                         DecodeStepRecord(internal::EncodeUnchecked(record)));
    ASSERT_EQ(back, record);
  }
}

TEST(AttemptRecord, RoundTripAndStates) {
  for (const AttemptState state :
       {AttemptState::kBegun, AttemptState::kCommitted,
        AttemptState::kRetired}) {
    AttemptRecord record = SampleAttempt();
    record.state = state;
    ASSERT_OK_AND_ASSIGN(
        const AttemptRecord back,
        DecodeAttemptRecord(internal::EncodeUnchecked(record)));
    EXPECT_EQ(back, record);
  }
  EXPECT_EQ(std::string(AttemptStateName(AttemptState::kBegun)), "begun");
  EXPECT_EQ(std::string(AttemptStateName(AttemptState::kCommitted)),
            "committed");
  EXPECT_EQ(std::string(AttemptStateName(AttemptState::kRetired)), "retired");
}

TEST(AttemptRecord, RejectsWrongFields) {
  const auto changed = [](const std::function<void(AttemptRecord*)>& change) {
    AttemptRecord record = SampleAttempt();
    change(&record);
    return DecodeAttemptRecord(internal::EncodeUnchecked(record));
  };
  EXPECT_THAT(changed([](auto* r) { r->version.step = -1; }),
              IsLossOf("attempt record", "version has negative step -1"));
  EXPECT_THAT(changed([](auto* r) { r->version.attempt = 0; }),
              IsLossOf("attempt record", "version has attempt 0"));
  EXPECT_THAT(changed([](auto* r) { r->state = static_cast<AttemptState>(3); }),
              IsLossOf("attempt record", "state 3 is unknown"));
  EXPECT_THAT(
      changed([](auto* r) { r->folds = r->version.attempt; }),
      IsLossOf("attempt record", "folds attempt 9; expected an older attempt"));
}

absl::StatusOr<RootRecord> DecodeChangedRoot(
    const std::function<void(RootRecord*)>& change) {
  RootRecord record = SampleRoot();
  change(&record);
  return DecodeRootRecord(internal::EncodeUnchecked(record));
}

TEST(RootRecord, RoundTrip) {
  ASSERT_OK_AND_ASSIGN(const RootRecord back,
                       DecodeChangedRoot([](RootRecord*) {}));
  EXPECT_EQ(back, SampleRoot());
}

TEST(RootRecord, RejectsWrongFields) {
  EXPECT_THAT(DecodeChangedRoot([](auto* r) { r->next_attempt = 0; }),
              IsLossOf("root record",
                       "next attempt 0 is invalid; attempts start at 1"));
  EXPECT_THAT(DecodeChangedRoot([](auto* r) { r->uuid = "a/b"; }),
              IsLossOf("root record",
                       "uuid \"a/b\" of 3 bytes is invalid; expected 1 to 64 "
                       "letters, digits and hyphens"));
  EXPECT_THAT(DecodeChangedRoot([](auto* r) { r->user_metadata["\xff"] = ""; }),
              IsLossOf("root record", "name of user metadata \"\\xff\""));
  EXPECT_THAT(DecodeChangedRoot([](auto* r) {
                r->user_metadata = {{"a", std::string(kMaxMetadataBytes, 'x')}};
              }),
              IsLossOf("root record",
                       "user metadata exceeds the limit of 1048576 bytes"));
}

absl::StatusOr<Lease> DecodeChangedLease(
    const std::function<void(Lease*)>& change) {
  Lease lease = SampleLease();
  change(&lease);
  return DecodeLease(internal::EncodeUnchecked(lease));
}

TEST(Lease, RoundTrip) {
  ASSERT_OK_AND_ASSIGN(const Lease back, DecodeChangedLease([](Lease*) {}));
  EXPECT_EQ(back, SampleLease());
}

TEST(Lease, RejectsWrongFields) {
  EXPECT_THAT(DecodeChangedLease([](auto* l) { l->uuid = ""; }),
              IsLossOf("lease", "uuid \"\" of 0 bytes"));
  EXPECT_THAT(DecodeChangedLease([](auto* l) { l->step = -4; }),
              IsLossOf("lease", "step -4 is negative"));
  EXPECT_THAT(DecodeChangedLease([](auto* l) { l->versions[2].attempt = 0; }),
              IsLossOf("lease", "versions has attempt 0"));
  EXPECT_THAT(DecodeChangedLease([](auto* l) { l->versions[2].step = -1; }),
              IsLossOf("lease", "versions has negative step -1"));
  EXPECT_THAT(
      DecodeChangedLease([](auto* l) { l->versions[2] = l->versions[1]; }),
      IsLossOf("lease", "versions has duplicate step 20 attempt 5"));
}

}  // namespace
}  // namespace ckptdb
