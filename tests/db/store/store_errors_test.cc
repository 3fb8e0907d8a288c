// SPDX-License-Identifier: Apache-2.0
// Folders, modes, refused opens and bad states.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <rocksdb/db.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <functional>
#include <set>

#include "db/base/state_items.h"
#include "db/reader.h"
#include "db/rocks/rocks_options.h"
#include "db/state.h"
#include "tests/db/child.h"
#include "tests/db/store_fixture.h"

namespace ckptdb::testing {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class StoreErrorsTest : public StoreFixture {
 protected:
  void SetUp() override {}

  // Modes of all folders and of all files below the store.
  std::pair<std::set<mode_t>, std::set<mode_t>> Modes() const {
    std::set<mode_t> folders = {ModeOf(path())};
    std::set<mode_t> files;
    for (const auto& entry :
         std::filesystem::recursive_directory_iterator(path())) {
      (entry.is_directory() ? folders : files).insert(ModeOf(entry.path()));
    }
    return {folders, files};
  }
  // All that is below the store, by path.
  std::set<std::string> Tree() const {
    std::set<std::string> paths;
    for (const auto& entry :
         std::filesystem::recursive_directory_iterator(path())) {
      paths.insert(entry.path());
    }
    return paths;
  }
  // Opening it, in whatever way, is that error, and changes nothing.
  void ExpectRefused(absl::StatusCode code, const std::string& text) {
    const std::set<std::string> before = Tree();
    for (const bool create : {true, false}) {
      options_.create_if_missing = create;
      EXPECT_THAT(Store::Open(path(), options_),
                  StatusIs(code, AllOf(HasSubstr(path()), HasSubstr(text))));
    }
    EXPECT_THAT(Reader::Open(path()),
                StatusIs(code, AllOf(HasSubstr(path()), HasSubstr(text))));
    EXPECT_EQ(Tree(), before);
  }
  std::set<std::string> DatabaseFiles() const {
    std::set<std::string> names;
    for (const auto& entry :
         std::filesystem::directory_iterator(path() + "/db")) {
      names.insert(entry.path().filename());
    }
    return names;
  }
  static mode_t ModeOf(const std::filesystem::path& path) {
    struct stat status {};
    EXPECT_EQ(lstat(path.c_str(), &status), 0) << path;
    return status.st_mode & 07777;
  }
};

// NotFound would say that the step does not exist.
TEST_F(StoreErrorsTest, CallsNameTheFolderThatWasMovedAway) {
  Reopen();
  ASSERT_OK(Save(1, SmallContent(1)));
  ASSERT_OK(Save(2, SmallContent(2)));
  const std::string elsewhere = path() + ".moved";
  std::filesystem::rename(path(), elsewhere);
  const auto names_the_folder =
      StatusIs(absl::StatusCode::kFailedPrecondition,
               AllOf(HasSubstr(path()), HasSubstr("was moved or removed")));
  EXPECT_THAT(store_->Delete(1), names_the_folder);
  EXPECT_THAT(store_->Pin(1), names_the_folder);
  EXPECT_THAT(store_->Quarantine(1), names_the_folder);
  EXPECT_THAT(store_->SetEphemeral(1, true), names_the_folder);
  EXPECT_THAT(store_->AddMetrics(1, {{"auc", 0.5}}), names_the_folder);
  EXPECT_THAT(store_->SetUserMetadata({{"run", "a"}}), names_the_folder);
  EXPECT_THAT(store_->SaveEvaluation(1, "auc", "all", {{}}), names_the_folder);
  EXPECT_THAT(store_->GetUsage().status(), names_the_folder);
  EXPECT_THAT(Save(3, SmallContent(3)).status(), names_the_folder);
  std::filesystem::rename(elsewhere, path());
  ASSERT_OK(store_->Delete(1));
  ASSERT_OK(Save(3, SmallContent(3)));
}

TEST_F(StoreErrorsTest, FoldersAndFilesAreTheOwners) {
  Reopen();
  ASSERT_OK(Save(1, BulkContent(1)));
  ASSERT_OK_AND_ASSIGN(const Store::Attempt save, store_->Begin({.step = 2}));
  const HeldState held(BulkContent(2));
  ASSERT_OK(Stage(path(), save.tickets.at(0), held.state()));
  const auto [folders, files] = Modes();
  EXPECT_THAT(folders, ElementsAre(0700));
  EXPECT_THAT(files, ElementsAre(0600));
}

TEST_F(StoreErrorsTest, ModesAreTheCallersWhateverTheUmask) {
  options_.directory_mode = 0770;
  options_.file_mode = 0664;
  const mode_t old = umask(077);
  Reopen();
  const HeldState held(BulkContent(1));
  EXPECT_OK(store_->Save({.step = 1}, held.state()));
  umask(old);
  const auto [folders, files] = Modes();
  EXPECT_THAT(folders, ElementsAre(0770));
  EXPECT_THAT(files, ElementsAre(0664));
}

TEST_F(StoreErrorsTest, ModesWithoutTheOwnersBitsAreRefused) {
  const auto open = [&](uint32_t directory_mode, uint32_t file_mode) {
    StoreOptions options;
    options.directory_mode = directory_mode;
    options.file_mode = file_mode;
    return Store::Open(dir_.path() + "/other", options).status();
  };
  EXPECT_THAT(open(0600, 0600),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("StoreOptions::directory_mode is 0600; it "
                                 "must include 0700")));
  EXPECT_THAT(open(0177777, 0600),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("directory_mode is 0177777")));
  EXPECT_THAT(open(0700, 0440), StatusIs(absl::StatusCode::kInvalidArgument,
                                         HasSubstr("file_mode is 0440")));
  EXPECT_FALSE(std::filesystem::exists(dir_.path() + "/other"));
  EXPECT_OK(open(02770, 0660));
}

