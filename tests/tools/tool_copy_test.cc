// SPDX-License-Identifier: Apache-2.0
// ckptdb copy: to new and existing stores, with and without chains.
#include <sys/mount.h>

#include <filesystem>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "db/state.h"
#include "schema/status.h"
#include "tests/support/forked.h"
#include "tests/support/name_space.h"
#include "tests/support/seed.h"
#include "tests/support/source_folder.h"
#include "tests/tools/store_bytes.h"
#include "tests/tools/tool_fixture.h"
#include "tools/step_copy.h"

namespace ckptdb::testing {
namespace {

namespace fs = std::filesystem;

class CopyFixture : public ToolFixture {
 protected:
  absl::StatusOr<std::unique_ptr<Store>> MakeStore() const override {
    CKPTDB_RETURN_IF_ERROR(MakeDeltaStore(deltas()).status());
    return MakeSampleStore(path());
  }
  std::string deltas() const { return dir_.path() + "/deltas"; }
  std::string target() const { return dir_.path() + "/target"; }

  // The document that it prints.
  static Json Copy(const std::string& from, const std::string& to,
                   const std::string& flags = "") {
    const ToolResult result =
        RunLine("copy " + from + " " + to + " --json" + flags);
    EXPECT_EQ(result.code, 0) << result.err;
    return result.Json();
  }
  static void ExpectSameStep(const std::string& a, const std::string& b,
                             int64_t step) {
    ASSERT_OK_AND_ASSIGN(const auto first, Reader::Open(a));
    ASSERT_OK_AND_ASSIGN(const auto second, Reader::Open(b));
    ASSERT_OK_AND_ASSIGN(const auto x, first->OpenStep(step));
    ASSERT_OK_AND_ASSIGN(const auto y, second->OpenStep(step));
    EXPECT_OK(tool::CompareContents(*x, *y, {}));
    EXPECT_OK(y->Verify());
    EXPECT_EQ(x->record().metrics, y->record().metrics);
    EXPECT_EQ(x->record().world_size, y->record().world_size);
  }
};

TEST_F(CopyFixture, NewStoreKeepsTheChain) {
  const auto before = BytesBelow(deltas());
  const Json json = Copy(deltas() + ":400", target());
  EXPECT_EQ(BytesBelow(deltas()), before);
  EXPECT_THAT(json, Includes(R"({"created": true, "step": 400, "kind": "delta",
                                 "chain_length": 4})"));
  ExpectSameStep(deltas(), target(), 400);
  EXPECT_EQ(RunLine("ls --json -s " + target()).Json()["steps"].size(), 1);
}

TEST_F(CopyFixture, DivisionByRangesOfIds) {
  const std::string golden = SourcePath("tests/golden/id_ranges/store");
  const std::string from = dir_.path() + "/ranges";
  std::filesystem::copy(golden, from, std::filesystem::copy_options::recursive);
  const Json ls = RunLine("ls --json -s " + from).Json();
  ASSERT_THAT(ls["steps"], Not(IsEmpty()));
  for (const Json& each : ls["steps"]) {
    const int64_t step = each["step"].get<int64_t>();
    Copy(from + ":" + std::to_string(step), target(), " --flatten");
    ExpectSameStep(from, target(), step);
    const auto shardings = [&](const std::string& store) {
      Json lines = Json::array();
      const ToolResult items =
          RunLine("items " + std::to_string(step) + " --json -s " + store);
      const Json document = items.Json();
      for (const Json& item : document["items"]) {
        if (item["kind"] != "table") continue;
        lines.push_back({item["name"], item["rank"], item["sharding"]});
      }
      return lines;
    };
    EXPECT_EQ(shardings(target()), shardings(from));
  }
}

TEST_F(CopyFixture, FlattenMergesTheChain) {
  const Json json = Copy(deltas() + ":300", target(), " --flatten --copy");
  EXPECT_THAT(json, Includes(R"({"step": 300, "kind": "full",
                                 "chain_length": 1})"));
  ExpectSameStep(deltas(), target(), 300);
}

TEST_F(CopyFixture, ExistingStoreReceivesFullSteps) {
  Copy(deltas() + ":400", path());
  ExpectSameStep(deltas(), path(), 400);
  // Two ranks, divided by slices.
  Copy(path() + ":300", deltas() + "/../deltas2");
  EXPECT_EQ(RunLine("rm 300 -s " + deltas()).code, 0);
  ExpectFails("copy " + path() + ":300 " + deltas(), 5,
              AllOf(HasSubstr("the latest step is 400"), HasSubstr("--older")));
  Copy(path() + ":300", deltas(), " --older");
  ExpectSameStep(path(), deltas(), 300);
  EXPECT_EQ(RunLine("show latest --json -s " + deltas()).Json()["step"], 300);
  ExpectFails("copy " + path() + ":100 " + deltas() + " --older", 5,
              HasSubstr("has a step 100 already"));
  // The copy keeps the source's times.
  ASSERT_OK_AND_ASSIGN(const auto reader, Reader::Open(path()));
  ASSERT_OK_AND_ASSIGN(const StepRecord source, reader->FindStep(300));
  ASSERT_OK_AND_ASSIGN(const auto copied, Reader::Open(deltas()));
  ASSERT_OK_AND_ASSIGN(const StepRecord copy, copied->FindStep(300));
  EXPECT_EQ(copy.save_micros, source.save_micros);
  EXPECT_EQ(copy.committed_at_micros, source.committed_at_micros);
  EXPECT_EQ(Steps(), (std::vector<int64_t>{100, 200, 300, 400}));
}

TEST_F(CopyFixture, LossyValuesStayAsTheyAre) {
  const std::vector<int64_t> ids = {1, 2};
  const std::vector<float> values = {0.1F, 0.2F, 0.35F, 0.4F, 7, 8, 9, 1};
  const RowSource::Arrays rows(ids, {{values.data(), 16}});
  RankState state;
  state.AddTable("lossy", {{"v", DType::kF32, 4, Codec::kInt8}}, &rows);
  state.AddTensor("w", TensorView::Of(values.data(), {8}), Codec::kBf16);
  Own();
  ASSERT_OK(store_->Save({.step = 800}, state));
  Disown();
  Copy(path() + ":800", deltas());
  ExpectSameStep(path(), deltas(), 800);
}

TEST_F(CopyFixture, ShardingsStayAsDeclared) {
  Own();
  for (const auto& [step, sharding] :
       {std::pair<int64_t, TableSharding>{500, TableSharding::ByModulo()},
        {600, TableSharding::ByFunction(
                  "odd", [](int64_t id, uint32_t) { return id % 2; })},
        {700, TableSharding::Replicated()},
        {800, TableSharding::Unchecked()}}) {
    SaveSpec spec;
    spec.step = step;
    spec.world_size = 2;
    ASSERT_OK_AND_ASSIGN(const Store::Attempt attempt, store_->Begin(spec));
    std::vector<StagedRank> staged;
    for (int64_t rank = 0; rank < 2; ++rank) {
      const std::vector<int64_t> ids = {rank, rank + 2};
      const std::vector<float> values = {1.0F + rank, 3.0F + rank};
      const bool empty =
          rank > 0 && sharding.kind() == Item::Sharding::kReplicated;
      const absl::Span<const int64_t> held(ids.data(), empty ? 0 : 2);
      const RowSource::Arrays rows(held, {{values.data(), 4}});
      RankState state;
      state.AddTable("t", {{"v", DType::kF32, 1}}, &rows, SliceHash::kModulo,
                     sharding);
      state.AddBlob("of rank", rank == 0 ? "zero" : "one");
      ASSERT_OK_AND_ASSIGN(staged.emplace_back(),
                           Stage(path(), attempt.tickets[rank], state));
    }
    ASSERT_OK(store_->Publish(attempt.version, staged));
  }
  Disown();
  for (const int64_t step : {500, 600, 700, 800}) {
    Copy(path() + ":" + std::to_string(step), deltas());
    ExpectSameStep(path(), deltas(), step);
    const auto tables = [&](const std::string& store) {
      return RunLine("show " + std::to_string(step) + " --json -s " + store)
          .Json()["tables"];
    };
    EXPECT_EQ(tables(path()), tables(deltas()));
  }
}

// Other users, such as servers, read the copy as they read the source.
TEST_F(CopyFixture, FilesKeepTheModesOfTheSource) {
  constexpr auto kShared = fs::perms::owner_read | fs::perms::owner_write |
                           fs::perms::group_read | fs::perms::others_read;
  StoreOptions options;
  options.directory_mode = 0755;
  options.file_mode = 0644;
  const std::string shared = dir_.path() + "/shared";
  {
    RankState state;
    state.AddBlob("b", "bytes");
    ASSERT_OK_AND_ASSIGN(const auto store, Store::Open(shared, options));
    ASSERT_OK(store->Save({.step = 1}, state));
    ASSERT_OK(store->Save({.step = 2}, state));
  }
  Copy(shared + ":1", target());
  ASSERT_EQ(RunLine("backup " + dir_.path() + "/backups -s " + shared).code, 0);
  ASSERT_EQ(RunLine("restore-backup " + dir_.path() + "/backups " +
                    dir_.path() + "/restored")
                .code,
            0);
  for (const std::string& copy : {target(), dir_.path() + "/restored"}) {
    for (const auto& entry : fs::directory_iterator(copy + "/db")) {
      EXPECT_EQ(entry.status().permissions() & kShared, kShared) << entry;
    }
  }
}

TEST_F(CopyFixture, NamesWhatIsWrong) {
  EXPECT_EQ(RunLine("copy " + path() + ":999 " + target()).code, 2);
  EXPECT_FALSE(fs::exists(target()));
  EXPECT_EQ(RunLine("copy " + dir_.path() + "/none " + target()).code, 2);
  fs::create_directories(target());
  std::ofstream(target() + "/notes") << "mine";
  EXPECT_EQ(RunLine("copy " + path() + " " + target()).code, 2);
  EXPECT_EQ(std::distance(fs::directory_iterator(target()), {}), 1);
  Own();
  EXPECT_EQ(RunLine("copy " + deltas() + " " + path()).code, 4);
  // The source may be open.
  EXPECT_EQ(RunLine("copy " + path() + " " + dir_.path() + "/two").code, 0);
  Disown();
}

// Following the advice to remove the existing step would delete the only copy.
TEST_F(CopyFixture, AStoreIsNotCopiedToItself) {
  const std::string link = dir_.path() + "/link";
  fs::create_symlink(path(), link);
  for (const std::string& same : {path(), link, path() + "/"}) {
    const ToolResult result = RunLine("copy " + path() + ":300 " + same);
    EXPECT_EQ(result.code, 1);
    EXPECT_THAT(result.err, HasSubstr("are the same store"));
  }
  const ToolResult inside =
      RunLine("copy " + deltas() + " " + path() + "/staging/copy");
  EXPECT_EQ(inside.code, 1);
  EXPECT_THAT(inside.err, HasSubstr("lies inside it"));
}

TEST_F(CopyFixture, AQuarantinedStepDoesNotBecomeTheLatestOfAnotherStore) {
  ASSERT_EQ(RunLine("quarantine 400 -s " + deltas()).code, 0);
  const std::string source = deltas() + ":400";
  const ToolResult refused = RunLine("copy " + source + " " + path());
  EXPECT_EQ(refused.code, 5);
  EXPECT_THAT(refused.err, HasSubstr("quarantine --undo 400 -s " + deltas()));
  EXPECT_EQ(Steps().size(), 3);
  // A new store keeps the mark.
  Copy(source, target());
  const Json ls = RunLine("ls --json -s " + target()).Json();
  EXPECT_EQ(ls["steps"][0]["quarantined"], true);
  ASSERT_EQ(RunLine("quarantine --undo 400 -s " + deltas()).code, 0);
  Copy(source, path());
}

// The target's manager has its own retention policy.
TEST_F(CopyFixture, TheRetentionOfTheSourceStaysThere) {
  RankState state;
  state.AddBlob("b", "bytes");
  SaveSpec spec = {.step = 900};
  spec.user_metadata = {{"ckptdb.retention", R"({"latest_n": 20})"},
                        {"ckptdb.saved_because", "step 900 is the last"}};
  {
    ASSERT_OK_AND_ASSIGN(const auto source, Store::Open(target()));
    ASSERT_OK(source->Save(spec, state));
  }
  Copy(target(), path());
  ASSERT_OK_AND_ASSIGN(const auto reader, Reader::Open(path()));
  ASSERT_OK_AND_ASSIGN(const StepRecord copy, reader->FindStep(900));
  spec.user_metadata.erase("ckptdb.retention");
  EXPECT_EQ(copy.user_metadata, spec.user_metadata);
}

// The contents are first written to memory in files of the target.
TEST_F(CopyFixture, AFullDiskIsAnErrorAndLeavesNothing) {
  constexpr int64_t kElements = int64_t{26} << 20;  // zeros take no space here
  {
    const std::vector<float> zeros(kElements);
    RankState state;
    state.AddTensor("big", TensorView::Of(zeros.data(), {kElements}),
                    Codec::kLz4);
    Own();
    ASSERT_OK(store_->Save({.step = 900}, state));
    Disown();
  }
  fs::create_directory(target());
  ExpectInChild([&]() -> std::string {
    // More than the reserve of 64 MiB, and less than that and the contents.
    if (!EnterNameSpace().ok() ||
        mount("none", target().c_str(), "tmpfs", 0, "size=90m") != 0) {
      return "";  // may not mount
    }
    const std::string small = target() + "/store";
    ToolResult result = RunLine("copy " + deltas() + " " + small);
    if (result.code != 0) return result.err;
    result = RunLine("copy " + path() + ":900 " + small);
    if (result.code != 5 || result.err.find("No space") == std::string::npos) {
      return absl::StrCat(result.code, " ", result.err);
    }
    result = RunLine("ls --json -s " + small);
    return result.Json()["steps"].size() == 1 ? "" : result.out;
  });
}

TEST_F(CopyFixture, KilledLeavesNothing) {
  std::mt19937_64 random(TestSeed());
  for (int i = 0; i < 12; ++i) {
    ToolSetting setting;
    setting.kill_after = std::chrono::microseconds(random() % 60'000);
    RunTool({"copy", deltas() + ":400", target()}, setting);
    if (fs::exists(target())) {
      ExpectSameStep(deltas(), target(), 400);
      fs::remove_all(target());
    }
    RunTool({"copy", deltas() + ":400", path()}, setting);
    if (Steps().size() == 4) {
      ExpectSameStep(deltas(), path(), 400);
      EXPECT_EQ(Run("rm 400").code, 0);
    }
    EXPECT_EQ(Steps().size(), 3);
  }
  EXPECT_EQ(Run("gc").code, 0);
  EXPECT_TRUE(fs::is_empty(path() + "/staging"));
  EXPECT_EQ(Run("verify").code, 0);
}

}  // namespace
}  // namespace ckptdb::testing
