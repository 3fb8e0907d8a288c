// SPDX-License-Identifier: Apache-2.0
// Chains, branches and ways between steps, over records alone.
#include "db/meta/lineage.h"

#include <gmock/gmock.h>

#include "schema/records/records.h"
#include "tests/support/status_matchers.h"

namespace ckptdb::internal {
namespace {

using ::ckptdb::testing::StatusIs;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr char kUuid[] = "11111111-2222-3333-4444-555555555555";

// A catalog as saves, deletions, sweeps and folds would leave it. Attempts are
// numbers of their own.
class LineageTest : public ::testing::Test {
 protected:
  LineageTest() { catalog_.root.uuid = kUuid; }

  StepRecord New(int64_t step, uint32_t attempt) {
    StepRecord record;
    record.store_uuid = kUuid;
    record.version = {step, attempt};
    record.chain = {record.version};
    record.branches = {{attempt, attempt}};
    record.rank_digests = {attempt * uint64_t{977}};
    return record;
  }
  void Commit(const StepRecord& record) {
    Retire(record.version.step);
    catalog_.steps[record.version.step] = record;
  }
  StepRecord Full(int64_t step, uint32_t attempt) {
    StepRecord record = New(step, attempt);
    const StepRecord* const newest = catalog_.Newest();
    if (newest != nullptr) GoOnFrom(*newest, &record);
    Commit(record);
    return record;
  }
  void GoOnFrom(const StepRecord& parent, StepRecord* record) const {
    record->has_parent = true;
    record->parent = parent.version;
    record->parent_digest = LineageDigest(parent);
    record->branches = BranchesOver(catalog_, parent, record->version.attempt);
  }
  StepRecord Delta(int64_t step, uint32_t attempt, const StepRecord& parent) {
    StepRecord record = New(step, attempt);
    record.kind = StepRecord::Kind::kDelta;
    GoOnFrom(parent, &record);
    record.chain = parent.chain;
    record.chain.push_back(record.version);
    Commit(record);
    return record;
  }
  StepRecord Fold(int64_t step, uint32_t attempt) {
    StepRecord record = catalog_.steps.at(step);
    record.folded = true;
    record.folded_from = record.version;
    record.version.attempt = attempt;
    record.kind = StepRecord::Kind::kFull;
    record.chain = {record.version};
    record.rank_digests = {attempt * uint64_t{977}};
    Commit(record);
    return record;
  }
  void Retire(int64_t step) {
    const auto found = catalog_.steps.find(step);
    if (found == catalog_.steps.end()) return;
    catalog_.retired[found->second.version] = found->second;
    catalog_.steps.erase(found);
  }
  // Swept.
  void Forget(const Version& version) { catalog_.retired.erase(version); }

  static std::vector<int64_t> Numbers(const std::vector<StepRecord>& records) {
    std::vector<int64_t> steps;
    for (const StepRecord& record : records) {
      steps.push_back(record.version.step);
    }
    return steps;
  }
  static std::vector<Version> Versions(const std::vector<StepRecord>& records) {
    std::vector<Version> versions;
    for (const StepRecord& record : records) versions.push_back(record.version);
    return versions;
  }
  void ExpectPath(const Version& from, int64_t to,
                  const std::vector<Version>& undo,
                  const std::vector<Version>& redo) {
    ASSERT_OK_AND_ASSIGN(const Path path,
                         FindPath(catalog_, from, catalog_.steps.at(to)));
    EXPECT_EQ(Versions(path.undo), undo);
    EXPECT_EQ(Versions(path.redo), redo);
  }
  void ExpectNoPath(
      const Version& from, int64_t to, const Version& at,
      const std::string& why,
      absl::StatusCode code = absl::StatusCode::kFailedPrecondition) {
    EXPECT_THAT(FindPath(catalog_, from, catalog_.steps.at(to)),
                StatusIs(code, AllOf(HasSubstr("no changes lead from " +
                                               ToString(from)),
                                     HasSubstr(ToString(at)), HasSubstr(why))));
  }