TEST_F(StoreErrorsTest, NoStoreIsNotFoundWithoutCreate) {
  options_.create_if_missing = false;
  EXPECT_THAT(Store::Open(path(), options_),
              StatusIs(absl::StatusCode::kNotFound, HasSubstr(path())));
  EXPECT_FALSE(std::filesystem::exists(path()));
}

TEST_F(StoreErrorsTest, ExistingStoreOpensWithoutCreate) {
  Reopen();
  ASSERT_OK(Save(1, SmallContent(1)));
  options_.create_if_missing = false;
  Reopen();
  ExpectStep(1, {SmallContent(1)});
}

TEST_F(StoreErrorsTest, EmptyFolderBecomesAStore) {
  std::filesystem::create_directory(path());
  Reopen();
  ASSERT_OK(Save(1, SmallContent(1)));
}

// A process died after it had made the database, and before its families.
TEST_F(StoreErrorsTest, AnIncompleteStoreIsNotFoundAndIsCreated) {
  std::filesystem::create_directories(path() + "/db");
  {
    rocksdb::Options options;
    options.create_if_missing = true;
    rocksdb::DB* database = nullptr;
    ASSERT_TRUE(rocksdb::DB::Open(options, path() + "/db", &database).ok());
    delete database;
  }
  EXPECT_THAT(Reader::Open(path()).status(),
              StatusIs(absl::StatusCode::kNotFound, HasSubstr(path())));
  Reopen();
  EXPECT_OK(Save(1, SmallContent(1)));
}

// Any project may have a folder of that name.
TEST_F(StoreErrorsTest, NothingIsMadeInAFolderWithoutAStore) {
  std::filesystem::create_directories(path() + "/db");
  std::ofstream(path() + "/db/schema.sql") << "create table t;";
  const std::set<std::string> before = Tree();
  options_.create_if_missing = false;
  EXPECT_THAT(Store::Open(path(), options_),
              StatusIs(absl::StatusCode::kNotFound, HasSubstr(path())));
  EXPECT_EQ(Tree(), before);
}

TEST_F(StoreErrorsTest, AStoreWithoutItsDatabaseIsDamaged) {
  Reopen();
  ASSERT_OK(Save(1, SmallContent(1)));
  store_.reset();
  std::filesystem::remove_all(path() + "/db");
  ExpectRefused(absl::StatusCode::kDataLoss, "/db/CURRENT");
}

