// SPDX-License-Identifier: Apache-2.0
// A process on the machine's own disk is killed at each named point of a save
// and of a sweep. The old steps stay, the new one is there exactly when the
// commit was passed, and what is left over goes with the next sweep.

#include "db/options.h"
#include "tests/db/child.h"
#include "tests/db/store_fixture.h"

namespace ckptdb::testing {
namespace {

namespace fs = std::filesystem;

enum class Change { kSave, kOverwrite };

class CrashPointsTest
    : public ::testing::TestWithParam<std::tuple<std::string, Change, bool>> {
 protected:
  std::string path() const { return dir_.path() + "/store"; }
  static std::string point() { return std::get<0>(GetParam()); }
  static int64_t step() {
    return std::get<1>(GetParam()) == Change::kSave ? 30 : 20;
  }
  static RankContent Content(uint64_t seed) {
    return std::get<2>(GetParam()) ? BulkContent(seed) : SmallContent(seed);
  }
  static absl::Status Save(Store* store, int64_t step,
                           const RankContent& content) {
    const HeldState held(content);
    return store->Save({.step = step, .overwrite = true}, held.state())
        .status();
  }
  // Steps 10 and 20, and garbage.
  void Prepare() {
    StoreOptions options{.background_sweep = false};
    ASSERT_OK_AND_ASSIGN(const auto store, Store::Open(path(), options));
    for (const int64_t step : {int64_t{5}, int64_t{10}, int64_t{20}})
      ASSERT_OK(Save(store.get(), step, Content(static_cast<uint64_t>(step))));
    ASSERT_OK(store->Delete(5));
  }
  // Saves and sweeps in another process, until the point kills it.
  void DieAtPoint() {
    Child child({"crash", path(), point(), absl::StrCat(step()), "77",
                 std::get<2>(GetParam()) ? "bulk" : "inline"});
    ASSERT_EQ(child.ReadLine(), "");
    ASSERT_EQ(child.Wait(), -1);
  }
  static bool Committed() {
    const auto at = std::find(kCrashPoints.begin(), kCrashPoints.end(),
                              absl::string_view(point()));
    const auto commit =
        std::find(kCrashPoints.begin(), kCrashPoints.end(), point::kCommitted);
    return at >= commit;
  }
  std::map<int64_t, uint64_t> Seeds() const {
    std::map<int64_t, uint64_t> seeds = {{10, 10}, {20, 20}};
    if (Committed()) seeds[step()] = 77;
    return seeds;
  }
  void ExpectSteps(Store* store, const std::map<int64_t, uint64_t>& seeds) {
    EXPECT_EQ(store->Steps().size(), seeds.size());
    for (const auto& [step, seed] : seeds) {
      SCOPED_TRACE(absl::StrCat("step ", step));
      ASSERT_OK_AND_ASSIGN(const auto reader, store->OpenStep(step));
      ExpectHolds(*reader, {Content(seed)});
      EXPECT_OK(reader->Verify());
    }
  }
  void ExpectNoOrphans(Store* store) {
    EXPECT_TRUE(store->Sweep().value().quarantined_versions.empty());
    ASSERT_OK_AND_ASSIGN(const Usage usage, store->GetUsage());
    EXPECT_TRUE(usage.held_versions.empty())
        << ToString(usage.held_versions[0].version);
    EXPECT_TRUE(fs::is_empty(path() + "/staging"));
    uint64_t needed = uint64_t{1} << 20;
    for (const Usage::Step& step : usage.steps) needed += step.exclusive_bytes;
    uint64_t tables = 0;
    for (const auto& file : fs::directory_iterator(path() + "/db")) {
      if (file.path().extension() == ".sst") tables += file.file_size();
    }
    EXPECT_LE(tables, needed);
  }
  TempDir dir_;
};

TEST_P(CrashPointsTest, DieAndReopen) {
  ASSERT_NO_FATAL_FAILURE(Prepare());
  ASSERT_NO_FATAL_FAILURE(DieAtPoint());
  std::map<int64_t, uint64_t> seeds = Seeds();
  StoreOptions options{.background_sweep = false};
  ASSERT_OK_AND_ASSIGN(auto store, Store::Open(path(), options));
  ASSERT_NO_FATAL_FAILURE(ExpectSteps(store.get(), seeds));
  ASSERT_NO_FATAL_FAILURE(ExpectNoOrphans(store.get()));
  seeds[40] = 40;
  ASSERT_OK(Save(store.get(), 40, Content(40)));
  store.reset();
  ASSERT_OK_AND_ASSIGN(store, Store::Open(path()));
  ExpectSteps(store.get(), seeds);
}

std::vector<std::string> PointNames() {
  return {kCrashPoints.begin(), kCrashPoints.end()};
}

INSTANTIATE_TEST_SUITE_P(
    EachPoint, CrashPointsTest,
    ::testing::Combine(::testing::ValuesIn(PointNames()),
                       ::testing::Values(Change::kSave, Change::kOverwrite),
                       ::testing::Bool()),
    [](const auto& each) {
      std::string name = std::get<0>(each.param);
      std::replace(name.begin(), name.end(), ':', '_');
      return absl::StrCat(
          name,
          std::get<1>(each.param) == Change::kSave ? "_save" : "_overwrite",
          std::get<2>(each.param) ? "_bulk" : "_inline");
    });

}  // namespace
}  // namespace ckptdb::testing
