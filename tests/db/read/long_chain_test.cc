// SPDX-License-Identifier: Apache-2.0
// A thousand small deltas over one base, on a simulated disk: the time that it
// takes is the store's own.

#include "tests/db/delta_fixture.h"
#include "tests/db/sim_store.h"

namespace ckptdb::testing {
namespace {

// Whether retention keeps all steps, or the last one alone.
class LongChainTest : public ::testing::TestWithParam<bool> {
 protected:
  // Fewer steps if all are kept, because each sweep then looks at all of them.
  static int64_t Steps() {
    const int64_t steps = GetParam() ? 400 : 1000;
    return kSanitized && !IsLongRun() ? steps / 2 : steps;
  }
  void SetUp() override {
    ASSERT_OK(sim_.Open());
    ASSERT_NO_FATAL_FAILURE(SaveStep(0));
  }
  void SaveStep(int64_t step) {
    TableContent& table = content_.tables["user"];
    const TableContent before = table;
    table.rows[step % 77] = RowOf(step, 1);
    table.rows.erase(step % 55);
    const HeldChanges held(content_,
                           {{"user", DeltaBetween(before.rows, table.rows)}});
    SaveSpec spec;
    spec.step = step;
    spec.parent = parent_;
    if (!GetParam() && step > 0) spec.retire = {step - 1};
    ASSERT_OK_AND_ASSIGN(const SaveResult saved,
                         sim_.store()->Save(spec, held.state()));
    EXPECT_EQ(saved.deltas, static_cast<uint64_t>(step));
    parent_ = saved.version;
  }
  SimStore sim_{std::make_shared<SimFileSystem>()};
  RankContent content_ = UserContent({1, 2, 3, 100, 200});
  std::optional<Version> parent_;
};

TEST_P(LongChainTest, SavesRestoresAndFollows) {
  const Rows base = content_.tables["user"].rows;
  const Version first = *parent_;
  for (int64_t step = 1; step <= Steps(); ++step) {
    ASSERT_NO_FATAL_FAILURE(SaveStep(step));
    if (step % 10 != 0) continue;
    ASSERT_OK(sim_.store()->Sweep());
  }
  ASSERT_OK(sim_.Open());
  const TableContent& table = content_.tables["user"];
  {
    ASSERT_OK_AND_ASSIGN(const auto step, sim_.store()->OpenStep(Steps()));
    EXPECT_EQ(step->record().chain.size(), static_cast<size_t>(Steps()) + 1);
    ExpectHolds(*step, {content_});
    ExpectLookups(*step, "user", table, {0, 1, 54, 55, 76, 100, 101});
    EXPECT_OK(step->Verify());
  }
  ASSERT_OK(sim_.store()->GetUsage());
  ASSERT_OK_AND_ASSIGN(const auto changes,
                       sim_.store()->OpenChanges(first, Steps()));
  LiveRows live(table.slots, base);
  ASSERT_OK(changes->ScanTable("user", {}, &live));
  EXPECT_TRUE(live.rows() == table.rows);
}

TEST_P(LongChainTest, FoldsIntoABase) {
  for (int64_t step = 1; step <= Steps() / 4; ++step)
    ASSERT_NO_FATAL_FAILURE(SaveStep(step));
  EXPECT_EQ(sim_.store()->Fold(Steps() / 4).value().written_rows,
            content_.tables["user"].rows.size());
  ASSERT_OK(sim_.store()->Sweep());
  ExpectHolds(*sim_.store()->OpenStep(Steps() / 4).value(), {content_});
}

INSTANTIATE_TEST_SUITE_P(Kept, LongChainTest, ::testing::Bool(),
                         [](const auto& each) {
                           return each.param ? "all" : "latest";
                         });

}  // namespace
}  // namespace ckptdb::testing