  Catalog catalog_;
};

TEST_F(LineageTest, AFoldedVersionHasTheStateOfItsSource) {
  const StepRecord one = Full(1, 1);
  const StepRecord two = Delta(2, 2, one);
  EXPECT_TRUE(IsState(two, {2, 2}));
  EXPECT_FALSE(IsState(two, {2, 3}));
  const StepRecord folded = Fold(2, 3);
  EXPECT_TRUE(IsState(folded, {2, 3}));
  EXPECT_TRUE(IsState(folded, {2, 2}));
  EXPECT_FALSE(IsState(folded, {1, 2}));
  EXPECT_EQ(FindState(catalog_, {2, 2})->version, (Version{2, 2}));
  Forget({2, 2});
  EXPECT_EQ(FindState(catalog_, {2, 2})->version, (Version{2, 3}));
  Retire(2);
  EXPECT_EQ(FindState(catalog_, {2, 2})->version, (Version{2, 3}));
  EXPECT_EQ(FindState(catalog_, {2, 4}), nullptr);
}

TEST_F(LineageTest, ParentIsTheNewestUnlessSaid) {
  ASSERT_OK_AND_ASSIGN(const StepRecord none,
                       FindParent(catalog_, {.step = 1}));
  EXPECT_EQ(none.version.attempt, 0u);
  Full(20, 1);
  Full(10, 2);
  ASSERT_OK_AND_ASSIGN(const StepRecord newest,
                       FindParent(catalog_, {.step = 1}));
  EXPECT_EQ(newest.version, (Version{10, 2}));
  catalog_.steps.at(10).quarantined = true;
  ASSERT_OK_AND_ASSIGN(const StepRecord good,
                       FindParent(catalog_, {.step = 1}));
  EXPECT_EQ(good.version, (Version{20, 1}));
}

TEST_F(LineageTest, ParentRules) {
  const StepRecord one = Full(1, 1);
  const StepRecord two = Delta(2, 2, one);
  const auto find = [&](int64_t step, const Version& parent,
                        SaveSpec::Abandoned abandoned =
                            SaveSpec::Abandoned::kRefuse) {
    SaveSpec spec{.step = step};
    spec.parent = parent;
    spec.abandoned = abandoned;
    return FindParent(catalog_, spec);
  };
  const auto refused = [](const std::string& words) {
    return StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr(words));
  };
  EXPECT_OK(find(3, {2, 2}));
  EXPECT_OK(find(2, {2, 2}));
  EXPECT_THAT(find(1, {2, 2}),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("step 1 is before its parent, step 2")));
  EXPECT_THAT(find(3, {2, 3}), refused("step 2 attempt 3 is not a committed"));
  EXPECT_THAT(find(3, {5, 1}), refused("step 5 attempt 1 is not a committed"));
  EXPECT_THAT(find(3, {1, 1}), refused("not the newest: step 2 attempt 2"));
  EXPECT_OK(find(3, {1, 1}, SaveSpec::Abandoned::kKeep));
  EXPECT_OK(find(3, {1, 1}, SaveSpec::Abandoned::kRemove));
  // By the version it was saved as, after a fold; which is no later save.
  Fold(1, 3);
  EXPECT_OK(find(3, {2, 2}));
  Fold(2, 4);
  ASSERT_OK_AND_ASSIGN(const StepRecord folded, find(3, {2, 2}));
  EXPECT_EQ(folded.version, (Version{2, 4}));
  EXPECT_OK(find(3, {2, 4}));
  Retire(2);
  EXPECT_THAT(find(3, {2, 2}), refused("is not a committed step"));
  EXPECT_THAT(find(3, {2, 4}), refused("is not a committed step"));
  EXPECT_OK(find(3, {1, 1}));
  catalog_.steps.at(1).quarantined = true;
  EXPECT_THAT(find(3, {1, 1}), refused("is quarantined"));
}

