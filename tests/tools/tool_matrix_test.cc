// SPDX-License-Identifier: Apache-2.0
// Each command in each situation: beside a trainer, with an empty, newer or
// damaged store, without a store or permissions, on a full disk, interrupted.
// It ends with a documented exit code and an error that names its cause and the
// remedy, leaves no unfinished file under its name, and changes no byte of the
// store if it only reads.
#include <sys/mount.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <csignal>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <random>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "db/backup.h"
#include "db/reader.h"
#include "db/state.h"
#include "tests/db/raw_database.h"
#include "tests/support/forked.h"
#include "tests/support/long_run.h"
#include "tests/support/name_space.h"
#include "tests/support/seed.h"
#include "tests/tools/ctr_store.h"
#include "tests/tools/store_bytes.h"
#include "tests/tools/tool_fixture.h"
#include "tools/command.h"

namespace ckptdb::testing {
namespace {

namespace fs = std::filesystem;

enum class Effect {
  kReads,    // changes no byte of the store
  kPosts,    // changes steps, or posts that to the owner
  kOwns,     // changes the store, which nobody else may have open
  kNoStore,  // neither reads nor changes the store
};

// The places in MatrixCase::codes.
enum Situation {
  kLive,
  kEmpty,
  kNewer,
  kDamaged,
  kNone,
  kLocked,
  kReadOnly,
  kFull,
  kSituations
};

struct MatrixCase {
  // STORE is the store, OUT a new name in DIR, FILE a .npz file, BACKUPS a
  // folder of backups, SHIPPED a remote that has one step more.
  std::string line;
  Effect effect;
  // The exit code in each situation; '*': the disk had room for it or not, 0 or
  // 5; '+': the store is busy, or has a step that the remote lacks, 4 or 5.
  const char* codes;

  std::string command() const { return line.substr(0, line.find(' ')); }
};

// Add a row here for each new command.
constexpr auto kReads = Effect::kReads;
constexpr auto kPosts = Effect::kPosts;
constexpr auto kOwns = Effect::kOwns;
constexpr auto kNoStore = Effect::kNoStore;
const MatrixCase kMatrix[] = {
    // live, empty, newer, damaged, none, locked, read-only, full
    {"ls", kReads, "00502500"},
    {"show latest", kReads, "02502500"},
    {"items latest", kReads, "02502500"},
    {"chain latest --tables", kReads, "02502500"},
    {"diff 1000 1200 --ids 3", kReads, "02532500"},
    {"plan 1200", kReads, "02502500"},
    {"row user 5001 --step 1200", kReads, "02532500"},
    {"rows user --step 1200", kReads, "02532500"},
    {"cat mlp.0.weight --step 1200", kReads, "02502500"},
    {"nan --step 1200", kReads, "02532500"},
    {"digest 1200", kReads, "02532500"},
    {"history user 5000", kReads, "*2532500"},
    {"verify", kReads, "00532500"},
    {"du", kReads, "00502500"},
    {"explain 1000", kReads, "02502500"},
    {"stats", kReads, "00502500"},
    {"watch --count 1", kReads, "00502500"},
    {"report OUT.html", kReads, "00502505"},
    {"fold 1200", kOwns, "42532555"},
    {"rm 1100", kOwns, "42502550"},
    {"gc", kOwns, "40502550"},
    {"pin 1100", kPosts, "0250255*"},
    {"unpin 1000", kPosts, "0250255*"},
    {"promote 1250", kPosts, "0250255*"},
    {"demote 1000", kPosts, "0250255*"},
    {"quarantine 1000", kOwns, "4250255*"},
    {"metrics 1000 x=1", kPosts, "0250255*"},
    {"repair", kReads, "00532500"},
    {"copy STORE:1200 OUT", kReads, "02532505"},
    {"backup OUT", kReads, "0050250*"},
    {"restore-backup BACKUPS OUT", kNoStore, "0000000*"},
    {"export 1200 --npz OUT", kReads, "02532505"},
    {"import FILE --step 5000", kOwns, "40500555"},
    // A push that skips a damaged step has shipped the others.
    {"remote push file://DIR/.remote", kReads, "00532505"},
    {"remote fetch file://SHIPPED --update", kOwns, "+550555*"},
    {"doctor DIR --speed-mib 0", kNoStore, "00000005"},
    {"doctor file://DIR --speed-mib 0", kNoStore, "00000005"},
    {"completion bash", kNoStore, "00000000"},
    {"man", kNoStore, "00000000"},
};

// Text that the error of a situation contains: the cause and the remedy.
struct ExpectedError {
  int code;
  std::vector<std::string> words;
};

class ToolMatrix : public ToolFixture {
 protected:
  absl::StatusOr<std::unique_ptr<Store>> MakeStore() const override {
    return MakeCtrStore(path());
  }
  void SetUp() override {
    ToolFixture::SetUp();
    ASSERT_OK(MakeBackup(path(), backups()));
    const ToolResult exported =
        Run("export 1000 mlp* --npz " + dir_.path() + "/files");
    ASSERT_EQ(exported.code, 0) << exported.err;
    ShipMore();
  }
  // Ships the steps of a copy that has one more step.
  void ShipMore() const {
    const std::string copy = dir_.path() + "/copy";
    fs::copy(path(), copy, fs::copy_options::recursive);
    {
      ASSERT_OK_AND_ASSIGN(const auto store, Store::Open(copy));
      const std::vector<float> values = {1, 2};
      RankState state;
      state.AddTensor("w", TensorView::Of(values.data(), {2}));
      ASSERT_OK(store->Save({.step = 9000}, state));
    }
    const ToolResult pushed =
        RunLine("remote push file://" + shipped() + " -s " + copy);
    ASSERT_EQ(pushed.code, 0) << pushed.err;
    fs::remove_all(copy);
  }