// RocksDB would add families to it, after which its program cannot open it, and
// remove files that it does not know.
class ForeignDatabaseTest : public StoreErrorsTest {
 protected:
  using Fill = std::function<void(rocksdb::DB*)>;

  // Opens another program's database, or makes it.
  void Use(const Fill& fill, const std::vector<std::string>& families) {
    std::filesystem::create_directories(path());
    rocksdb::DBOptions options;
    options.create_if_missing = true;
    options.create_missing_column_families = true;
    std::vector<rocksdb::ColumnFamilyDescriptor> all;
    for (const std::string& name : families) {
      all.emplace_back(name, rocksdb::ColumnFamilyOptions());
    }
    rocksdb::DB* opened = nullptr;
    std::vector<rocksdb::ColumnFamilyHandle*> handles;
    const rocksdb::Status status =
        rocksdb::DB::Open(options, path() + "/db", all, &handles, &opened);
    ASSERT_TRUE(status.ok()) << status.ToString();
    const std::unique_ptr<rocksdb::DB> database(opened);
    fill(database.get());
    for (auto* handle : handles) database->DestroyColumnFamilyHandle(handle);
  }
  static void Put(rocksdb::DB* database) {
    ASSERT_TRUE(database->Put({}, "mine", "precious").ok());
  }
  static void Flush(rocksdb::DB* database) {
    Put(database);
    ASSERT_TRUE(database->Flush({}).ok());
  }
  static void Find(rocksdb::DB* database) {
    std::string value;
    EXPECT_TRUE(database->Get({}, "mine", &value).ok());
    EXPECT_EQ(value, "precious");
  }
};

TEST_F(ForeignDatabaseTest, WithEntriesInTheLog) {
  Use(Put, {"default"});
  ExpectRefused(absl::StatusCode::kFailedPrecondition, "another program");
  Use(Find, {"default"});
}

TEST_F(ForeignDatabaseTest, WithTables) {
  Use(Flush, {"default"});
  ExpectRefused(absl::StatusCode::kFailedPrecondition, "another program");
  Use(Find, {"default"});
}

TEST_F(ForeignDatabaseTest, WithFamiliesOfItsOwn) {
  Use(Put, {"default", "accounts"});
  ExpectRefused(absl::StatusCode::kFailedPrecondition, "\"accounts\"");
  Use(Find, {"default", "accounts"});
}

TEST_F(StoreErrorsTest, MissingParentFoldersAreMade) {
  ASSERT_OK_AND_ASSIGN(const auto store, Store::Open(path() + "/a/b/c"));
  EXPECT_THAT(store->Steps(), IsEmpty());
}

TEST_F(StoreErrorsTest, FileInTheWay) {
  std::ofstream(path()) << "a file";
  EXPECT_THAT(Store::Open(path()),
              StatusIs(absl::StatusCode::kFailedPrecondition,
                       AllOf(HasSubstr(path()), HasSubstr("Not a directory"))));
  EXPECT_THAT(
      Store::Open(path() + "/below"),
      StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr(path())));
  EXPECT_EQ(std::filesystem::file_size(path()), 6u);
}

// By the owner and by a reader alike, and nothing is written.
TEST_F(StoreErrorsTest, ANewerFormatIsRefused) {
  Reopen();
  store_.reset();
  {
    std::vector<rocksdb::ColumnFamilyHandle*> handles;
    rocksdb::DB* opened = nullptr;
    ASSERT_TRUE(
        rocksdb::DB::Open(internal::DatabaseOptions(rocksdb::Env::Default()),
                          path() + "/db", internal::FamilyDescriptors(),
                          &handles, &opened)
            .ok());
    const std::unique_ptr<rocksdb::DB> rocks(opened);
    EXPECT_TRUE(
        rocks->Put(rocksdb::WriteOptions(), handles[0], "format", "ckptdb 2")
            .ok());
    for (auto* handle : handles) rocks->DestroyColumnFamilyHandle(handle);
  }
  const auto refused = StatusIs(absl::StatusCode::kFailedPrecondition,
                                HasSubstr("has format \"ckptdb 2\""));
  const std::set<std::string> names = DatabaseFiles();
  EXPECT_THAT(Store::Open(path()).status(), refused);
  EXPECT_THAT(Reader::Open(path()).status(), refused);
  EXPECT_EQ(DatabaseFiles(), names);
}

