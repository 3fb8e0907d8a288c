// SPDX-License-Identifier: Apache-2.0
// ckptdb backup and restore-backup: beside a trainer, killed, damaged, and by
// links or copies.
#include <sys/stat.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <mutex>
#include <random>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "db/backup.h"
#include "db/reader.h"
#include "db/state.h"
#include "db/store/backup_note.h"
#include "tests/support/seed.h"
#include "tests/tools/store_bytes.h"
#include "tests/tools/tool_fixture.h"

namespace ckptdb::testing {
namespace {

namespace fs = std::filesystem;

class ToolBackup : public ToolFixture {
 protected:
  std::string folder() const { return dir_.path() + "/backups"; }
  std::string restored() const { return dir_.path() + "/restored"; }

  // Returns the path of a new backup.
  std::string BackUp(const std::string& flags = "") const {
    const Json json = RunJson("backup " + folder() + flags);
    return json["backup"]["path"].get<std::string>();
  }
  std::set<std::string> Names() const {
    std::set<std::string> names;
    const ToolResult list = RunLine("backup --list --json " + folder());
    const Json document = list.Json();
    for (const auto& backup : document["backups"]) {
      names.insert(backup["name"].get<std::string>());
    }
    return names;
  }
  static void ExpectVerifies(const std::string& store) {
    const ToolResult verify = RunLine("verify --store " + store);
    EXPECT_EQ(verify.code, 0) << verify.err;
  }
  static uint64_t LinksOf(const fs::path& file) {
    return fs::hard_link_count(file);
  }
  static std::vector<fs::path> TablesOf(const std::string& store) {
    std::vector<fs::path> tables;
    for (const auto& entry : fs::directory_iterator(store + "/db")) {
      if (entry.path().extension() == ".sst") tables.push_back(entry.path());
    }
    return tables;
  }
};

TEST_F(ToolBackup, IsAStoreWithTheSameSteps) {
  const auto before = BytesBelow(path());
  const std::string backup = BackUp(" --verify");
  EXPECT_EQ(BytesBelow(path()), before);
  const auto steps = [](const std::string& store) {
    return RunLine("ls --json --store " + store).Json()["steps"];
  };
  EXPECT_EQ(steps(backup), steps(path()));
  ExpectVerifies(backup);
  for (const fs::path& table : TablesOf(backup)) EXPECT_EQ(LinksOf(table), 2);
}

TEST_F(ToolBackup, OfTheSameFilesAddsNoDataFile) {
  BackUp();
  const Json second = RunJson("backup " + folder());
  EXPECT_LT(second["backup"]["new_bytes"], 64 << 10);
  EXPECT_GT(second["backup"]["bytes"], 1 << 20);
  EXPECT_EQ(Names().size(), 2);
}

TEST_F(ToolBackup, CopiesShareOnlyWithEarlierCopies) {
  const std::string first = BackUp(" --copy");
  const std::string second = BackUp(" --copy --verify");
  for (const fs::path& table : TablesOf(path())) EXPECT_EQ(LinksOf(table), 1);
  for (const fs::path& table : TablesOf(second)) EXPECT_EQ(LinksOf(table), 2);
  // A link shares the store's file, although a copy exists.
  const std::string third = BackUp();
  for (const fs::path& table : TablesOf(third)) {
    EXPECT_TRUE(
        fs::equivalent(table, path() + "/db/" + table.filename().string()));
  }
}

// Copies hold a lease while they are made.
TEST_F(ToolBackup, LeavesNoLease) {
  BackUp(" --copy");
  EXPECT_TRUE(fs::is_empty(path() + "/leases"));
}

TEST_F(ToolBackup, KeepRemovesTheOldestWithoutAName) {
  BackUp(" --name first");
  const std::string oldest = BackUp();
  BackUp();
  const Json json = RunJson("backup " + folder() + " --keep 2");
  EXPECT_EQ(json["removed_backups"].size(), 1);
  EXPECT_FALSE(fs::exists(oldest));
  EXPECT_EQ(Names().size(), 3);
  EXPECT_TRUE(Names().contains("first"));
}

TEST_F(ToolBackup, AFolderOfBackupsIsNotAStore) {
  BackUp();
  const std::string newest = BackUp();
  const ToolResult listed = RunLine("ls -s " + folder());
  EXPECT_EQ(listed.code, 2);
  EXPECT_EQ(listed.err,
            absl::StrCat("ckptdb: ls: no store at \"", folder(),
                         "\"; the newest backup in this folder is \"", newest,
                         "\"\n"));
  EXPECT_EQ(RunLine("ls -s " + newest).code, 0);
}

// Simulates a clock that was set back after the first backup.
TEST_F(ToolBackup, KeepsTheNewestWhateverTheClockReads) {
  const std::string first = BackUp() + "/BACKUP";
  std::ifstream in(first);
  const std::string text{std::istreambuf_iterator<char>(in), {}};
  auto note = internal::DecodeBackupNote(text);
  ASSERT_OK(note.status());
  note->backup.made_at_micros += int64_t{3600} * 1'000'000;
  std::ofstream(first) << internal::EncodeBackupNote(*note);
  const Json second = RunJson("backup " + folder() + " --keep 1");
  const std::string name = second["backup"]["name"].get<std::string>();
  EXPECT_EQ(Names(), std::set<std::string>{name});
}

TEST_F(ToolBackup, RefusesBadFoldersAndNames) {
  ExpectFails("backup " + path() + "/db/inside", 1, HasSubstr("within"));
  ExpectFails("backup " + folder() + " --name a/b", 1, HasSubstr("a/b"));
  ExpectFails("backup " + folder() + " --name .x", 1, HasSubstr(".x"));
  BackUp(" --name one");
  ExpectFails("backup " + folder() + " --name one", 5, HasSubstr("exists"));
  const std::string nowhere = dir_.path() + "/nowhere";
  EXPECT_EQ(RunLine("backup " + nowhere + " -s " + nowhere + "2").code, 2);
  EXPECT_FALSE(fs::exists(nowhere));
  EXPECT_EQ(RunLine("backup --list " + nowhere).code, 2);
  EXPECT_EQ(RunLine("restore-backup " + nowhere + " " + restored()).code, 2);
}

TEST_F(ToolBackup, FindsDamage) {
  const std::string backup = BackUp(" --copy");
  const fs::path table = LargestTable(backup);
  FlipByte(table, fs::file_size(table) / 2);
  ExpectRun("backup --list --verify " + folder(), 3, HasSubstr("Z"),
            HasSubstr(table.filename().string()));
  ExpectRun("backup --list " + folder(), 0, HasSubstr("Z"), "");
  // A copy is compared with its checksum.
  ExpectFails("restore-backup --copy " + folder() + " " + restored(), 3,
              HasSubstr("checksum"));
  EXPECT_FALSE(fs::exists(restored()));
  EXPECT_FALSE(fs::exists(restored() + ".unfinished"));
  fs::resize_file(table, fs::file_size(table) - 1);
  ExpectFails("restore-backup " + folder() + " " + restored(), 3,
              HasSubstr("bytes, expected"));
  FlipByte(backup + "/BACKUP", 40);
  ExpectRun("backup --list " + folder(), 3, HasSubstr("Z"),
            HasSubstr("list of files"));
  ExpectFails("restore-backup " + folder() + " " + restored(), 3,
              HasSubstr("list of files"));
}

TEST_F(ToolBackup, OfADamagedStoreReplacesNoCompleteOne) {
  const std::string complete = BackUp(" --copy");
  fs::remove(LargestTable(path()));
  for (int i = 0; i < 2; ++i) {
    const ToolResult result = Run("backup " + folder() + " --copy --keep 1");
    EXPECT_EQ(result.code, 3);
    EXPECT_THAT(result.err, HasSubstr("so does the backup"));
  }
  EXPECT_EQ(Run("backup --list " + folder()).code, 0);
  // The newest incomplete one replaces the other.
  EXPECT_EQ(Names().size(), 2);
  EXPECT_TRUE(fs::exists(complete));
  // The newest one is not restored by mistake.
  const std::string restore = "restore-backup " + folder() + " " + restored();
  ExpectFails(restore, 3, HasSubstr("choose another backup with --name"));
  const std::string name = " --name " + fs::path(complete).filename().string();
  EXPECT_EQ(RunLine(restore + name).code, 0);
  ExpectVerifies(restored());
}

TEST_F(ToolBackup, IsChangedByNobody) {
  const std::string backup = BackUp();
  const auto before = BytesBelow(backup);
  EXPECT_EQ(Store::Open(backup).status().code(),
            absl::StatusCode::kFailedPrecondition);
  for (const char* command : {"pin 100", "gc", "rm 100", "fold 100"}) {
    const ToolResult result =
        RunLine(absl::StrCat(command, " --store ", backup));
    EXPECT_EQ(result.code, 5);
    EXPECT_THAT(result.err, HasSubstr("restore-backup"));
  }
  {
    ASSERT_OK_AND_ASSIGN(const auto reader, Reader::Open(backup));
    EXPECT_THAT(reader->PostMetrics(100, {{"auc", 1}}),
                FailedPrecondition("restore-backup"));
    EXPECT_THAT(reader->RequestPin(100), FailedPrecondition("restore-backup"));
  }
  EXPECT_EQ(BytesBelow(backup), before);
  EXPECT_EQ(RunLine("backup --list --verify " + folder()).code, 0);
}

TEST_F(ToolBackup, OfSeveralStoresAreChosenByName) {
  BackUp();
  ASSERT_OK(MakeSampleStore(dir_.path() + "/other").status());
  EXPECT_EQ(
      RunLine("backup " + folder() + " --name b -s " + dir_.path() + "/other")
          .code,
      0);
  const std::string restore = "restore-backup " + folder() + " " + restored();
  ExpectFails(restore, 1, HasSubstr("choose one with --name"));
  EXPECT_EQ(RunLine(restore + " --name b").code, 0);
}

TEST_F(ToolBackup, RestoredStoreIsAStoreOfItsOwn) {
  EXPECT_EQ(Run("metrics 100 tool/late=2").code, 0);
  BackUp();
  ASSERT_OK_AND_ASSIGN(const auto original, Reader::Open(path()));
  const ToolResult result =
      RunLine("restore-backup " + folder() + " " + restored());
  EXPECT_EQ(result.code, 0) << result.err;
  ExpectVerifies(restored());
  ASSERT_OK_AND_ASSIGN(const auto reader, Reader::Open(restored()));
  EXPECT_NE(reader->uuid(), original->uuid());
  EXPECT_EQ(reader->Steps().size(), original->Steps().size());
  ASSERT_OK_AND_ASSIGN(const StepRecord step, reader->FindStep(100));
  EXPECT_EQ(step.metrics.at("tool/late"), 2);
  // Its next save leaves the backup and the original as they are.
  ASSERT_OK_AND_ASSIGN(const auto store, Store::Open(restored()));
  const std::vector<float> values = {1, 2};
  RankState state;
  state.AddTensor("w", TensorView::Of(values.data(), {2}));
  EXPECT_OK(store->Save({.step = 1000}, state));
  ASSERT_OK(store->Delete(300));
  ASSERT_OK(store->Sweep());
  EXPECT_EQ(RunLine("backup --list --verify " + folder()).code, 0);
  ExpectVerifies(path());
}

TEST_F(ToolBackup, RestoreReplacesOnlyAStoreAndOnlyByForce) {
  const std::string backup = BackUp();
  const std::string restore = "restore-backup " + backup + " " + path();
  EXPECT_EQ(Run("rm 100").code, 0);
  EXPECT_EQ(RunLine(restore).code, 5);
  EXPECT_EQ(Steps(), (std::vector<int64_t>{200, 300}));
  ASSERT_OK_AND_ASSIGN(const auto reader, Reader::Open(path()));
  Own();
  EXPECT_EQ(RunLine(restore + " --force").code, 4);
  Disown();
  EXPECT_EQ(RunLine(restore + " --force").code, 0);
  EXPECT_EQ(Steps(), (std::vector<int64_t>{100, 200, 300}));
  EXPECT_FALSE(fs::exists(path() + ".unfinished"));
  // A follower of the former store notices.
  EXPECT_EQ(reader->Refresh().code(), absl::StatusCode::kFailedPrecondition);
  // Nothing that is not a store's is removed.
  std::ofstream(path() + "/notes.txt") << "mine";
  EXPECT_EQ(RunLine(restore + " --force").code, 5);
  EXPECT_TRUE(fs::exists(path() + "/notes.txt"));
  const std::string other = dir_.path() + "/other";
  fs::create_directories(other + "/db");
  EXPECT_EQ(RunLine("restore-backup --force " + backup + " " + other).code, 5);
  EXPECT_TRUE(fs::exists(other + "/db"));
}

class ToolDeltaBackup : public DeltaFixture {};

// The digests of a chain cover the store's uuid.
TEST_F(ToolDeltaBackup, RestoresChainsThatATrainerContinues) {
  const std::string folder = dir_.path() + "/backups";
  const std::string restored = dir_.path() + "/restored";
  EXPECT_EQ(Run("rm 200").code, 0);  // its data is kept for the chain
  EXPECT_EQ(Run("backup " + folder).code, 0);
  EXPECT_EQ(RunLine("restore-backup " + folder + " " + restored).code, 0);
  EXPECT_EQ(RunLine("verify -s " + restored).code, 0);
  for (const char* command : {"row user 1 -s ", "history user 1 -s "}) {
    EXPECT_EQ(RunLine(command + restored).out, RunLine(command + path()).out);
  }
  EXPECT_EQ(RunLine("fold 400 -s " + restored).code, 0);
  EXPECT_EQ(RunLine("verify -s " + restored).code, 0);
}

// Because of the fold, the parent has a later attempt than the step.
TEST_F(ToolBackup, RestoresAStepWhoseParentWasFoldedMeanwhile) {
  const std::string source = dir_.path() + "/folded";
  const std::vector<int64_t> ids = {1, 2, 3};
  const std::vector<float> values = {1, 2, 3};
  const RowSource::Arrays rows(ids, {{values.data(), sizeof(float)}});
  RankState state;
  state.AddTable({.name = "user",
                  .slots = {{"v", DType::kF32, 1}},
                  .rows = &rows,
                  .changes = RankState::Changes{.upserted = &rows}});
  ASSERT_OK_AND_ASSIGN(const auto store, Store::Open(source));
  ASSERT_OK_AND_ASSIGN(const SaveResult first, store->Save({.step = 1}, state));
  ASSERT_OK_AND_ASSIGN(
      const SaveResult second,
      store->Save({.step = 2, .parent = first.version}, state));
  const SaveSpec spec{.step = 3, .parent = second.version};
  ASSERT_OK_AND_ASSIGN(const Store::Attempt attempt, store->Begin(spec));
  ASSERT_OK_AND_ASSIGN(const StagedRank staged,
                       Stage(source, attempt.tickets[0], state));
  ASSERT_OK(store->Fold(2).status());
  ASSERT_OK(store->Publish(attempt.version, {staged}, spec).status());
  ASSERT_OK(store->Close());
  ExpectVerifies(source);
  ASSERT_OK(CopyStore(source, restored()));
  ExpectVerifies(restored());
  ASSERT_OK_AND_ASSIGN(const auto copy, Store::Open(restored()));
  ASSERT_OK_AND_ASSIGN(const StepRecord third, copy->FindStep(3));
  EXPECT_EQ(third.chain.size(), 2);
  EXPECT_OK(copy->Save({.step = 4, .parent = third.version}, state).status());
  EXPECT_OK(copy->Fold(4).status());
}

// Saves some ten steps a second, until destroyed.
class BusyTrainer {
 public:
  explicit BusyTrainer(Store* store) : store_(store) {
    thread_ = std::thread([this] { Train(); });
  }
  ~BusyTrainer() {
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      stop_ = true;
    }
    stops_.notify_all();
    thread_.join();
    EXPECT_GT(saves_, 3);
  }