  std::string shipped() const { return dir_.path() + "/shipped"; }
  std::string backups() const { return dir_.path() + "/backups"; }
  std::string outputs() const { return dir_.path() + "/outputs"; }

  // The words of a case: outputs are in `outputs`.
  Words WordsOf(const MatrixCase& row, const std::string& store,
                const std::string& out) const {
    Words words = absl::StrSplit(
        absl::StrReplaceAll(row.line,
                            {{"STORE", store},
                             {"OUT", out + "/out"},
                             {"FILE", dir_.path() + "/files/step-1000.npz"},
                             {"BACKUPS", backups()},
                             {"SHIPPED", shipped()},
                             {"DIR", out}}),
        ' ');
    words.insert(words.end(), {"--store", store});
    return words;
  }

  // Returns the files that somebody may take for whole outputs: not those whose
  // names begin with a dot or belong to interrupted copies and pages.
  static std::set<std::string> Outputs(const std::string& out) {
    std::set<std::string> names;
    if (!fs::exists(out)) return names;
    for (const auto& entry : fs::recursive_directory_iterator(out)) {
      const std::string name = fs::relative(entry.path(), out).string();
      const bool temporary = name[0] == '.' || absl::StrContains(name, "/.") ||
                             absl::StrContains(name, ".unfinished") ||
                             absl::EndsWith(name, ".tmp");
      if (!temporary && entry.is_regular_file()) names.insert(name);
    }
    return names;
  }

  // Returns the errors in a result; "" if it is as expected.
  static std::string WrongWith(const MatrixCase& row, const ToolResult& result,
                               char code,
                               const std::set<std::string>& outputs) {
    const bool as_expected = code == '*' ? result.code == 0 || result.code == 5
                             : code == '+'
                                 ? result.code == 4 || result.code == 5
                                 : result.code == code - '0';
    std::string wrong;
    if (!as_expected) {
      absl::StrAppend(&wrong, "exit code ", result.code, ", expected ",
                      std::string(1, code), "\n");
    }
    const bool failed = result.code != 0;
    if (failed &&
        !absl::StartsWith(result.err,
                          absl::StrCat("ckptdb: ", row.command(), ": "))) {
      wrong += "the error does not name the command\n";
    }
    if (failed && !outputs.empty()) {
      absl::StrAppend(&wrong, "left ", *outputs.begin(), "\n");
    }
    if (wrong.empty()) return "";
    return absl::StrCat(row.line, ": ", wrong, result.err);
  }

  // A command that fails prints no part of a document.
  static std::string WrongJson(const MatrixCase& row, const ToolResult& failed,
                               Words words, const ToolSetting& setting) {
    // Under a sanitizer, a command takes ten times as long.
    if (failed.code == 0 || kSanitized) return "";
    words.emplace_back("--json");
    const ToolResult result = RunTool(words, setting);
    const bool whole = result.out.empty() || !result.Json().is_discarded();
    return absl::StrCat(
        whole ? "" : absl::StrCat(row.line, ": half a document\n"),
        result.code == failed.code
            ? ""
            : absl::StrCat(row.line, " --json: exit code ", result.code, "\n"));
  }