TEST_F(StoreErrorsTest, EmptyPath) {
  EXPECT_THAT(Store::Open(""),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("path")));
}

TEST_F(StoreErrorsTest, FolderThatCannotBeWritten) {
  const std::string folder = dir_.path() + "/locked";
  std::filesystem::create_directory(folder);
  chmod(dir_.path().c_str(), 0755);
  chmod(folder.c_str(), 0555);
  Child child({"--nobody", "hold", folder + "/store"});
  const std::string line = child.ReadLine();
  if (line.find("UNIMPLEMENTED") != std::string::npos) GTEST_SKIP() << line;
  EXPECT_THAT(line, AllOf(HasSubstr("PERMISSION_DENIED"),
                          HasSubstr(folder + "/store")));
}

TEST_F(StoreErrorsTest, AStoreOfAnotherUserIsPermissionDenied) {
  Reopen();
  store_.reset();
  if (geteuid() != 0) GTEST_SKIP() << "needs root to make a foreign store";
  chmod(dir_.path().c_str(), 0755);
  Child child({"--nobody", "hold", path()});
  const std::string line = child.ReadLine();
  if (line.find("UNIMPLEMENTED") != std::string::npos) GTEST_SKIP() << line;
  EXPECT_THAT(line, AllOf(HasSubstr("PERMISSION_DENIED"), HasSubstr(path())));
}

// What is wrong with a state, what its error says.
struct BadState {
  std::function<void(RankState*)> add;
  std::vector<std::string> words;
};

class BadStateTest : public StoreFixture {
 protected:
  void ExpectRefused(const BadState& bad) {
    RankState state;
    const HeldState good(BulkContent(1));
    for (const internal::StateTensor& tensor : good.state().tensors()) {
      state.AddTensor(tensor.name, tensor.view);
    }
    bad.add(&state);
    const absl::Status status = store_->Save({.step = 1}, state).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument)
        << bad.words.front();
    for (const std::string& word : bad.words) {
      EXPECT_THAT(std::string(status.message()), HasSubstr(word));
    }
    EXPECT_THAT(store_->Steps(), IsEmpty());
  }

  const std::vector<float> values_ = std::vector<float>(16, 1.0f);
  const std::vector<int64_t> ids_ = {1, 2, 3, 4};
  const RowSource::Arrays rows_{ids_, {{values_.data(), 4}}};
};

TEST_F(BadStateTest, Tensors) {
  const float* data = values_.data();
  const BadState cases[] = {
      {[&](RankState* s) { s->AddTensor("t", TensorView::Of(data, {-1})); },
       {"\"t\"", "[-1]"}},
      {[&](RankState* s) {
         s->AddTensor("t", TensorView::Of<float>(nullptr, {2}));
       },
       {"\"t\"", "no data"}},
      {[&](RankState* s) {
         s->AddTensor("t", TensorView::Of(data, {1 << 30, 1 << 30, 1 << 10}));
       },
       {"\"t\"", "2^63"}},
      {[&](RankState* s) {
         s->AddTensor("t", {DType::kF32, {2, 2}, data, {3, 3}, {2, 2}});
       },
       {"\"t\"", "[2, 2]", "[3, 3]"}},
      {[&](RankState* s) {
         s->AddTensor("t", {DType::kF32, {2, 2}, data, {4}, {0}});
       },
       {"\"t\"", "[2, 2]", "[4]"}},
      {[&](RankState* s) {
         s->AddTensor("t", {DType::kF32, {2}, data, {4}, {}});
       },
       {"\"t\"", "offset"}},
      {[&](RankState* s) {
         s->AddTensor("t", {static_cast<DType>(77), {2}, data, {}, {}});
       },
       {"\"t\"", "77"}},
      {[&](RankState* s) {
         s->AddTensor("t", TensorView::Of(data, {2}), static_cast<Codec>(9));
       },
       {"\"t\"", "9"}},
      {[&](RankState* s) {
         s->AddTensor("twice", TensorView::Of(data, {2}));
         s->AddTensor("twice", TensorView::Of(data, {3}));
       },
       {"\"twice\"", "twice"}},
      {[&](RankState* s) {
         s->AddTensor(std::string("a\0b", 3), TensorView::Of(data, {2}));
       },
       {"NUL"}},
      {[&](RankState* s) { s->AddTensor("\xff", TensorView::Of(data, {2})); },
       {"UTF-8"}}};
  for (const BadState& bad : cases) ExpectRefused(bad);
}

