// SPDX-License-Identifier: Apache-2.0
// Chains, branches and ways between steps, over records alone.
#include "db/meta/lineage.h"

#include "schema/records/records.h"
#include "tests/support/status_matchers.h"

namespace ckptdb::internal {
namespace {

using ::ckptdb::testing::DataLoss;
using ::ckptdb::testing::StatusIs;
using ::testing::AllOf;
using ::testing::HasSubstr;

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
  void Forget(const Version& version) { catalog_.retired.erase(version); }
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

// The store's tests have the other damage to chains.
TEST_F(LineageTest, ChainOfMembersInAnotherOrder) {
  const StepRecord one = Full(1, 1);
  StepRecord three = Delta(3, 3, Delta(2, 2, one));
  EXPECT_OK(ChainOf(catalog_, three));
  three.chain = {{2, 2}, {1, 1}, {3, 3}};
  EXPECT_THAT(
      ChainOf(catalog_, three),
      DataLoss("chain of step 3 attempt 3", "step 1 attempt 1 has no parent"));
}

TEST_F(LineageTest, PathsAlongALine) {
  const StepRecord one = Full(1, 1);
  const StepRecord two = Delta(2, 2, one);
  const StepRecord three = Delta(3, 3, two);
  ExpectPath({1, 1}, 1, {}, {});
  for (const bool retired : {false, true}) {
    if (retired) Retire(2);
    ExpectPath({1, 1}, 3, {}, {{3, 3}, {2, 2}});
    ExpectPath({2, 2}, 3, {}, {{3, 3}});
    ExpectPath({3, 3}, 1, {{3, 3}, {2, 2}}, {});
  }
}

TEST_F(LineageTest, PathsAcrossBranches) {
  const StepRecord one = Full(1, 1);
  const StepRecord two = Delta(2, 2, one);
  Delta(3, 3, two);
  const StepRecord side = Delta(4, 4, two);
  Delta(5, 5, side);
  for (const bool retired : {false, true}) {
    if (retired) Retire(4);
    ExpectPath({3, 3}, 5, {{3, 3}}, {{5, 5}, {4, 4}});
    ExpectPath({5, 5}, 3, {{5, 5}, {4, 4}}, {{3, 3}});
  }
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

TEST_F(LineageTest, PathsEndAtWholeStepsDamageAndWhatIsGone) {
  const StepRecord one = Full(1, 1);
  Delta(2, 2, one);
  const StepRecord three = Full(3, 3);
  const StepRecord four = Delta(4, 4, three);
  Delta(5, 5, four);
  for (const auto& [from, to] :
       {std::pair{one.version, 4}, {{2, 2}, 3}, {{2, 2}, 4}, {{4, 4}, 2}}) {
    ExpectNoPath(from, to, {3, 3}, "was saved in full");
  }
  ExpectPath({3, 3}, 4, {}, {{4, 4}});
  catalog_.steps.at(4).rank_digests[0] ^= 1;
  constexpr auto kDamage = absl::StatusCode::kDataLoss;
  ExpectNoPath({3, 3}, 5, {4, 4}, "lineage digest", kDamage);
  ExpectNoPath({5, 5}, 3, {4, 4}, "lineage digest", kDamage);
  ExpectNoPath({4, 9}, 5, {4, 9}, "is gone");
  Retire(4);
  Forget({4, 4});
  ExpectNoPath({4, 4}, 5, {4, 4}, "is gone");
  ExpectNoPath({3, 3}, 5, {4, 4}, "is gone");
  ExpectNoPath({5, 5}, 3, {4, 4}, "is gone");
}

TEST_F(LineageTest, PathsOverFolds) {
  const StepRecord one = Full(1, 1);
  const StepRecord two = Delta(2, 2, one);
  const StepRecord three = Delta(3, 3, two);
  Fold(3, 4);
  ExpectPath({3, 3}, 3, {}, {});
  ExpectPath({3, 4}, 3, {}, {});
  ExpectPath({1, 1}, 3, {}, {{3, 3}, {2, 2}});
  ExpectPath({3, 4}, 1, {{3, 3}, {2, 2}}, {});
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