TEST_F(LineageTest, DescendantsAreThoseOfTheBranchAlone) {
  const StepRecord one = Full(1, 1);
  const StepRecord two = Delta(2, 2, one);
  const StepRecord three = Delta(3, 3, two);
  const StepRecord side = Delta(4, 4, one);
  Delta(5, 5, side);
  Full(6, 6);  // after step 5
  EXPECT_THAT(Numbers(DescendantsOf(catalog_, one)),
              ElementsAre(2, 3, 4, 5, 6));
  EXPECT_THAT(Numbers(DescendantsOf(catalog_, two)), ElementsAre(3));
  EXPECT_THAT(Numbers(DescendantsOf(catalog_, three)), IsEmpty());
  EXPECT_THAT(Numbers(DescendantsOf(catalog_, side)), ElementsAre(5, 6));
}

TEST_F(LineageTest, DescendantsOverRetiredAndFoldedSteps) {
  const StepRecord one = Full(1, 1);
  const StepRecord two = Delta(2, 2, one);
  const StepRecord three = Delta(3, 3, two);
  Delta(4, 4, three);
  Retire(2);
  Fold(3, 7);
  EXPECT_THAT(Numbers(DescendantsOf(catalog_, one)), ElementsAre(3, 4));
  // A save that began before the fold and was published after it.
  StepRecord late = New(6, 6);
  late.kind = StepRecord::Kind::kDelta;
  GoOnFrom(catalog_.steps.at(3), &late);
  Commit(late);
  EXPECT_THAT(Numbers(DescendantsOf(catalog_, one)), ElementsAre(3, 4, 6));
  EXPECT_THAT(Numbers(DescendantsOf(catalog_, catalog_.steps.at(3))),
              ElementsAre(4, 6));
  // A step that was overwritten is one no more.
  Full(6, 8);
  EXPECT_THAT(Numbers(DescendantsOf(catalog_, one)), ElementsAre(3, 4, 6));
  EXPECT_EQ(DescendantsOf(catalog_, one)[2].version, (Version{6, 8}));
}

TEST_F(LineageTest, Chains) {
  const StepRecord one = Full(1, 1);
  const StepRecord two = Delta(2, 2, one);
  const StepRecord three = Delta(3, 3, two);
  ASSERT_OK_AND_ASSIGN(const auto alone, ChainOf(catalog_, one));
  EXPECT_EQ(Versions(alone), one.chain);
  Retire(1);
  Retire(2);
  ASSERT_OK_AND_ASSIGN(const auto chain, ChainOf(catalog_, three));
  EXPECT_EQ(Versions(chain), three.chain);
  // Flags are no part of what a member is known by.
  catalog_.retired.at({1, 1}).pinned = true;
  catalog_.retired.at({2, 2}).metrics["loss"] = 1;
  EXPECT_OK(ChainOf(catalog_, three));
}

class BadChainTest : public LineageTest {
 protected:
  BadChainTest() {
    const StepRecord one = Full(1, 1);
    const StepRecord two = Delta(2, 2, one);
    three_ = Delta(3, 3, two);
    Retire(1);
    Retire(2);
  }
  void ExpectBad(const std::vector<std::string>& words) {
    const absl::Status status = ChainOf(catalog_, three_).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss) << status;
    for (const std::string& word : words) {
      EXPECT_THAT(std::string(status.message()), HasSubstr(word));
    }
    EXPECT_THAT(std::string(status.message()),
                HasSubstr("chain of step 3 attempt 3"));
  }
  StepRecord& Member(int64_t step) {
    return catalog_.retired.at({step, static_cast<uint32_t>(step)});
  }

  StepRecord three_;
};

TEST_F(BadChainTest, AMemberIsMissing) {
  Forget({2, 2});
  ExpectBad({"step 2 attempt 2 is missing"});
}

TEST_F(BadChainTest, AMemberIsOfAnotherStore) {
  Member(1).store_uuid = "another";
  ExpectBad({"step 1 attempt 1 belongs to store another", kUuid});
  Member(1).store_uuid = kUuid;
  three_.store_uuid = "another";
  ExpectBad({"step 3 attempt 3 belongs to store another"});
}