TEST_F(BadStateTest, Blobs) {
  const BadState cases[] = {
      {[&](RankState* s) { s->AddBlob("", "x"); }, {"name", "empty"}},
      {[&](RankState* s) {
         s->AddBlob("twice", "x");
         s->AddBlob("twice", "x");
       },
       {"\"twice\""}},
      {[&](RankState* s) { s->AddBlob("\xc3", "x"); }, {"UTF-8"}}};
  for (const BadState& bad : cases) ExpectRefused(bad);
}

TEST_F(BadStateTest, Tables) {
  const Slot slot{"v", DType::kF32, 1, Codec::kNone};
  const BadState cases[] = {
      {[&](RankState* s) { s->AddTable("t", {slot}, nullptr); },
       {"\"t\"", "rows"}},
      {[&](RankState* s) { s->AddTable("t", {}, &rows_); }, {"\"t\"", "slots"}},
      {[&](RankState* s) {
         s->AddTable("t", {{"v", DType::kF32, 0}}, &rows_);
       },
       {"\"t\"", "\"v\"", "0"}},
      {[&](RankState* s) {
         s->AddTable("t", {slot, slot}, &rows_);
       },
       {"\"t\"", "\"v\""}},
      {[&](RankState* s) {
         s->AddTable("t", {{"", DType::kF32, 1}}, &rows_);
       },
       {"slot", "empty"}},
      {[&](RankState* s) {
         s->AddTable("t", {slot, {"w", DType::kF32, 1}}, &rows_);
       },
       {"\"t\"", "1", "2"}},
      {[&](RankState* s) {
         s->AddTable("t", {slot}, &rows_, static_cast<SliceHash>(9));
       },
       {"\"t\"", "9"}},
      {[&](RankState* s) {
         s->AddTable("t", {{"v", static_cast<DType>(99), 1}}, &rows_);
       },
       {"\"t\"", "99"}},
      {[&](RankState* s) {
         s->AddTable("twice", {slot}, &rows_);
         s->AddTable("twice", {slot}, &rows_);
       },
       {"\"twice\""}}};
  for (const BadState& bad : cases) ExpectRefused(bad);
}

TEST_F(BadStateTest, RowsWithoutMemory) {
  const RowSource::Arrays rows(ids_, {{nullptr, 4}});
  ExpectRefused({[&](RankState* s) {
                   s->AddTable("t", {{"v", DType::kF32, 1}}, &rows);
                 },
                 {"\"t\"", "\"v\"", "no data"}});
}

// Rows whose source fails.
class FailingRows : public RowSource {
 public:
  uint64_t block_count() const override { return 3; }
  absl::StatusOr<RowBlock> Block(uint64_t block) const override {
    if (block == 2) return absl::AbortedError("the trainer went away");
    return RowBlock{};
  }
};

TEST_F(BadStateTest, ErrorOfTheRowSourceIsTheSaves) {
  FailingRows rows;
  RankState state;
  state.AddTable("t", {{"v", DType::kF32, 1}}, &rows);
  EXPECT_THAT(
      store_->Save({.step = 1}, state),
      StatusIs(absl::StatusCode::kAborted, HasSubstr("the trainer went away")));
  EXPECT_THAT(store_->Steps(), IsEmpty());
}

class BadSpecTest : public StoreFixture {};