  // Runs each case in a situation of the store, which `make` restores after a
  // case that may have changed it. Returns all that is wrong.
  std::string RunAll(Situation situation, const std::string& store,
                     const ExpectedError& expected,
                     const std::function<void()>& make,
                     const ToolSetting& setting = {}) const {
    std::string wrong;
    make();
    auto before = Bytes(store);
    for (const MatrixCase& row : kMatrix) {
      const std::string out = outputs();
      fs::remove_all(out);
      fs::create_directory(out);
      fs::permissions(out, fs::perms(0777));
      const ToolResult result = RunTool(WordsOf(row, store, out), setting);
      wrong += WrongWith(row, result, row.codes[situation], Outputs(out));
      for (const std::string& word : expected.words) {
        if (result.code != expected.code ||
            absl::StrContains(result.err, word)) {
          continue;
        }
        absl::StrAppend(&wrong, row.line, ": no \"", word, "\" in ",
                        result.err);
      }
      wrong += WrongJson(row, result, WordsOf(row, store, out), setting);
      const bool reads = row.effect == kReads || row.effect == kNoStore;
      if (!reads) {
        make();
        before = Bytes(store);
      } else if (reads && Bytes(store) != before) {
        absl::StrAppend(&wrong, row.line, ": the store has changed\n");
        make();
        before = Bytes(store);
      }
    }
    return wrong;
  }

  // Restores the store from a copy that is made now.
  std::function<void()> Restorer(const std::string& store) const {
    const std::string pristine = dir_.path() + "/pristine";
    fs::remove_all(pristine);
    fs::copy(path(), pristine, fs::copy_options::recursive);
    return [=] {
      fs::remove_all(store);
      fs::copy(pristine, store, fs::copy_options::recursive);
    };
  }

 private:
  static std::map<std::string, size_t> Bytes(const std::string& folder) {
    // Only root may read a locked one.
    if (access(folder.c_str(), R_OK | X_OK) != 0) return {};
    return BytesBelow(folder);
  }
};

TEST_F(ToolMatrix, HasARowForEachCommand) {
  std::set<std::string> rows;
  for (const MatrixCase& row : kMatrix) {
    rows.insert(row.command());
    EXPECT_EQ(std::string(row.codes).size(), size_t{kSituations}) << row.line;
  }
  std::set<std::string> commands;
  for (const auto& command : tool::AllCommands()) {
    commands.insert(command->name());
  }
  EXPECT_EQ(rows, commands);
}

// Reading commands accept a symbolic link to the store, and to a folder above
// it.
TEST_F(ToolMatrix, SymbolicLinks) {
  const std::string link = dir_.path() + "/link";
  const std::string above = dir_.path() + "/above";
  fs::create_directory_symlink(path(), link);
  fs::create_directory_symlink(dir_.path(), above);
  for (const MatrixCase& row : kMatrix) {
    if (row.effect != kReads) continue;
    for (const std::string& store : {link, above + "/store"}) {
      const std::string out = outputs();
      fs::remove_all(out);
      fs::create_directory(out);
      const ToolResult result = RunTool(WordsOf(row, store, out));
      EXPECT_EQ(result.code, 0) << row.line << ": " << result.err;
      EXPECT_EQ(result.err, "") << row.line;
    }
  }
}

TEST_F(ToolMatrix, EmptyStore) {
  fs::remove_all(path());
  ASSERT_OK(Store::Open(path()).status());
  EXPECT_EQ(RunAll(kEmpty, path(), {2, {path()}}, Restorer(path())), "");
}

TEST_F(ToolMatrix, NewerFormat) {
  RawDatabase(path()).Put(0, "format", "ckptdb 9");
  EXPECT_EQ(RunAll(kNewer, path(),
                   {5, {path(), "format \"ckptdb 9\"", "newer version"}},
                   Restorer(path())),
            "");
}

TEST_F(ToolMatrix, DamagedStore) {
  const fs::path table = LargestTable(path());
  for (uint64_t at = 100'000; at < 500'000; at += 100) FlipByte(table, at);
  EXPECT_EQ(RunAll(kDamaged, path(), {3, {"step"}}, Restorer(path())), "");
}

TEST_F(ToolMatrix, FolderWithoutAStore) {
  const std::string none = dir_.path() + "/none";
  EXPECT_EQ(RunAll(kNone, none, {2, {none}},
                   [&] {
                     fs::remove_all(none);
                     fs::create_directory(none);
                     std::ofstream(none + "/notes") << "mine";
                   }),
            "");
}

// Root may read everything, so another user runs the command.
class ToolMatrixPermissions : public ToolMatrix {
 protected:
  void SetUp() override {
    ToolMatrix::SetUp();
    fs::permissions(dir_.path(), fs::perms(0755));
    setting_.as_nobody = geteuid() == 0;
    if (RunTool({"--version"}, setting_).code != 0) {
      GTEST_SKIP() << "another user cannot run " << ToolPath();
    }
    for (const std::string& folder :
         {backups(), shipped(), dir_.path() + "/files"}) {
      Permit(folder, fs::perms(0555), fs::perms(0444));
    }
  }
  // Otherwise only root could remove the folders.
  void TearDown() override {
    for (const std::string& folder :
         {path(), backups(), shipped(), dir_.path() + "/files"}) {
      Permit(folder, fs::perms(0755), fs::perms(0644));
    }
  }