 private:
  void Train() {
    constexpr int64_t kKept = 4;
    std::vector<float> values(300'000);
    for (int64_t step = 1000; !WaitToStop(); ++step) {
      values[0] = static_cast<float>(step);
      RankState state;
      state.AddTensor("w", TensorView::Of(values.data(), {300'000}));
      SaveSpec spec;
      spec.step = step;
      if (step - kKept >= 1000) spec.retire = {step - kKept};
      EXPECT_OK(store_->Save(spec, state));
      ++saves_;
    }
  }

  bool WaitToStop() {
    std::unique_lock<std::mutex> lock(mutex_);
    return stops_.wait_for(lock, std::chrono::milliseconds(100),
                           [this] { return stop_; });
  }

  Store* const store_;
  std::mutex mutex_;
  std::condition_variable stops_;
  bool stop_ = false;
  std::atomic<int> saves_ = 0;
  std::thread thread_;
};

TEST_F(ToolBackup, IsWholeBesideATrainer) {
  StoreOptions options;
  options.background_sweep = true;
  ASSERT_OK_AND_ASSIGN(store_, Store::Open(path(), options));
  {
    const BusyTrainer trainer(store_.get());
    int made = 0;
    // On a slow machine the trainer may leave no moment between its saves.
    for (int i = 0; i < 12 || (made < 2 && i < 60); ++i) {
      const ToolResult result =
          Run("backup " + folder() +
              (i % 2 == 0 ? " --verify" : " --verify --copy --keep 4"));
      const bool no_moment =
          result.err.find(" tries") != std::string::npos && result.code == 5;
      EXPECT_TRUE(result.code == 0 || no_moment) << result.err;
      made += result.code == 0 ? 1 : 0;
    }
    EXPECT_GE(made, 2);
  }
  Disown();
  EXPECT_EQ(RunLine("backup --list --verify " + folder()).code, 0);
  ASSERT_OK(CopyStore(folder() + "/" + *Names().rbegin(), restored()));
  ExpectVerifies(restored());
}

TEST_F(ToolBackup, KilledLeavesNoNameAndIsContinued) {
  std::mt19937_64 random(TestSeed());
  for (const char* flags : {"", " --copy"}) {
    for (int i = 0; i < 15; ++i) {
      const size_t before = fs::exists(folder()) ? Names().size() : 0;
      ToolSetting setting;
      setting.kill_after = std::chrono::microseconds(random() % 60'000);
      const ToolResult result =
          RunTool({"backup", folder(), "--store", path(),
                   *flags == '\0' ? "--verify" : "--copy"},
                  setting);
      if (!fs::exists(folder())) continue;
      EXPECT_LE(Names().size(), before + 1);
      const ToolResult list = RunLine("backup --list --verify " + folder());
      EXPECT_EQ(list.code, 0) << list.err << result.err;
    }
    BackUp(std::string(flags) + " --verify");
    EXPECT_FALSE(fs::exists(folder() + "/.unfinished"));
  }
  ExpectVerifies(path());
}

TEST_F(ToolBackup, RestoreRemovesNoFilesOfOthersFromItsFolder) {
  const std::string backup = BackUp();
  const std::string notes = restored() + ".unfinished/notes";
  fs::create_directory(restored() + ".unfinished");
  std::ofstream(notes) << "mine";
  const ToolResult result =
      RunLine("restore-backup " + backup + " " + restored());
  EXPECT_EQ(result.code, 5);
  EXPECT_THAT(result.err, HasSubstr(notes));
  EXPECT_TRUE(fs::exists(notes));
  EXPECT_FALSE(fs::exists(restored()));
  fs::remove(notes);
  EXPECT_EQ(RunLine("restore-backup " + backup + " " + restored()).code, 0);
}

// A trainer that is killed may leave such a file.
TEST_F(ToolBackup, RestoreReplacesAStoreWithATemporaryFile) {
  const std::string backup = BackUp();
  std::ofstream(path() + "/WATERMARK.76348440d4043f47.tmp") << "partly";
  const ToolResult result =
      RunLine("restore-backup " + backup + " " + path() + " --force");
  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_FALSE(fs::exists(path() + "/WATERMARK.76348440d4043f47.tmp"));
}

// A call that is killed may leave these.
TEST_F(ToolBackup, RestoreContinuesInAnUnfinishedFolder) {
  const std::string backup = BackUp();
  const std::string unfinished = restored() + ".unfinished/";
  fs::create_directory(unfinished);
  for (const char* const name : {"WATERMARK.copying", "probe", ".lock"}) {
    std::ofstream(unfinished + name) << "partly";
  }
  const ToolResult result =
      RunLine("restore-backup " + backup + " " + restored());
  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_FALSE(fs::exists(unfinished));
}

TEST_F(ToolBackup, KilledRestoreLeavesOldOrNewStore) {
  std::mt19937_64 random(TestSeed());
  const std::string backup = BackUp();
  for (int i = 0; i < 15; ++i) {
    ToolSetting setting;
    setting.kill_after = std::chrono::microseconds(random() % 80'000);
    RunTool({"restore-backup", backup, path(), "--force"}, setting);
    ExpectVerifies(path());
    EXPECT_EQ(Steps().size(), 3);
    RunTool({"restore-backup", backup, restored()}, setting);
    if (!fs::exists(restored())) continue;
    ExpectVerifies(restored());
    fs::remove_all(restored());
  }
  EXPECT_EQ(RunLine("backup --list --verify " + folder()).code, 0);
}

// A restore that was killed between two renames, on a file system that cannot
// exchange folders.
TEST_F(ToolBackup, ARestoreThatWasKilledBetweenTwoNamesIsUndone) {
  const std::string backup = BackUp();
  const std::string old = path() + ".replaced";
  fs::rename(path(), old);
  // Opening for writing does not create an empty store.
  EXPECT_THAT(Store::Open(path()).status(), FailedPrecondition(old));
  EXPECT_FALSE(fs::exists(path()));
  const std::string restore = "restore-backup " + backup + " " + path();
  EXPECT_EQ(RunLine(restore).code, 5);
  EXPECT_FALSE(fs::exists(old));
  ExpectVerifies(path());
  fs::rename(path(), old);
  EXPECT_EQ(RunLine(restore + " --force").code, 0);
  EXPECT_FALSE(fs::exists(old));
  EXPECT_FALSE(fs::exists(path() + ".unfinished"));
  ExpectVerifies(path());
  // Killed after the copy was renamed to the target.
  fs::copy(path(), old, fs::copy_options::recursive);
  const std::ofstream lock(path() + "/.lock");
  EXPECT_EQ(RunLine(restore + " --force").code, 0);
  EXPECT_FALSE(fs::exists(old));
  ExpectVerifies(path());
}

// Either store may hold the current model.
TEST_F(ToolBackup, NeitherOfTwoStoresWithOneNameIsRemoved) {
  const std::string backup = BackUp();
  const std::string old = path() + ".replaced";
  fs::copy(path(), old, fs::copy_options::recursive);
  const ToolResult result =
      RunLine("restore-backup " + backup + " " + path() + " --force");
  EXPECT_EQ(result.code, 5);
  EXPECT_THAT(result.err, HasSubstr("move one of them away"));
  ExpectVerifies(path());
  ExpectVerifies(old);
  EXPECT_FALSE(fs::exists(path() + ".unfinished"));
}

TEST_F(ToolBackup, NothingIsWrittenIntoAnotherStore) {
  const std::string backup = BackUp();
  ASSERT_EQ(RunLine("restore-backup " + backup + " " + restored()).code, 0);
  const std::string inside = restored() + "/staging/x";
  for (const std::string& line :
       {"restore-backup " + backup + " " + inside,
        "backup " + inside + " -s " + path(),
        "backup " + restored() + " -s " + path(),
        "export 300 --npz " + inside + " -s " + path(),
        "report " + inside + " -s " + path()}) {
    const ToolResult result = RunLine(line);
    EXPECT_EQ(result.code, 1) << line << ": " << result.err;
    EXPECT_THAT(result.err, HasSubstr("is a store")) << line;
    EXPECT_FALSE(fs::exists(inside));
  }
}

// The call after a cancelled one copies only the files that are missing.
TEST_F(ToolBackup, ContinuesWithCopiedFiles) {
  CopyOptions options;
  options.links = false;
  int left = 16;
  options.cancelled = [&left] { return --left == 0; };
  EXPECT_EQ(MakeBackup(path(), folder(), options).status().code(),
            absl::StatusCode::kCancelled);
  const std::string unfinished = folder() + "/.unfinished";
  ASSERT_TRUE(fs::exists(unfinished));
  std::map<std::string, ino_t> found;
  for (const fs::path& table : TablesOf(unfinished)) {
    struct stat entry {};
    ASSERT_EQ(stat(table.c_str(), &entry), 0);
    found[table.filename()] = entry.st_ino;
  }
  ASSERT_FALSE(found.empty());
  const std::string backup = BackUp(" --copy --verify");
  for (const auto& [name, inode] : found) {
    struct stat entry {};
    ASSERT_EQ(stat((backup + "/db/" + name).c_str(), &entry), 0);
    EXPECT_EQ(entry.st_ino, inode);
  }
}

}  // namespace
}  // namespace ckptdb::testing