TEST_F(BadSpecTest, BeginRefuses) {
  const auto expect = [&](const SaveSpec& spec, const std::string& words) {
    EXPECT_THAT(store_->Begin(spec),
                StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr(words)));
  };
  expect({.step = -1}, "-1");
  expect({.step = 1, .world_size = 0}, "world size 0");
  expect({.step = 1, .world_size = 2, .slice_bounds = {0, 65536}}, "bounds");
  expect({.step = 1, .world_size = 1, .slice_bounds = {1, 65536}}, "bounds");
  expect({.step = 1, .world_size = 1, .slice_bounds = {0, 65535}}, "bounds");
  expect({.step = 1, .world_size = 2, .slice_bounds = {0, 70000, 65536}},
         "bounds");
  expect({.step = 1, .world_size = 3, .slice_bounds = {0, 9, 8, 65536}},
         "bounds");
  // None of them was begun: the first attempt is still to come.
  ASSERT_OK_AND_ASSIGN(const Store::Attempt save, store_->Begin({.step = 1}));
  EXPECT_EQ(save.version.attempt, 1U);
}

TEST_F(BadSpecTest, SaveOfOneRankOnly) {
  EXPECT_THAT(store_->Save({.step = 1, .world_size = 2}, RankState()),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("2")));
  EXPECT_THAT(store_->Steps(), IsEmpty());
}

// A caller that subtracts may come to a negative number of threads.
TEST_F(BadSpecTest, NoThreads) {
  const auto expect = [](const absl::Status& status, const std::string& what) {
    EXPECT_THAT(status, StatusIs(absl::StatusCode::kInvalidArgument,
                                 HasSubstr(what + " is -7; it must be at least "
                                                  "1")));
  };
  const HeldState held(SmallContent(1));
  options_.stage_threads = -7;
  Reopen();
  expect(store_->Save({.step = 1}, held.state()).status(),
         "StoreOptions::stage_threads");
  options_.stage_threads = 8;
  Reopen();
  ASSERT_OK(Save(1, SmallContent(1)));
  expect(store_->Fold(1, {.threads = -7}).status(), "ReadOptions::threads");
  ASSERT_OK_AND_ASSIGN(const auto step, store_->OpenStep(1));
  const ReadOptions read = {.threads = -7};
  std::vector<float> w(6);
  expect(step->ReadTensor("w", w.data(), w.size() * sizeof(float), read),
         "ReadOptions::threads");
  expect(step->ReadBlob(0, "reader", read).status(), "ReadOptions::threads");
  expect(step->Verify(read), "ReadOptions::threads");
  CollectRows rows({16, 4});
  expect(step->ScanTable("user", {.read = read}, &rows),
         "ReadOptions::threads");
}

TEST_F(BadSpecTest, ReserveThatIsNotThere) {
  options_.reserve_bytes = uint64_t{1} << 60;
  Reopen();
  EXPECT_THAT(Save(1, SmallContent(1)),
              StatusIs(absl::StatusCode::kResourceExhausted,
                       AllOf(HasSubstr("free"),
                             HasSubstr(std::to_string(uint64_t{1} << 60)))));
  EXPECT_THAT(store_->Steps(), IsEmpty());
  options_.reserve_bytes = 0;
  Reopen();
  EXPECT_OK(Save(1, SmallContent(1)));
}

TEST_F(BadSpecTest, StagingReserveThatIsNotThere) {
  ASSERT_OK_AND_ASSIGN(const Store::Attempt save, store_->Begin({.step = 1}));
  const HeldState held(BulkContent(1));
  StoreOptions options;
  options.reserve_bytes = uint64_t{1} << 60;
  EXPECT_THAT(Stage(path(), save.tickets.at(0), held.state(), options),
              StatusIs(absl::StatusCode::kResourceExhausted,
                       AllOf(HasSubstr("free"),
                             HasSubstr(std::to_string(uint64_t{1} << 60)))));
  options.reserve_bytes = 0;
  ASSERT_OK_AND_ASSIGN(
      const StagedRank staged,
      Stage(path(), save.tickets.at(0), held.state(), options));
  ASSERT_OK(store_->Publish(save.version, {staged}));
  ExpectStep(1, {BulkContent(1)});
}

}  // namespace
}  // namespace ckptdb::testing
