// SPDX-License-Identifier: Apache-2.0
// export and import: a step as files of other systems, and back.
#include <sys/mount.h>
#include <sys/stat.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <csignal>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <map>
#include <mutex>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "tests/support/forked.h"
#include "tests/support/name_space.h"
#include "tests/tools/tool_fixture.h"
#include "tools/command_line.h"
#include "tools/files/safetensors.h"
#include "tools/slots_argument.h"

namespace ckptdb::testing {
namespace {

namespace fs = std::filesystem;

std::vector<std::string> NamesIn(const std::string& folder) {
  std::vector<std::string> names;
  if (!fs::exists(folder)) return names;
  for (const auto& entry : fs::directory_iterator(folder)) {
    names.push_back(entry.path().filename().string());
  }
  std::sort(names.begin(), names.end());
  return names;
}

std::string TextOf(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

// Lines, sorted, because rows are in no order.
std::vector<std::string> SortedLines(const std::string& path) {
  std::vector<std::string> lines =
      absl::StrSplit(TextOf(path), '\n', absl::SkipEmpty());
  std::sort(lines.begin(), lines.end());
  return lines;
}

// Exports a step of the store and imports the files as step 9 of another.
class ToolExport : public DeltaFixture {
 protected:
  std::string out() const { return dir_.path() + "/out"; }
  std::string other() const { return dir_.path() + "/other"; }

  void ExpectRoundTrip(const std::string& step, const std::string& format,
                       const std::string& files) const {
    SCOPED_TRACE(format);
    ExpectRun(absl::StrCat("export ", step, " --", format, " ", out(), format),
              0, HasSubstr("3 tables"), "");
    Words words = {"import", "--step", "9", "-s", other() + format};
    for (const std::string& name : NamesIn(out() + format)) {
      if (fs::path(name).extension() == files) {
        words.push_back(absl::StrCat(out(), format, "/", name));
      }
    }
    const ToolResult imported = RunTool(words);
    EXPECT_EQ(imported.code, 0) << imported.err;
    for (const std::string table : {"user", "item", "types"}) {
      EXPECT_EQ(RowsOf(path(), step, table),
                RowsOf(other() + format, "9", table));
    }
    EXPECT_EQ(TensorOf(path(), step), TensorOf(other() + format, "9"));
  }
  // All rows as JSON lines, which have every digit, with sorted names.
  std::vector<std::string> RowsOf(const std::string& store,
                                  const std::string& step,
                                  const std::string& table) const {
    const ToolResult result =
        RunTool({"export", step, table, "--jsonl", dir_.path() + "/rows", "-s",
                 store, "--force"});
    EXPECT_EQ(result.code, 0) << result.err;
    std::vector<std::string> rows =
        SortedLines(absl::StrCat(dir_.path(), "/rows/", table, ".jsonl"));
    for (std::string& row : rows) row = Json::parse(row).dump();
    return rows;
  }
  std::string TensorOf(const std::string& store,
                       const std::string& step) const {
    const ToolResult result =
        RunTool({"export", step, "w", "--npy", dir_.path() + "/tensor", "-s",
                 store, "--force"});
    EXPECT_EQ(result.code, 0) << result.err;
    return TextOf(dir_.path() + "/tensor/w.npy");
  }
};

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

class ToolImport : public ToolExport {};

// Ranks, files and the place of a table's rows in them differ, but not the
// rows.
TEST_F(ToolImport, RecisRoundTripsAreExact) {
  std::string from = path();
  std::string step = "100";
  for (const std::string world : {"1", "3", "7"}) {
    const std::string folder = out() + world;
    const std::string store = other() + world;
    const ToolResult exported = RunTool(
        {"export", step, "--recis", folder, "--world", world, "-s", from});
    EXPECT_EQ(exported.code, 0) << exported.err;
    const ToolResult imported =
        RunTool({"import", folder, "--step", "9", "-s", store, "--json"});
    EXPECT_EQ(imported.Json()["rows"], 15) << imported.err;
    for (const std::string table : {"user", "item", "types"}) {
      EXPECT_EQ(RowsOf(path(), "100", table), RowsOf(store, "9", table));
    }
    EXPECT_EQ(TensorOf(path(), "100"), TensorOf(store, "9"));
    from = store;
    step = "9";
  }
  EXPECT_EQ(TextOf(out() + "7/checkpoint"), "ckpt_9\n");
}

TEST_F(ToolImport, RecisBlocksMustBeWhole) {
  ASSERT_EQ(Run("export 400 --recis " + out() + " --world 2").code, 0);
  const std::string folder = out() + "/ckpt_400";
  const std::string data = folder + "/model-000001-of-000008.safetensors";
  ASSERT_TRUE(fs::exists(data));
  // Files of other checkpoints are ignored.
  fs::copy_file(data, folder + "/model-000009-of-000010.safetensors");
  EXPECT_EQ(RunTool({"import", out(), "--step", "1", "-s", other()}).code, 0);
  fs::rename(data, out() + "/hidden");
  ExpectFails("import " + out() + " --step 9", 3, HasSubstr("is in no file"));
  fs::remove(folder + "/index");
  ExpectFails("import " + folder + " --step 9", 3, HasSubstr("index"));
  std::ofstream(out() + "/checkpoint") << "../else\n";
  ExpectFails("import " + out() + " --step 9", 1, HasSubstr("../else"));
  EXPECT_THAT(Steps(), ElementsAre(100, 200, 300, 400));
}

TEST_F(ToolImport, CommitsAtOnce) {
  ASSERT_EQ(Run("export 100 --npz " + out()).code, 0);
  const std::string file = out() + "/step-100.npz";
  EXPECT_THAT(RunJson("import " + file + " --step 900"),
              Includes(R"({"step": 900, "tensors": 1, "tables": 3, "rows": 15,
                           "blobs": 0})"));
  EXPECT_THAT(Steps(), ElementsAre(100, 200, 300, 400, 900));
  EXPECT_EQ(RunJson("diff 100 900")["same"], false);  // the blob
  ExpectFails("import " + file + " --step 900", 5, HasSubstr("900"));
  EXPECT_EQ(Run("import " + file + " --step 900 --force").code, 0);
  EXPECT_EQ(Run("verify").code, 0);
}

TEST_F(ToolImport, BadFileImportsNothing) {
  ASSERT_EQ(Run("export 100 --npz " + out()).code, 0);
  const std::string file = out() + "/step-100.npz";
  std::string bytes = TextOf(file);
  // An element of a table, which only the CRC protects.
  bytes[bytes.find("user.embedding.npy") + 300] ^= 1;
  std::ofstream(file, std::ios::binary) << bytes;
  ExpectFails("import " + file + " --step 900", 3,
              AllOf(HasSubstr(file), HasSubstr("user.embedding.npy")));
  EXPECT_THAT(Steps(), ElementsAre(100, 200, 300, 400));
  EXPECT_EQ(RunJson("gc")["swept_versions"].size(), 0u);
  ExpectFails("import " + out() + "/none.npz --step 900", 2,
              HasSubstr("none.npz"));
  ExpectFails("import " + out() + " --step 900", 1, HasSubstr("RecIS"));
  ExpectFails("import " + path() + "/LOCK --step 900", 1,
              HasSubstr("the name has no known ending"));
  EXPECT_EQ(Run("import " + file + " --step latest").code, 1);
  EXPECT_EQ(RunTool({"import", file, "--step", "1"}).code, 1);
}

TEST_F(ToolImport, TablesAreTensorsIfAskedFor) {
  ASSERT_EQ(Run("export 100 user --npz " + out()).code, 0);
  const std::string file = out() + "/step-100.npz";
  EXPECT_THAT(RunJson("import " + file + " --step 900 --no-tables"),
              Includes(R"({"tensors": 3, "tables": 0})"));
  EXPECT_THAT(RunJson("import " + file + " --step 901 --table user"),
              Includes(R"({"tensors": 0, "tables": 1})"));
  ExpectFails("import " + file + " --step 902 --table item", 1,
              HasSubstr("no table \"item\""));
}

TEST_F(ToolImport, KeepsMetadataOfSafetensors) {
  ASSERT_EQ(Run("export 100 w --safetensors " + out()).code, 0);
  ASSERT_EQ(Run("import " + out() + "/model.safetensors --step 900").code, 0);
  EXPECT_EQ(RunJson("show 900")["user_metadata"], Json({{"format", "pt"}}));
}

// Writes a file of safetensors with one tensor of a byte.
std::string Safetensors(const std::string& path, const std::string& name,
                        const std::map<std::string, std::string>& metadata) {
  std::ofstream(path, std::ios::binary)
      << tool::SafetensorsHeader({{name, DType::kU8, {1}, 1}}, metadata) << 'x';
  return path;
}

TEST_F(ToolImport, ManagersKeysOfMetadataAreRenamed) {
  const std::map<std::string, std::string> metadata = {
      {"ckptdb.retention", "not JSON"},
      {"ckptdb.saved_because", "step 50 is a multiple of 10"},
      {"imported.saved_because", "older"},
      {"run", "7"}};
  const std::string file =
      Safetensors(dir_.path() + "/a.safetensors", "w", metadata);
  ASSERT_EQ(Run("import " + file + " --step 900").code, 0);
  EXPECT_EQ(RunJson("show 900")["user_metadata"],
            Json({{"imported.retention", "not JSON"},
                  {"imported.saved_because", "older"},
                  {"imported.saved_because+", "step 50 is a multiple of 10"},
                  {"run", "7"}}));
  EXPECT_EQ(RunJson("explain 900")["saved_reason"], Json());
}

TEST_F(ToolImport, FailuresLeaveNoNewStore) {
  ASSERT_EQ(Run("export 100 --npz " + out()).code, 0);
  const std::string npz = out() + "/step-100.npz";
  std::string bytes = TextOf(npz);
  bytes[bytes.find("user.embedding.npy") + 300] ^= 1;
  std::ofstream(npz, std::ios::binary) << bytes;
  const std::string bad_name =
      Safetensors(dir_.path() + "/a.safetensors", std::string("a\0b", 3), {});
  fs::create_directory(dir_.path() + "/empty");
  for (const std::string& file : {npz, bad_name}) {
    for (const std::string store : {"/new", "/new/deep/store", "/empty"}) {
      const ToolResult failed =
          RunTool({"import", file, "--step", "1", "-s", dir_.path() + store});
      EXPECT_EQ(failed.code, file == npz ? 3 : 1) << failed.err;
      EXPECT_FALSE(fs::exists(dir_.path() + "/new"));
      EXPECT_THAT(NamesIn(dir_.path() + "/empty"), IsEmpty());
    }
    EXPECT_EQ(Run("import " + file + " --step 900").code, file == npz ? 3 : 1);
    EXPECT_THAT(Steps(), ElementsAre(100, 200, 300, 400));
  }
  // The message is escaped once.
  ExpectFails("import " + bad_name + " --step 900", 1,
              HasSubstr(R"(name "a\x00\x62" has a NUL)"));
  // A store without steps that existed before.
  const std::string existing = dir_.path() + "/existing";
  ASSERT_OK(Store::Open(existing).status());
  EXPECT_EQ(RunTool({"import", npz, "--step", "1", "-s", existing}).code, 3);
  EXPECT_OK(Store::Open(existing, {.create_if_missing = false}).status());
}

TEST_F(ToolImport, NoStoreIsMadeWithinAStore) {
  const std::string file = Safetensors(dir_.path() + "/a.safetensors", "w", {});
  fs::create_directory_symlink(path(), dir_.path() + "/link");
  for (const std::string& store :
       {path() + "/db", path() + "/db/x/y", path() + "/new",
        dir_.path() + "/link/staging"}) {
    const ToolResult failed =
        RunTool({"import", file, "--step", "1", "-s", store});
    EXPECT_EQ(failed.code, 1);
    EXPECT_THAT(failed.err, HasSubstr("lies inside it"));
    EXPECT_FALSE(fs::exists(store + "/db"));
  }
  EXPECT_EQ(RunTool({"import", file, "--step", "9", "-s", other()}).code, 0);
}

TEST_F(ToolImport, FilesWithoutContentAreErrors) {
  const std::string folder = dir_.path() + "/files";
  fs::create_directories(folder + "/recis");
  std::ofstream(folder + "/a.safetensors.index.json") << R"({"weight_map":{}})";
  std::ofstream(folder + "/a.npz") << "PK\5\6" << std::string(18, '\0');
  std::ofstream(folder + "/a.safetensors", std::ios::binary)
      << tool::SafetensorsHeader({}, {{"k", "v"}});
  std::ofstream(folder + "/recis/model-000000-of-000001.safetensors",
                std::ios::binary)
      << tool::SafetensorsHeader({}, {});
  std::ofstream(folder + "/recis/index") << R"({"block_index":{}})";
  std::ofstream(folder + "/recis/extra.txt") << "7";
  for (const std::string name :
       {"a.safetensors.index.json", "a.npz", "a.safetensors", "recis"}) {
    ExpectFails(
        "import " + folder + "/" + name + " --step 900", 1,
        AllOf(HasSubstr(folder + "/" + name), HasSubstr("nothing to import")));
  }
  ExpectFails("import " + folder + "/none/dir --step 900", 2,
              HasSubstr("No such file"));
  EXPECT_THAT(Steps(), ElementsAre(100, 200, 300, 400));
}

// Errors name what a command's user can change.
TEST_F(ToolImport, FullDisksAreNamed) {
  const std::string small = dir_.path() + "/small";
  fs::create_directory(small);
  const std::string file = Safetensors(dir_.path() + "/a.safetensors", "w", {});
  ExpectInChild([&]() -> std::string {
    if (!EnterNameSpace().ok() ||
        mount("none", small.c_str(), "tmpfs", 0, "size=20M") != 0) {
      return "";  // may not mount
    }
    const ToolResult failed =
        RunTool({"import", file, "--step", "1", "-s", small + "/store"});
    const bool named =
        failed.code == 5 && NamesIn(small).empty() &&
        failed.err.find("are free; free some space\n") != std::string::npos;
    return named ? "" : failed.err;
  });
}

}  // namespace
}  // namespace ckptdb::testing
