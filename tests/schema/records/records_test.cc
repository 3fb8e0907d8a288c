// SPDX-License-Identifier: Apache-2.0
// The record of a step.
#include "schema/records/records.h"

#include <cmath>
#include <limits>

#include "tests/schema/records/record_rules.h"

namespace ckptdb::testing {
namespace {

StepRecord FullStep() {
  StepRecord record = SampleStep();
  record.kind = StepRecord::Kind::kFull;
  record.chain = {record.version};
  record.references.clear();
  return record;
}

StepRecord LeastStep() {
  StepRecord record;
  record.store_uuid = kSampleUuid;
  record.version = record.chain.emplace_back(Version{0, 1});
  record.branches = {{1, 1}};
  record.rank_digests = {0};
  return record;
}

RecordRules<StepRecord> StepRules() {
  return {"step record",
          EncodeStepRecord,
          DecodeStepRecord,
          {SampleStep(), FullStep(), LeastStep()}};
}

TEST(StepRecord, FlagsNamesAndNumbers) {
  RecordRules<StepRecord> rules = StepRules();
  rules.Uuids(&StepRecord::store_uuid);
  rules.Metadata();
  rules.Good([](StepRecord* r) { r->user_metadata.clear(); });
  rules.Good([](StepRecord* r) { r->metrics.clear(); });
  rules.Around(
      kMaxMetrics, "metrics have 4097 entries; the limit is 4096",
      [](StepRecord* r, uint64_t count) { r->metrics = SomeMetrics(count); });
  rules.Names("name of a metric", [](StepRecord* r, std::string name) {
    r->metrics = {{std::move(name), 1}};
  });
  rules.Bad("library version \"\\xff\" is not UTF-8 at byte 0",
            [](StepRecord* r) { r->library_version = "\xff"; });
  rules.Good([](StepRecord* r) { r->library_version.clear(); });
  for (bool StepRecord::*flag : {&StepRecord::ephemeral, &StepRecord::pinned,
                                 &StepRecord::quarantined}) {
    rules.Good([flag](StepRecord* r) {
      r->ephemeral = r->pinned = r->quarantined = false;
      r->*flag = true;
    });
  }
  rules.Bad("kind 2 is unknown; expected 0 (full) or 1 (delta)",
            [](StepRecord* r) { r->kind = static_cast<StepRecord::Kind>(2); });
  rules.Check();
}

TEST(StepRecord, MetricsOfEveryKindOfNumber) {
  const double infinity = std::numeric_limits<double>::infinity();
  StepRecord record = SampleStep();
  record.metrics = {{"nan", std::nan("")}, {"inf", -infinity}};
  ASSERT_OK_AND_ASSIGN(const StepRecord back,
                       DecodeStepRecord(internal::EncodeUnchecked(record)));
  EXPECT_TRUE(std::isnan(back.metrics.at("nan")));
  EXPECT_EQ(back.metrics.at("inf"), -infinity);
}

TEST(StepRecord, VersionsAndChain) {
  RecordRules<StepRecord> rules = StepRules();
  rules.Bad("version has negative step -1", [](StepRecord* r) {
    r->version = {-1, 9};
    r->chain = {{10, 2}, {20, 5}, r->version};
  });
  rules.Bad("version has attempt 0", [](StepRecord* r) {
    r->version = {30, 0};
    r->chain = {{10, 2}, {20, 5}, r->version};
  });
  rules.Bad("chain has negative step -2", [](StepRecord* r) {
    r->chain = {{-2, 2}, {20, 5}, {30, 9}};
  });
  rules.Bad("chain has attempt 0", [](StepRecord* r) {
    r->chain = {{10, 0}, {20, 5}, {30, 9}};
  });
  rules.Bad("references has attempt 0", [](StepRecord* r) {
    r->references = {{5, 1}, {7, 0}};
  });
  rules.Bad("references has negative step -2", [](StepRecord* r) {
    r->references = {{5, 1}, {-2, 11}};
  });
  rules.Bad("parent has attempt 0",
            [](StepRecord* r) { r->parent.attempt = 0; });
  const std::string no_end = "chain does not end at step 30 attempt 9";
  rules.Bad(no_end, [](StepRecord* r) { r->chain.clear(); });
  rules.Bad(no_end, [](StepRecord* r) { r->chain = {{10, 2}, {20, 5}}; });
  rules.Bad("chain has duplicate step 20 attempt 5", [](StepRecord* r) {
    r->chain = {{20, 5}, {20, 5}, {30, 9}};
  });
  rules.Bad("chain goes back from step 21 to step 20", [](StepRecord* r) {
    r->chain = {{21, 2}, {20, 5}, {30, 9}};
  });
  rules.Good([](StepRecord* r) { r->chain = {{20, 2}, {20, 5}, {30, 9}}; });
  const std::string no_parent =
      "chain does not go through the parent, step 20 attempt 5";
  rules.Bad(no_parent, [](StepRecord* r) {
    r->chain = {{10, 2}, {20, 6}, {30, 9}};
  });
  rules.Bad(no_parent, [](StepRecord* r) { r->chain = {r->version}; });
  rules.Bad("parent of a delta step is missing",
            [](StepRecord* r) { r->has_parent = false; });
  rules.Bad("references has duplicate step 5 attempt 1", [](StepRecord* r) {
    r->references = {{5, 1}, {5, 1}};
  });
  rules.Bad("references contain the step itself",
            [](StepRecord* r) { r->references.push_back(r->version); });
  rules.Good([](StepRecord* r) { r->references.clear(); });
  rules.Check();
}

void MakeFull(StepRecord* r) {
  r->kind = StepRecord::Kind::kFull;
  r->chain = {r->version};
}

TEST(StepRecord, FullStepsFoldsAndBranches) {
  RecordRules<StepRecord> rules = StepRules();
  rules.Good(MakeFull);
  rules.Good([](StepRecord* r) {
    MakeFull(r);
    r->has_parent = false;
    r->parent = {};
  });
  rules.Bad("chain of a full step has 3 versions; expected 1",
            [](StepRecord* r) { r->kind = StepRecord::Kind::kFull; });
  rules.Bad("parent is the step itself", [](StepRecord* r) {
    MakeFull(r);
    r->parent = r->version;
  });
  const auto folded = [](const Version& from) {
    return [from](StepRecord* r) {
      MakeFull(r);
      r->folded = true;
      r->folded_from = from;
      r->branches = {{2, from.attempt}};
    };
  };
  rules.Good(folded({30, 8}));
  const std::string older = "; expected an older attempt of step 30 attempt 9";
  rules.Bad("increment is step 30 attempt 9" + older, folded({30, 9}));
  rules.Bad("increment is step 29 attempt 8" + older, folded({29, 8}));
  rules.Bad("increment has attempt 0", folded({30, 0}));
  rules.Bad("", [](StepRecord* r) { r->folded_from = {30, 8}; });
  rules.Bad("increment is set for a delta step; only a folded step has one",
            [](StepRecord* r) {
              r->folded = true;
              r->folded_from = {30, 8};
            });
  rules.Bad("branches end with attempt 9; expected 8", [](StepRecord* r) {
    MakeFull(r);
    r->folded = true;
    r->folded_from = {30, 8};
  });
  const auto branches = [](const std::vector<StepRecord::Branch>& all) {
    return [all](StepRecord* r) { r->branches = all; };
  };
  rules.Good(branches({{9, 9}}));
  rules.Good(branches({{1, 9}}));
  rules.Good(branches({{1, 1}, {2, 2}, {9, 9}}));
  const std::string order = "branches are out of order: attempts ";
  rules.Bad(order + "0 to 9 follow attempt 0", branches({{0, 9}}));
  rules.Bad(order + "5 to 4 follow attempt 0", branches({{5, 4}, {9, 9}}));
  rules.Bad(order + "5 to 9 follow attempt 5", branches({{1, 5}, {5, 9}}));
  rules.Bad("branches end with attempt 8; expected 9", branches({{1, 8}}));
  rules.Bad("branches have 0 entries; expected 1 to 1024", branches({}));
  rules.Around(kMaxBranches, "branches have 1025 entries; expected 1 to 1024",
               [](StepRecord* r, uint64_t count) {
                 r->version.attempt = static_cast<uint32_t>(count);
                 MakeFull(r);
                 r->branches.clear();
                 for (uint32_t i = 1; i <= count; ++i) {
                   r->branches.push_back({i, i});
                 }
               });
  rules.Check();
}

TEST(StepRecord, Owners) {
  RecordRules<StepRecord> rules = StepRules();
  const auto owners = [](const std::map<uint32_t, uint64_t>& all) {
    return [all](StepRecord* r) { r->owners = all; };
  };
  rules.Good(owners({}));
  rules.Good(owners({{1, 0}, {9, 5}}));
  rules.Bad("owners have attempts 0 to 1; expected 1 to 9",
            owners({{0, 5}, {1, 6}}));
  rules.Bad("owners have attempts 3 to 10; expected 1 to 9",
            owners({{3, 5}, {10, 6}}));
  rules.Around(kMaxOwners, "owners have 65 entries; expected at most 64",
               [](StepRecord* r, uint64_t count) {
                 r->version.attempt = static_cast<uint32_t>(count);
                 MakeFull(r);
                 r->branches = {{1, r->version.attempt}};
                 r->owners.clear();
                 for (uint32_t i = 1; i <= count; ++i) r->owners[i] = i;
               });
  rules.Check();
}

TEST(StepRecord, RanksAndSlices) {
  RecordRules<StepRecord> rules = StepRules();
  const auto ranks = [](StepRecord* r, uint64_t world_size) {
    r->world_size = static_cast<uint32_t>(world_size);
    r->rank_digests.assign(world_size, 7);
    r->slice_bounds.clear();
  };
  rules.Around(kMaxWorldSize,
               "world size 65537 is out of range; expected 1 to 65536", ranks);
  rules.Bad("world size 0 is out of range; expected 1 to 65536",
            [&](StepRecord* r) { ranks(r, 0); });
  rules.Good([&](StepRecord* r) { ranks(r, 1); });
  rules.Bad("rank digests have 1 entries; expected one for each of 2 ranks",
            [](StepRecord* r) { r->rank_digests = {1}; });
  rules.Bad("rank digests have 3 entries; expected one for each of 2 ranks",
            [](StepRecord* r) {
              r->rank_digests = {1, 2, 3};
            });
  const auto bounds = [](const std::vector<uint32_t>& all) {
    return [all](StepRecord* r) { r->slice_bounds = all; };
  };
  rules.Good(bounds({}));
  rules.Good(bounds({0, 0, kSlices}));
  rules.Good(bounds({0, kSlices, kSlices}));
  rules.Bad("slice bounds have 2 entries; expected 3", bounds({0, kSlices}));
  rules.Bad("slice bounds span 1 to 65536; expected 0 to 65536",
            bounds({1, 2, kSlices}));
  rules.Bad("slice bounds span 0 to 65535; expected 0 to 65536",
            bounds({0, 2, kSlices - 1}));
  rules.Bad("slice bounds decrease from 65537 to 65536 at rank 2",
            bounds({0, kSlices + 1, kSlices}));
  rules.Check();
}

TEST(StepRecord, LineageDigestDistinguishesVersions) {
  const auto changed = [&](const std::function<void(StepRecord*)>& change) {
    StepRecord record = SampleStep();
    change(&record);
    return LineageDigest(record) != LineageDigest(SampleStep());
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

TEST(StepRecord, RandomRoundTrips) {
  std::mt19937_64 random(TestSeed());
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
    record.owners = {{1, random()}, {record.version.attempt, random()}};
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
    ASSERT_EQ(DecodeStepRecord(internal::EncodeUnchecked(record)).value(),
              record);
  }
}

}  // namespace
}  // namespace ckptdb::testing