TEST_F(BadChainTest, AMemberIsLeftOut) {
  three_.chain = {{1, 1}, {3, 3}};
  ExpectBad({"step 3 attempt 3 has parent step 2 attempt 2",
             "expected step 1 attempt 1"});
}

TEST_F(BadChainTest, MembersInAnotherOrder) {
  three_.chain = {{2, 2}, {1, 1}, {3, 3}};
  ExpectBad({"step 1 attempt 1 has no parent"});
}

TEST_F(BadChainTest, AnotherRecordOfTheSameVersion) {
  Member(1).rank_digests[0] ^= 1;
  ExpectBad({"step 1 attempt 1 has lineage digest",
             "of the parent of step 2 attempt 2"});
  Member(1).rank_digests[0] ^= 1;
  Member(2).parent_digest ^= 1;
  ExpectBad({"of the parent of step 2 attempt 2"});
}

TEST_F(LineageTest, PathsAlongALine) {
  const StepRecord one = Full(1, 1);
  const StepRecord two = Delta(2, 2, one);
  const StepRecord three = Delta(3, 3, two);
  ExpectPath({1, 1}, 1, {}, {});
  ExpectPath({1, 1}, 3, {}, {{3, 3}, {2, 2}});
  ExpectPath({2, 2}, 3, {}, {{3, 3}});
  ExpectPath({3, 3}, 1, {{3, 3}, {2, 2}}, {});
  Retire(2);
  ExpectPath({1, 1}, 3, {}, {{3, 3}, {2, 2}});
  ExpectPath({2, 2}, 3, {}, {{3, 3}});
  ExpectPath({3, 3}, 1, {{3, 3}, {2, 2}}, {});
}

TEST_F(LineageTest, PathsAcrossBranches) {
  const StepRecord one = Full(1, 1);
  const StepRecord two = Delta(2, 2, one);
  Delta(3, 3, two);
  const StepRecord side = Delta(4, 4, two);
  Delta(5, 5, side);
  ExpectPath({3, 3}, 5, {{3, 3}}, {{5, 5}, {4, 4}});
  ExpectPath({5, 5}, 3, {{5, 5}, {4, 4}}, {{3, 3}});
  Retire(4);
  ExpectPath({3, 3}, 5, {{3, 3}}, {{5, 5}, {4, 4}});
  ExpectPath({5, 5}, 3, {{5, 5}, {4, 4}}, {{3, 3}});
}

// What one chain keeps of a retired version need not be all that another way
// over it takes.
TEST_F(LineageTest, RetiredVersionsThatNoChainOnTheWayKeeps) {
  const StepRecord one = Full(1, 1);
  const StepRecord two = Delta(2, 2, one);
  const StepRecord three = Delta(3, 3, two);
  Delta(4, 4, three);
  Retire(3);
  Retire(2);
  // Back from a version that is no step: that it is in the chain of step 4
  // says nothing of all its tables.
  ExpectNoPath({3, 3}, 1, {3, 3}, "is retired");
  ExpectPath({3, 3}, 4, {}, {{4, 4}});
  ExpectPath({4, 4}, 1, {{4, 4}, {3, 3}, {2, 2}}, {});
}

TEST_F(LineageTest, PathsEndAtAWholeStep) {
  const StepRecord one = Full(1, 1);
  Delta(2, 2, one);
  const StepRecord three = Full(3, 3);
  Delta(4, 4, three);
  ExpectNoPath({1, 1}, 4, {3, 3}, "was saved in full");
  ExpectNoPath({2, 2}, 3, {3, 3}, "was saved in full");
  ExpectNoPath({2, 2}, 4, {3, 3}, "was saved in full");
  ExpectNoPath({4, 4}, 2, {3, 3}, "was saved in full");
  ExpectPath({3, 3}, 4, {}, {{4, 4}});
}

