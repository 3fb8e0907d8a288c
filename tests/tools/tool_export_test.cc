// SPDX-License-Identifier: Apache-2.0
// export: a step as files of other systems, and back. Exports and imports that
// are interrupted.
#include <sys/mount.h>
#include <sys/stat.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <csignal>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <functional>
#include <mutex>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/support/forked.h"
#include "tests/support/name_space.h"
#include "tests/tools/export_fixture.h"
#include "tests/tools/tool_fixture.h"
#include "tools/command_line.h"
#include "tools/slots_argument.h"

namespace ckptdb::testing {
namespace {

namespace fs = std::filesystem;

TEST_F(ToolExport, RoundTripsAreExact) {
  ExpectRoundTrip("100", "npz", ".npz");
  ExpectRoundTrip("100", "npy", ".npy");
  ExpectRoundTrip("100", "safetensors", ".safetensors");
}

// Rows that deltas replaced or erased are not exported.
TEST_F(ToolExport, DeltaStepHasItsRows) {
  const std::vector<std::string> rows = RowsOf(path(), "400", "user");
  EXPECT_EQ(rows.size(), 10u);
  EXPECT_EQ(rows.front(),
            R"({"embedding":[99,99.25,99.5,99.75],"freq":1,"id":-1})");
  EXPECT_THAT(RunJson("export 400 user --npz " + out()),
              Includes(R"({"tensors": 0, "tables": 1, "rows": 10})"));
}

TEST_F(ToolExport, TextHasEveryDType) {
  ExpectRun("export 100 types --csv " + out(), 0, HasSubstr("1 tables"), "");
  EXPECT_EQ(
      TextOf(out() + "/types.csv"),
      "id,f64[0],f64[1],f32[0],f32[1],f16[0],f16[1],bf16[0],bf16[1],f8e4m3[0],"
      "f8e4m3[1],f8e5m2[0],f8e5m2[1],i64[0],i64[1],i32[0],i32[1],i16[0],i16[1],"
      "i8[0],i8[1],u64[0],u64[1],u32[0],u32[1],u16[0],u16[1],u8[0],u8[1],"
      "bool[0],bool[1]\n"
      "7,0.1,-inf,0.1,nan,1.0009766,65504,1.0078125,inf,1.125,nan,1.25,-inf,"
      "-9223372036854775808,9223372036854775807,-2147483648,2147483647,-32768,"
      "32767,-128,127,0,18446744073709551615,0,4294967295,0,65535,0,255,true,"
      "false\n");
  EXPECT_THAT(RowsOf(path(), "100", "types").front(),
              AllOf(HasSubstr(R"("f32":[0.1,"nan"],"f64":[0.1,"-inf"])"),
                    HasSubstr(R"("bool":[true,false])")));
}

TEST_F(ToolExport, SelectsRowsAndSlots) {
  ExpectRun("export 100 user --csv " + out() + " --ids -2,3-5 --slots freq", 0,
            HasSubstr("of 4 rows"), "");
  EXPECT_THAT(SortedLines(out() + "/user.csv"),
              ElementsAre("-2,1", "3,1", "4,1", "5,1", "id,freq"));
  const ToolResult filtered =
      RunTool({"export", "100", "user", "--npz", out(), "-s", path(), "--where",
               "embedding[0] >= 104", "--json"});
  EXPECT_EQ(filtered.Json()["rows"], 4) << filtered.err;
  ExpectFails("export 100 --csv " + out() + "2 --slots none", 2,
              HasSubstr("slot \"none\""));
  ExpectFails("export 100 --csv " + out() + "2 --where freq<1", 1,
              HasSubstr("table \"item\""));
  EXPECT_FALSE(fs::exists(out() + "2"));
}

TEST_F(ToolExport, SaysWhatIsMissing) {
  ExpectFails("export 100 nothing --npz " + out(), 2, HasSubstr("nothing"));
  ExpectFails("export 100 usr --csv " + out(), 2,
              HasSubstr("did you mean \"user\"?"));
  ExpectFails("export 100 w --csv " + out(), 2, HasSubstr("no table"));
  ExpectFails("export 150 --npz " + out(), 2, HasSubstr("150"));
  EXPECT_EQ(Run("export 100").code, 1);
  EXPECT_EQ(Run("export 100 --npz a --npy b").code, 1);
  ExpectFails("export 100 --world 2 --npz " + out(), 1, HasSubstr("--recis"));
  ExpectFails("export 100 --shard-bytes 2 --npz " + out(), 1,
              HasSubstr("--safetensors"));
  ExpectRun("export 100 --npz " + out(), 0,
            HasSubstr("1 blobs are not exported"), "");
}

// Other libraries refuse a file of safetensors with such an array.
TEST_F(ToolExport, RefusesAnArrayNamedAsTheMetadataOfSafetensors) {
  const float value = 1;
  RankState state;
  state.AddTensor("__metadata__", TensorView::Of(&value, {}));
  Own();
  ASSERT_OK(store_->Save({.step = 500}, state));
  Disown();
  ExpectFails("export 500 --safetensors " + out(), 1,
              AllOf(HasSubstr("__metadata__"), HasSubstr("--npz")));
  EXPECT_FALSE(fs::exists(out()));
  EXPECT_EQ(Run("export 500 --npz " + out()).code, 0);
}

TEST_F(ToolExport, OverwritesOnlyIfForced) {
  ASSERT_EQ(Run("export 100 --npz " + out()).code, 0);
  const std::string before = TextOf(out() + "/step-100.npz");
  ExpectFails("export 100 user --npz " + out(), 5,
              AllOf(HasSubstr("step-100.npz"), HasSubstr("--force")));
  EXPECT_EQ(TextOf(out() + "/step-100.npz"), before);
  EXPECT_EQ(Run("export 100 user --npz " + out() + " --force").code, 0);
  EXPECT_NE(TextOf(out() + "/step-100.npz"), before);
  EXPECT_THAT(NamesIn(out()), ElementsAre("step-100.npz"));
}

TEST_F(ToolExport, ChangesNoByteOfTheStore) {
  const auto content = [&] {
    std::string all;
    for (const auto& entry : fs::recursive_directory_iterator(path())) {
      if (entry.is_regular_file()) {
        absl::StrAppend(&all, entry.path().string(), "\n",
                        TextOf(entry.path().string()));
      }
    }
    return all;
  };
  const std::string before = content();
  ASSERT_EQ(Run("export 400 --safetensors " + out()).code, 0);
  EXPECT_EQ(content(), before);
}

TEST_F(ToolExport, BesideATrainer) {
  Own();
  ASSERT_EQ(Run("export latest --npz " + out()).code, 0);
  ExpectFails("import " + out() + "/step-400.npz --step 9", 4,
              HasSubstr(path()));
  Disown();
}

TEST_F(ToolExport, NamesItsFolderIfItCannotWrite) {
  std::ofstream(dir_.path() + "/file") << "x";
  ExpectFails("export 100 --npz " + dir_.path() + "/file", 1,
              HasSubstr("is not a folder"));
  ExpectFails("export 100 --npz " + dir_.path() + "/no/folder", 2,
              HasSubstr("/no/folder"));
}

class BigToolExport : public ToolFixture {};

TEST_F(BigToolExport, DamageLeavesNothing) {
  DamageLargestFile();
  const std::string out = dir_.path() + "/out";
  ExpectFails("export 200 --npz " + out, 3, HasSubstr("\"big\""));
  EXPECT_FALSE(fs::exists(out));
}

TEST_F(BigToolExport, FullDiskLeavesNothing) {
  const std::string out = dir_.path() + "/out";
  fs::create_directory(out);
  ExpectInChild([&]() -> std::string {
    if (!EnterNameSpace().ok() ||
        mount("none", out.c_str(), "tmpfs", 0, "size=1048576") != 0) {
      return "";  // may not mount
    }
    for (const std::string format : {"npz", "npy", "safetensors"}) {
      const ToolResult result = Run("export 200 --" + format + " " + out);
      if (result.code != 5 ||
          result.err.find("No space") == std::string::npos ||
          !NamesIn(out).empty()) {
        return absl::StrCat(format, ": ", result.code, " ", result.err);
      }
    }
    return "";
  });
}

// Runs a command in this process, and beside it a function that presses Ctrl-C.
tool::ExitCode RunInterrupted(
    const Words& words,
    const std::function<void(const std::atomic<bool>& ended)>& press,
    std::string* err) {
  struct sigaction ignore = {};
  struct sigaction old = {};
  ignore.sa_handler = [](int) {};
  sigaction(SIGINT, &ignore, &old);
  std::atomic<bool> ended = false;
  std::thread presser([&] { press(ended); });
  std::vector<const char*> pointers = {"ckptdb"};
  for (const std::string& word : words) pointers.push_back(word.c_str());
  std::ostringstream out;
  std::ostringstream errors;
  const auto code =
      tool::RunCommandLine(static_cast<int>(pointers.size()), pointers.data(),
                           {&out, &errors, nullptr});
  ended = true;
  presser.join();
  sigaction(SIGINT, &old, nullptr);
  *err = errors.str();
  return code;
}

// Ctrl-C while the command waits for the ids, which come from a FIFO.
TEST_F(ToolExport, InterruptLeavesNothing) {
  const std::string ids = dir_.path() + "/ids";
  ASSERT_EQ(mkfifo(ids.c_str(), 0600), 0);
  std::string err;
  const auto code = RunInterrupted(
      {"export", "400", "user", "--npz", out(), "--ids", ids, "-s", path()},
      [&](const std::atomic<bool>& /*ended*/) {
        std::ofstream fifo(ids);  // opened when the command reads it
        std::raise(SIGINT);
        fifo << "1,2";
      },
      &err);
  EXPECT_EQ(code, tool::ExitCode::kFailed);
  EXPECT_EQ(err,
            "ckptdb: export: the export was interrupted; nothing was "
            "written\n");
  EXPECT_FALSE(fs::exists(out()));
}

// The import may end before the signal arrives, but never in between.
TEST_F(BigToolExport, InterruptedImportImportsNothing) {
  const std::string out = dir_.path() + "/out";
  ASSERT_EQ(Run("export 200 big --npy " + out).code, 0);
  std::string err;
  const auto code = RunInterrupted(
      {"import", out + "/big.npy", "--step", "900", "-s", path()},
      [&](const std::atomic<bool>& ended) {
        while (!ended && NamesIn(path() + "/staging").empty()) {
          std::this_thread::yield();
        }
        std::raise(SIGINT);
      },
      &err);
  if (code == tool::ExitCode::kOk) {
    EXPECT_THAT(Steps(), ElementsAre(100, 200, 300, 900));
  } else {
    EXPECT_EQ(code, tool::ExitCode::kFailed);
    EXPECT_EQ(err,
              "ckptdb: import: the import was interrupted; nothing was "
              "imported\n");
    EXPECT_THAT(Steps(), ElementsAre(100, 200, 300));
    EXPECT_THAT(NamesIn(path() + "/staging"), IsEmpty());
  }
  EXPECT_EQ(Run("verify").code, 0);
}

// A trainer saves a step and retires the one before, up to ten times a second:
// a reader needs a moment between two saves, which is longer under a sanitizer.
TEST_F(BigToolExport, ExportsWhileATrainerSaves) {
  Own();
  std::mutex mutex;
  std::condition_variable cond;
  bool ended = false;
  absl::Status saved;
  std::thread trainer([&] {
    const std::vector<float> weights(100'000, 0.5F);
    std::unique_lock<std::mutex> lock(mutex);
    for (int64_t step = 1000; !ended && saved.ok(); ++step) {
      RankState state;
      state.AddTensor("w", TensorView::Of(weights.data(), {100'000}));
      saved = store_->Save({.step = step}, state).status();
      if (saved.ok() && step > 1000) saved = store_->Delete(step - 1);
      cond.wait_for(lock, std::chrono::milliseconds(100));
    }
  });
  for (int i = 0; i < 5; ++i) {
    const std::string out = absl::StrCat(dir_.path(), "/out", i);
    const ToolResult result = Run("export latest --npz " + out);
    EXPECT_EQ(result.code, 0) << result.err;
    EXPECT_EQ(NamesIn(out).size(), 1u);
  }
  {
    const std::lock_guard<std::mutex> lock(mutex);
    ended = true;
  }
  cond.notify_all();
  trainer.join();
  EXPECT_OK(saved);
  Disown();
}

TEST(ToolExportFailsTest, WithoutAStoreOrSteps) {
  const TempDir dir;
  const std::string store = dir.path() + "/store";
  const std::string out = dir.path() + "/out";
  EXPECT_EQ(RunTool({"export", "1", "--npz", out, "-s", store}).code, 2);
  ASSERT_OK(Store::Open(store).status());
  EXPECT_EQ(RunTool({"export", "latest", "--npz", out, "-s", store}).code, 2);
  EXPECT_FALSE(fs::exists(out));
}

// Saves a table with slots of these names and elements as step 1 of a new
// store.
void SaveSlots(const std::string& store,
               const std::vector<std::pair<std::string, uint32_t>>& slots) {
  RankState state;
  std::vector<Slot> made;
  const std::vector<int64_t> ids = {7};
  const std::vector<float> values(8, 0.5F);
  std::vector<RowBlock::SlotValues> data;
  for (const auto& [name, elements] : slots) {
    made.push_back({name, DType::kF32, elements, Codec::kNone});
    data.push_back({values.data(), elements * sizeof(float)});
  }
  RowSource::Arrays rows(ids, data);
  state.AddTable("t", made, &rows);
  ASSERT_OK_AND_ASSIGN(const auto owner, Store::Open(store));
  ASSERT_OK(owner->Save({.step = 1}, state).status());
}

TEST_F(ToolExport, ColumnsOfTheSameNameAreErrors) {
  SaveSlots(other(), {{"e", 2}, {"e[0]", 1}, {"id", 1}, {"a,b", 1}});
  const auto run = [&](const std::string& format, const std::string& slots) {
    return RunTool({"export", "1", "--" + format, out(), "--slots", slots, "-s",
                    other(), "--force"});
  };
  EXPECT_THAT(run("csv", "e,e[0]").err,
              AllOf(HasSubstr("\"e[0]\""), HasSubstr("of slot \"e\""),
                    HasSubstr("choose others by --slots")));
  EXPECT_EQ(run("jsonl", "e,e[0]").code, 0);
  for (const std::string format : {"csv", "jsonl"}) {
    EXPECT_THAT(run(format, "id,e").err, HasSubstr("the column of ids"));
  }
  EXPECT_EQ(run("csv", "e,a\\,b").code, 0);
  EXPECT_EQ(TextOf(out() + "/t.csv"), "id,e[0],e[1],\"a,b\"\n7,0.5,0.5,0.5\n");
  const ToolResult rows =
      RunTool({"rows", "t", "--slots", "a\\,b,e[0]", "-s", other(), "--json"});
  EXPECT_EQ(rows.Json()["rows"][0]["slots"].size(), 2u) << rows.err;
}

TEST(SplitSlotsTest, BackslashesKeepCommas) {
  using ::testing::ElementsAre;
  EXPECT_THAT(tool::SplitSlots("a,b"), ElementsAre("a", "b"));
  EXPECT_THAT(tool::SplitSlots(",a,,"), ElementsAre("a"));
  EXPECT_THAT(tool::SplitSlots(R"(a\,b,c\\,\d)"),
              ElementsAre("a,b", R"(c\)", R"(\d)"));
  EXPECT_THAT(tool::SplitSlots(""), IsEmpty());
}

}  // namespace
}  // namespace ckptdb::testing
