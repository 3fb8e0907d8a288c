// SPDX-License-Identifier: Apache-2.0
// A store or a remote keeps only the files of a version that its steps need. A
// step that needs others must not be left without them.
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "db/reader.h"
#include "db/state.h"
#include "db/store.h"
#include "remote/remote_store.h"
#include "tests/remote/memory_store.h"
#include "tests/support/temp_dir.h"
#include "tests/support/test.h"
#include "tests/tools/held_tables.h"

namespace ckptdb::testing {
namespace {

// Steps have a table "t" and a tensor "u", in different files. The tensor never
// changes, so later steps use that of the first.
class PartialVersionTest : public ::testing::Test {
 protected:
  PartialVersionTest() : u_(size_t{5} << 18, 0.5F) {}

  std::string path() const { return dir_.path() + "/store"; }
  std::string other() const { return dir_.path() + "/other"; }
  void SetUp() override { Open(path()); }
  void Open(const std::string& path) {
    store_.reset();
    StoreOptions options;
    options.background_sweep = false;
    ASSERT_OK_AND_ASSIGN(store_, Store::Open(path, options));
  }
  Version SaveFull(int64_t step, std::optional<Version> parent) {
    return Save(step, parent, 0, 2500, std::nullopt);
  }
  Version SaveDelta(int64_t step, Version parent) {
    return Save(step, parent, 1, 4, HeldTables::Change{});
  }
  void Remove(int64_t step) {
    ASSERT_OK(store_->Delete(step));
    ASSERT_OK(store_->Sweep().status());
  }
  PushResult Push(const std::string& path, bool take_over = false) {
    PushOptions options;
    options.take_over = take_over;
    const auto pushed = PushStore(path, &remote_, options);
    EXPECT_OK(pushed);
    PushResult result = pushed.value_or(PushResult());
    EXPECT_THAT(result.skipped, IsEmpty());
    return result;
  }
  FetchResult Update(const FetchOptions& options) {
    FetchOptions update = options;
    update.update = true;
    const auto fetched = FetchStore(&remote_, other(), update);
    EXPECT_OK(fetched);
    return fetched.value_or(FetchResult());
  }
  static void ExpectWhole(const std::string& path,
                          const std::vector<int64_t>& steps) {
    ASSERT_OK_AND_ASSIGN(const auto reader, Reader::Open(path));
    std::vector<int64_t> found;
    for (const StepRecord& record : reader->Steps()) {
      found.push_back(record.version.step);
      ASSERT_OK_AND_ASSIGN(const auto step,
                           reader->OpenStep(record.version.step));
      EXPECT_OK(step->Verify()) << record.version.step;
    }
    EXPECT_EQ(found, steps);
  }
  // Fetches all steps of the remote.
  void ExpectFetched(const std::vector<int64_t>& steps) {
    const std::string to = dir_.path() + "/fetched";
    std::filesystem::remove_all(to);
    ASSERT_OK(FetchStore(&remote_, to, {.all = true}));
    ExpectWhole(to, steps);
    ASSERT_OK_AND_ASSIGN(const VerifyRemoteResult verified,
                         VerifyRemote(&remote_, {.data = true}));
    EXPECT_THAT(verified.damage, IsEmpty());
  }
  // Ships step 200, which uses the tensor of step 100, after step 100 was
  // removed. The folder other() is a copy of the store as it was before.
  Version ShipAPart() {
    const Version first = SaveFull(100, std::nullopt);
    store_.reset();
    std::filesystem::copy(path(), other(),
                          std::filesystem::copy_options::recursive);
    Open(path());
    SaveFull(200, first);
    Remove(100);
    Push(path());
    ExpectFetched({200});
    return first;
  }