  static void Permit(const std::string& folder, fs::perms folders,
                     fs::perms files) {
    fs::permissions(folder, fs::perms(0755));
    for (const auto& entry : fs::recursive_directory_iterator(folder)) {
      fs::permissions(entry.path(), entry.is_directory() ? folders : files);
    }
    fs::permissions(folder, folders);
  }

  ToolSetting setting_;
};

TEST_F(ToolMatrixPermissions, LockedStore) {
  const std::string locked = dir_.path() + "/locked";
  const std::string store = locked + "/store";
  const auto restore = Restorer(store);
  EXPECT_EQ(RunAll(
                kLocked, store, {5, {store, "ermission"}},
                [&] {
                  if (fs::exists(locked)) {
                    fs::permissions(locked, fs::perms(0755));
                  }
                  if (fs::exists(store)) {
                    fs::permissions(store, fs::perms(0755));
                  }
                  fs::create_directory(locked);
                  restore();
                  fs::permissions(locked, fs::perms(0711));
                  fs::permissions(store, fs::perms(0000));
                },
                setting_),
            "");
  fs::permissions(store, fs::perms(0755));
}

TEST_F(ToolMatrixPermissions, ReadOnlyStore) {
  const auto restore = Restorer(path());
  EXPECT_EQ(RunAll(
                kReadOnly, path(), {5, {path(), "ermission"}},
                [&] {
                  if (fs::exists(path())) {
                    Permit(path(), fs::perms(0755), fs::perms(0644));
                  }
                  restore();
                  Permit(path(), fs::perms(0555), fs::perms(0444));
                },
                setting_),
            "");
}

// The store and the outputs are on a volume of their own, which is filled
// before each command. "" if the test may not mount.
class ToolMatrixVolume : public ToolMatrix {
 protected:
  std::string volume() const { return dir_.path() + "/volume"; }

  bool Mount() const {
    constexpr char kSize[] = "size=24m";
    return EnterNameSpace().ok() &&
           mount("none", volume().c_str(), "tmpfs", 0, kSize) == 0;
  }
  void Fill() const {
    std::ofstream file(volume() + "/filler", std::ios::binary);
    const std::string block(4096, 'x');
    while (file.write(block.data(), 4096) && file.flush()) {
    }
  }
  std::string RunEach() const {
    if (!Mount()) return "";
    const std::string store = volume() + "/store";
    const std::string out = volume() + "/outputs";
    std::string wrong;
    for (const MatrixCase& row : kMatrix) {
      for (const auto& entry : fs::directory_iterator(volume())) {
        fs::remove_all(entry.path());
      }
      fs::copy(path(), store, fs::copy_options::recursive);
      fs::create_directory(out);
      Fill();
      const ToolResult result = RunTool(WordsOf(row, store, out));
      wrong += WrongWith(row, result, row.codes[kFull], Outputs(out));
      if (result.code == 5 && !absl::StrContains(result.err, "No space") &&
          !absl::StrContains(result.err, "free")) {
        absl::StrAppend(&wrong, row.line, ": no cause in ", result.err);
      }
      fs::remove(volume() + "/filler");
      if (row.effect == kReads || row.effect == kNoStore) continue;
      const ToolResult verify = RunTool({"verify", "-s", store});
      if (verify.code != 0) {
        absl::StrAppend(&wrong, "after ", row.line, ": ", verify.err);
      }
    }
    return wrong;
  }
};

TEST_F(ToolMatrixVolume, FullDisk) {
  fs::create_directory(volume());
  ExpectInChild([&] { return RunEach(); });
}

// A trainer saves a step and retires the one before, many times a second.
class ToolMatrixTrainer : public ToolMatrix {
 protected:
  void Train() {
    const std::vector<float> weights(1000, 0.5F);
    std::unique_lock<std::mutex> lock(mutex_);
    for (int64_t step = 2000; !ended_; ++step) {
      RankState state;
      state.AddTensor("w", TensorView::Of(weights.data(), {1000}));
      SaveSpec spec;
      spec.step = step;
      if (step > 2000) spec.retire = {step - 1};
      ASSERT_OK(store_->Save(spec, state));
      ended_cond_.wait_for(lock, std::chrono::milliseconds(50),
                           [this] { return ended_; });
    }
  }
  void End() {
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      ended_ = true;
    }
    ended_cond_.notify_all();
  }