TEST_F(LineageTest, PathsEndAtWhatIsGone) {
  const StepRecord one = Full(1, 1);
  const StepRecord two = Delta(2, 2, one);
  Delta(3, 3, two);
  ExpectNoPath({2, 9}, 3, {2, 9}, "is gone");
  Retire(2);
  Forget({2, 2});
  ExpectNoPath({2, 2}, 3, {2, 2}, "is gone");
  ExpectNoPath({1, 1}, 3, {2, 2}, "is gone");
  ExpectNoPath({3, 3}, 1, {2, 2}, "is gone");
}

TEST_F(LineageTest, PathsOverADamagedRecord) {
  const StepRecord one = Full(1, 1);
  const StepRecord two = Delta(2, 2, one);
  Delta(3, 3, two);
  catalog_.steps.at(2).rank_digests[0] ^= 1;
  ExpectNoPath({1, 1}, 3, {2, 2}, "lineage digest",
               absl::StatusCode::kDataLoss);
  ExpectNoPath({3, 3}, 1, {2, 2}, "lineage digest",
               absl::StatusCode::kDataLoss);
}

TEST_F(LineageTest, PathsOverFolds) {
  const StepRecord one = Full(1, 1);
  const StepRecord two = Delta(2, 2, one);
  const StepRecord three = Delta(3, 3, two);
  Fold(3, 4);
  // The same state under two versions.
  ExpectPath({3, 3}, 3, {}, {});
  ExpectPath({3, 4}, 3, {}, {});
  ExpectPath({1, 1}, 3, {}, {{3, 3}, {2, 2}});
  ExpectPath({3, 4}, 1, {{3, 3}, {2, 2}}, {});
  // Saved over the step as it was, and as it is.
  const StepRecord before = Delta(5, 5, three);
  ExpectPath({3, 3}, 5, {}, {{5, 5}});
  ExpectPath({3, 4}, 5, {}, {{5, 5}});
  ExpectPath({2, 2}, 5, {}, {{5, 5}, {3, 3}});
  Delta(6, 6, catalog_.steps.at(3));
  ExpectPath({3, 3}, 6, {}, {{6, 6}});
  ExpectPath({3, 4}, 6, {}, {{6, 6}});
  ExpectPath({2, 2}, 6, {}, {{6, 6}, {3, 3}});
  ExpectPath({5, 5}, 6, {{5, 5}}, {{6, 6}});
  Fold(2, 7);
  ExpectPath({1, 1}, 6, {}, {{6, 6}, {3, 3}, {2, 2}});
  ExpectPath({2, 7}, 6, {}, {{6, 6}, {3, 3}});
}

TEST_F(LineageTest, PathsOverFoldsThatAreGone) {
  const StepRecord one = Full(1, 1);
  const StepRecord two = Delta(2, 2, one);
  const StepRecord three = Delta(3, 3, two);
  Fold(3, 4);
  Delta(5, 5, catalog_.steps.at(3));
  // The chain of the folded step keeps nothing of step 2.
  Retire(2);
  ExpectNoPath({1, 1}, 3, {2, 2}, "is retired");
  ExpectNoPath({1, 1}, 5, {2, 2}, "is retired");
  ExpectNoPath({5, 5}, 1, {2, 2}, "is retired");
  ExpectPath({2, 2}, 5, {}, {{5, 5}, {3, 3}});
  // The increment is kept by the folded step, as long as it is one.
  Retire(3);
  ExpectNoPath({2, 2}, 5, {3, 3}, "is retired");
  ExpectPath({3, 3}, 5, {}, {{5, 5}});
  Forget({3, 3});
  ExpectNoPath({2, 2}, 5, {3, 3}, "is gone");
  // Who holds the state under its old version goes on from the folded one.
  ExpectPath({3, 3}, 5, {}, {{5, 5}});
  ExpectPath({3, 4}, 5, {}, {{5, 5}});
}

}  // namespace
}  // namespace ckptdb::internal