 private:
  Version Save(int64_t step, std::optional<Version> parent, int64_t first,
               int64_t end, std::optional<HeldTables::Change> change) {
    constexpr uint32_t kWidth = 512;
    HeldTables::RowList rows;
    for (int64_t id = first; id < end; ++id) {
      rows.emplace_back(id, std::string(kWidth, static_cast<char>(step)));
    }
    HeldTables tables;
    tables.Add("t", {{"v", DType::kU8, kWidth}}, rows, std::move(change));
    tables.state()->AddTensor(
        "u", TensorView::Of(u_.data(), {static_cast<int64_t>(u_.size())}));
    SaveSpec spec;
    spec.step = step;
    spec.parent = parent;
    spec.abandoned = SaveSpec::Abandoned::kKeep;
    const auto saved = store_->Save(spec, *tables.state());
    EXPECT_OK(saved);
    return saved.ok() ? saved->version : Version();
  }

 protected:
  TempDir dir_;
  const std::vector<float> u_;
  std::unique_ptr<Store> store_;
  MemoryStore remote_;
};

TEST_F(PartialVersionTest, ATakeOverShipsTheFilesThatTheRemoteLacks) {
  const Version first = ShipAPart();
  Open(other());
  SaveDelta(150, first);
  EXPECT_THAT(Push(other(), /*take_over=*/true).shipped, ElementsAre(100, 150));
  ExpectFetched({100, 150});
}

TEST_F(PartialVersionTest, ATakeOverShipsTheFilesOfAChain) {
  const Version first = ShipAPart();
  Open(other());
  SaveDelta(150, first);
  Remove(100);
  EXPECT_THAT(Push(other(), /*take_over=*/true).shipped, ElementsAre(150));
  ExpectFetched({150});
  // The objects that were replaced wait like dropped ones.
  ASSERT_OK_AND_ASSIGN(const CollectResult collected, CollectRemote(&remote_));
  EXPECT_GT(collected.waiting_bytes, 0);
  remote_.Advance(absl::Hours(25));
  ASSERT_OK(CollectRemote(&remote_));
  ExpectFetched({150});
}

// The store removed files that it had shipped.
TEST_F(PartialVersionTest, FilesThatTheRemoteHasAreNotShippedAgain) {
  const Version first = SaveFull(100, std::nullopt);
  Push(path());
  const Version second = SaveFull(200, first);
  Remove(100);
  EXPECT_THAT(Push(path()).shipped, ElementsAre(200));
  ASSERT_OK(CollectRemote(&remote_, {.keep = 1}));
  SaveDelta(300, second);
  remote_.calls().clear();
  EXPECT_EQ(Push(path()).data_files, 0);
  EXPECT_EQ(remote_.calls()["get versions"], 1);  // that of step 100
  ExpectFetched({200, 300});
}

// The copy keeps only the tensor of step 100, for step 200. Then training goes
// back to step 100.
TEST_F(PartialVersionTest, AnUpdateBringsFilesThatTheCopyRemoved) {
  const Version first = SaveFull(100, std::nullopt);
  Push(path());
  Update({});
  SaveFull(200, first);
  Push(path());
  EXPECT_THAT(Update({.keep = 1}).removed, ElementsAre(100));
  Remove(200);
  const Version again = SaveDelta(210, first);
  Push(path());
  EXPECT_THAT(Update({.keep = 1}).removed, ElementsAre(200));
  ExpectWhole(other(), {210});
  SaveDelta(220, again);
  Push(path());
  remote_.calls().clear();
  EXPECT_THAT(Update({.keep = 1}).removed, ElementsAre(210));
  EXPECT_EQ(remote_.calls()["get versions"], 1);
  ExpectWhole(other(), {220});
}

// Steps 201 and 300 are of two branches, and attempt 3 lies within the branch
// of step 300.
TEST_F(PartialVersionTest, AnUpdateTellsBranchesApart) {
  const Version first = SaveFull(100, std::nullopt);
  Push(path());
  Update({});
  const Version second = SaveDelta(200, first);
  SaveFull(201, first);
  Push(path());
  EXPECT_THAT(Update({.keep = 1}).removed, ElementsAre(100));
  ExpectWhole(other(), {201});
  SaveDelta(300, second);
  Push(path());
  EXPECT_THAT(Update({.keep = 1}).removed, ElementsAre(201));
  ExpectWhole(other(), {300});
}

}  // namespace
}  // namespace ckptdb::testing