  std::mutex mutex_;
  std::condition_variable ended_cond_;
  bool ended_ = false;
};

TEST_F(ToolMatrixTrainer, LiveStoreUnderLoad) {
  Own();
  std::thread trainer([this] { Train(); });
  for (const MatrixCase& row : kMatrix) {
    const std::string out = outputs();
    fs::remove_all(out);
    fs::create_directory(out);
    ToolResult result;
    // The trainer may leave a backup no moment between its saves.
    for (int i = 0;
         i < 10 && (i == 0 || absl::StrContains(result.err, " tries")); ++i) {
      result = RunTool(WordsOf(row, path(), out));
    }
    EXPECT_EQ(WrongWith(row, result, row.codes[kLive], Outputs(out)), "");
    if (result.code == 4) {
      EXPECT_THAT(result.err,
                  AllOf(HasSubstr(path()), HasSubstr(absl::StrCat(getpid()))));
    }
  }
  End();
  trainer.join();
  Disown();
  EXPECT_EQ(Run("verify").code, 0);
}

TEST_F(ToolMatrix, ReadingChangesNoByteOfALiveStore) {
  Own();
  const auto before = BytesBelow(path());
  for (const MatrixCase& row : kMatrix) {
    if (row.effect == kPosts) continue;
    fs::remove_all(outputs());
    fs::create_directory(outputs());
    const ToolResult result = RunTool(WordsOf(row, path(), outputs()));
    EXPECT_EQ(WrongWith(row, result, row.codes[kLive], Outputs(outputs())), "");
    EXPECT_EQ(BytesBelow(path()), before) << row.line;
  }
  Disown();
}

// The signal ends a command that reads. One that writes completes, or undoes
// its work and reports that.
class ToolMatrixInterrupt : public ToolMatrix {
 protected:
  static std::string WholeSteps(const std::string& store) {
    const auto reader = Reader::Open(store);
    if (!reader.ok()) return std::string(reader.status().message());
    for (const StepRecord& record : (*reader)->Steps()) {
      const auto step = (*reader)->OpenStep(record.version.step);
      const absl::Status whole = step.ok() ? (*step)->Verify() : step.status();
      if (!whole.ok()) return std::string(whole.message());
    }
    return "";
  }
};

TEST_F(ToolMatrixInterrupt, LeavesTheStoreAndTheOutputsWhole) {
  std::mt19937_64 random(TestSeed());
  const auto restore = Restorer(path());
  for (const MatrixCase& row : kMatrix) {
    const auto run = [&](std::optional<std::chrono::microseconds> after) {
      if (row.effect == kOwns || row.effect == kPosts) restore();
      fs::remove_all(outputs());
      fs::create_directory(outputs());
      ToolSetting setting;
      setting.kill_after = after;
      setting.signal = SIGINT;
      return RunTool(WordsOf(row, path(), outputs()), setting);
    };
    const auto begin = std::chrono::steady_clock::now();
    const ToolResult undisturbed = run(std::nullopt);
    const auto micros = std::chrono::duration_cast<std::chrono::microseconds>(
        std::chrono::steady_clock::now() - begin);
    EXPECT_EQ(undisturbed.code, 0) << row.line << undisturbed.err;
    const std::set<std::string> whole = Outputs(outputs());
    for (int i = 0; i < (kSanitized ? 1 : 3); ++i) {
      const std::chrono::microseconds after(
          random() % static_cast<uint64_t>(micros.count()));
      const ToolResult result = run(after);
      SCOPED_TRACE(absl::StrCat(row.line, " after ", after.count(),
                                " us: ", result.code, " ", result.err));
      EXPECT_TRUE(result.code == -1 || result.code == 0 || result.code == 5);
      if (result.code == 5) {
        EXPECT_THAT(result.err, HasSubstr("interrupted"));
      }
      const std::string out = outputs() + "/out";
      const std::set<std::string> left = Outputs(outputs());
      if (row.command() == "copy" || row.command() == "restore-backup") {
        EXPECT_EQ(left.empty() ? "" : WholeSteps(out), "");
      } else if (row.command() == "backup") {
        EXPECT_EQ(RunLine("backup --list --verify " + outputs() + "/out").code,
                  fs::exists(out) ? 0 : 2);
      } else {
        EXPECT_TRUE(left.empty() || left == whole) << *left.begin();
      }
      EXPECT_EQ(WholeSteps(path()), "");
    }
  }
}

}  // namespace
}  // namespace ckptdb::testing
