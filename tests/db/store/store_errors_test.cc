// SPDX-License-Identifier: Apache-2.0
// Folders, modes, refused opens and bad states.

#include "db/base/state_items.h"
#include "tests/db/child.h"
#include "tests/db/raw_database.h"
#include "tests/db/store_fixture.h"

namespace ckptdb::testing {
namespace {

class StoreErrorsTest : public StoreFixture {
 protected:
  void SetUp() override {}
  std::pair<std::set<mode_t>, std::set<mode_t>> Modes() const {
    std::set<mode_t> folders = {ModeOf(path())};
    std::set<mode_t> files;
    for (const auto& entry :
         std::filesystem::recursive_directory_iterator(path()))
      (entry.is_directory() ? folders : files).insert(ModeOf(entry.path()));
    return {folders, files};
  }
  std::set<std::string> Tree() const {
    std::set<std::string> paths;
    for (const auto& entry :
         std::filesystem::recursive_directory_iterator(path()))
      paths.insert(entry.path());
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
  static mode_t ModeOf(const std::filesystem::path& path) {
    struct stat status {};
    EXPECT_EQ(lstat(path.c_str(), &status), 0) << path;
    return status.st_mode & 07777;
  }
};

// NotFound would say that the step does not exist.
TEST_F(StoreErrorsTest, CallsNameTheFolderThatWasMovedAway) {
  Reopen();
  SaveSmall({1, 2});
  const std::string elsewhere = path() + ".moved";
  std::filesystem::rename(path(), elsewhere);
  for (const absl::Status& status :
       {store_->Delete(1), store_->Pin(1), store_->Quarantine(1),
        store_->SetEphemeral(1, true), store_->AddMetrics(1, {{"auc", 0.5}}),
        store_->SetUserMetadata({{"run", "a"}}),
        store_->SaveEvaluation(1, "auc", "all", {{}}),
        store_->GetUsage().status(), Save(3, SmallContent(3)).status()}) {
    EXPECT_THAT(status, FailedPrecondition(path(), "was moved or removed"));
  }
  std::filesystem::rename(elsewhere, path());
  ASSERT_OK(store_->Delete(1));
  SaveSmall({3});
}

TEST_F(StoreErrorsTest, ModesAreTheOwnersOrTheCallersWhateverTheUmask) {
  Reopen();
  ASSERT_OK(Save(1, BulkContent(1)));
  StageAll(Begin({.step = 2}), {BulkContent(2)});
  EXPECT_THAT(Modes(), Pair(ElementsAre(0700), ElementsAre(0600)));
  store_.reset();
  std::filesystem::remove_all(path());
  options_.directory_mode = 0770;
  options_.file_mode = 0664;
  const mode_t old = umask(077);
  Reopen();
  EXPECT_OK(Save(1, BulkContent(1)));
  umask(old);
  EXPECT_THAT(Modes(), Pair(ElementsAre(0770), ElementsAre(0664)));
}

TEST_F(StoreErrorsTest, ModesWithoutTheOwnersBitsAreRefused) {
  const auto open = [&](uint32_t directory_mode, uint32_t file_mode) {
    StoreOptions options{.directory_mode = directory_mode,
                         .file_mode = file_mode};
    return Store::Open(dir_.path() + "/other", options).status();
  };
  EXPECT_THAT(open(0600, 0600),
              InvalidArgument("StoreOptions::directory_mode is 0600; it "
                              "must include 0700"));
  EXPECT_THAT(open(0177777, 0600),
              InvalidArgument("directory_mode is 0177777"));
  EXPECT_THAT(open(0700, 0440), InvalidArgument("file_mode is 0440"));
  EXPECT_FALSE(std::filesystem::exists(dir_.path() + "/other"));
  EXPECT_OK(open(02770, 0660));
}

TEST_F(StoreErrorsTest, OpenWithoutCreateNeedsAStore) {
  options_.create_if_missing = false;
  EXPECT_THAT(Store::Open(path(), options_), NotFound(path()));
  EXPECT_FALSE(std::filesystem::exists(path()));
  options_.create_if_missing = true;
  std::filesystem::create_directory(path());  // an empty folder becomes a store
  Reopen();
  SaveSmall({1});
  options_.create_if_missing = false;
  Reopen();
  ExpectSmall({1});
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
  EXPECT_THAT(Reader::Open(path()).status(), NotFound(path()));
  Reopen();
  EXPECT_OK(Save(1, SmallContent(1)));
}

// Any project may have a folder of that name.
TEST_F(StoreErrorsTest, NothingIsMadeInAFolderWithoutAStore) {
  std::filesystem::create_directories(path() + "/db");
  std::ofstream(path() + "/db/schema.sql") << "create table t;";
  const std::set<std::string> before = Tree();
  options_.create_if_missing = false;
  EXPECT_THAT(Store::Open(path(), options_), NotFound(path()));
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
  void Use(const Fill& fill, const std::vector<std::string>& families) {
    std::filesystem::create_directories(path());
    rocksdb::DBOptions options;
    options.create_if_missing = true;
    options.create_missing_column_families = true;
    std::vector<rocksdb::ColumnFamilyDescriptor> all;
    for (const std::string& name : families)
      all.emplace_back(name, rocksdb::ColumnFamilyOptions());
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

TEST_F(ForeignDatabaseTest, IsRefusedAndLeftAsItIs) {
  const std::vector<std::string> one = {"default"};
  const std::vector<std::string> two = {"default", "accounts"};
  for (const auto& [fill, families, words] :
       {std::tuple<Fill, std::vector<std::string>, std::string>{
            Put, one, "another program"},  // entries in the log
        {Flush, one, "another program"},   // a table
        {Put, two, "\"accounts\""}}) {
    Use(fill, families);
    ExpectRefused(absl::StatusCode::kFailedPrecondition, words);
    Use(Find, families);
    std::filesystem::remove_all(path());
  }
}

TEST_F(StoreErrorsTest, MissingParentFoldersAreMadeButNotInPlaceOfAFile) {
  EXPECT_THAT(Store::Open(path() + "/a/b/c").value()->Steps(), IsEmpty());
  const std::string file = dir_.path() + "/file";
  WriteFile(file, "a file");
  EXPECT_THAT(Store::Open(file),
              FailedPrecondition(file, "Not a directory", "must not be files"));
  EXPECT_THAT(Store::Open(file + "/below"), FailedPrecondition(file));
  EXPECT_EQ(ReadFile(file), "a file");
}

// By the owner and by a reader alike, and nothing is written.
TEST_F(StoreErrorsTest, ANewerFormatIsRefused) {
  Reopen();
  store_.reset();
  RawDatabase(path()).Put(0, "format", "ckptdb 2");
  const auto refused = FailedPrecondition("has format \"ckptdb 2\"");
  const auto names = FilesIn(In("db"));
  EXPECT_THAT(Store::Open(path()).status(), refused);
  EXPECT_THAT(Reader::Open(path()).status(), refused);
  EXPECT_EQ(FilesIn(In("db")), names);
}

TEST_F(StoreErrorsTest, AFolderOfAnotherUserIsPermissionDenied) {
  std::vector<std::string> folders = {dir_.path() + "/locked/store"};
  std::filesystem::create_directory(dir_.path() + "/locked");
  chmod(dir_.path().c_str(), 0755);
  chmod((dir_.path() + "/locked").c_str(), 0555);
  Reopen();
  store_.reset();
  if (geteuid() == 0) folders.push_back(path());
  for (const std::string& folder : folders) {
    Child child({"--nobody", "hold", folder});
    const std::string line = child.ReadLine();
    if (line.find("UNIMPLEMENTED") != std::string::npos) GTEST_SKIP() << line;
    EXPECT_THAT(line, AllOf(HasSubstr("PERMISSION_DENIED"), HasSubstr(folder)));
  }
}

TEST_F(StoreErrorsTest, UsersWithWriteAccessShareAStore) {
  if (geteuid() != 0) GTEST_SKIP() << "only root can become another user";
  chmod(dir_.path().c_str(), 0755);
  options_.directory_mode = 0777;
  options_.file_mode = 0666;
  Reopen();
  SaveSmall({1});
  store_.reset();
  Child child({"--shared", "--nobody", "own", path()});
  const std::string line = child.ReadLine();
  if (line.find("UNIMPLEMENTED") != std::string::npos) GTEST_SKIP() << line;
  EXPECT_EQ(line, "ok");
  child.Write("save 2\n");
  EXPECT_EQ(child.ReadLine(), "ok");
  child.CloseInput();
  EXPECT_EQ(child.Wait(), 0);
  Reopen();
  ExpectStep(1, {SmallContent(1)});
  EXPECT_THAT(ListSteps(), ElementsAre(1, 2));
}

// A command that root runs creates files that belong to root.
TEST_F(StoreErrorsTest, AFileOfAnotherUserIsNamedWithTheRemedy) {
  if (geteuid() != 0) GTEST_SKIP() << "only root can give files away";
  constexpr uid_t kNobody = 65534;
  chmod(dir_.path().c_str(), 0755);
  Reopen();
  store_.reset();
  for (const std::string& each : Tree()) {
    ASSERT_EQ(chown(each.c_str(), kNobody, kNobody), 0);
  }
  ASSERT_EQ(chown(path().c_str(), kNobody, kNobody), 0);
  const std::string current = In("db") + "/CURRENT";
  ASSERT_EQ(chown(current.c_str(), 0, 0), 0);
  Child denied({"--nobody", "hold", path()});
  const std::string line = denied.ReadLine();
  if (line.find("UNIMPLEMENTED") != std::string::npos) GTEST_SKIP() << line;
  EXPECT_THAT(line,
              AllOf(HasSubstr("PERMISSION_DENIED"),
                    HasSubstr(current +
                              "\" belongs to user 0, but this process runs as "
                              "user 65534: run \"chown -R 65534 " +
                              path() + "\" as root")));
  ASSERT_EQ(chown(current.c_str(), kNobody, kNobody), 0);
  Child opened({"--nobody", "hold", path()});
  EXPECT_THAT(opened.ReadLine(), Not(HasSubstr("PERMISSION_DENIED")));
}

struct BadState {
  std::function<void(RankState*)> add;
  std::vector<std::string> words;
};

class BadStateTest : public StoreFixture {
 protected:
  void ExpectRefused(const BadState& bad) {
    RankState state;
    const HeldState good(BulkContent(1));
    for (const internal::StateTensor& tensor : good.state().tensors())
      state.AddTensor(tensor.name, tensor.view);
    bad.add(&state);
    EXPECT_THAT(store_->Save({.step = 1}, state), InvalidArgument(bad.words));
    EXPECT_THAT(store_->Steps(), IsEmpty());
  }
  const std::vector<float> values_ = std::vector<float>(16, 1.0f);
  const std::vector<int64_t> ids_ = {1, 2, 3, 4};
  const RowSource::Arrays rows_{ids_, {{values_.data(), 4}}};
};

TEST_F(BadStateTest, Tensors) {
  const float* data = values_.data();
  const BadState cases[] = {
      {[&](auto* s) { s->AddTensor("t", TensorView::Of(data, {-1})); },
       {"\"t\"", "[-1]"}},
      {[&](auto* s) { s->AddTensor("t", TensorView::Of<float>(nullptr, {2})); },
       {"\"t\"", "no data"}},
      {[&](auto* s) {
         s->AddTensor("t", TensorView::Of(data, {1 << 30, 1 << 30, 1 << 10}));
       },
       {"\"t\"", "2^63"}},
      {[&](auto* s) {
         s->AddTensor("t", {DType::kF32, {2, 2}, data, {3, 3}, {2, 2}});
       },
       {"\"t\"", "[2, 2]", "[3, 3]"}},
      {[&](auto* s) {
         s->AddTensor("t", {DType::kF32, {2, 2}, data, {4}, {0}});
       },
       {"\"t\"", "[2, 2]", "[4]"}},
      {[&](auto* s) {
         s->AddTensor("t", {DType::kF32, {2}, data, {4}, {}});
       },
       {"\"t\"", "offset"}},
      {[&](auto* s) {
         s->AddTensor("t", {static_cast<DType>(77), {2}, data, {}, {}});
       },
       {"\"t\"", "77"}},
      {[&](auto* s) {
         s->AddTensor("t", TensorView::Of(data, {2}), static_cast<Codec>(9));
       },
       {"\"t\"", "9"}},
      {[&](auto* s) {
         s->AddTensor("twice", TensorView::Of(data, {2}));
         s->AddTensor("twice", TensorView::Of(data, {3}));
       },
       {"\"twice\"", "twice"}},
      {[&](auto* s) {
         s->AddTensor(std::string("a\0b", 3), TensorView::Of(data, {2}));
       },
       {"NUL"}},
      {[&](auto* s) { s->AddTensor("\xff", TensorView::Of(data, {2})); },
       {"UTF-8"}}};
  for (const BadState& bad : cases) ExpectRefused(bad);
}

TEST_F(BadStateTest, Blobs) {
  const BadState cases[] = {
      {[&](auto* s) { s->AddBlob("", "x"); }, {"name", "empty"}},
      {[&](auto* s) {
         s->AddBlob("twice", "x");
         s->AddBlob("twice", "x");
       },
       {"\"twice\""}},
      {[&](auto* s) { s->AddBlob("\xc3", "x"); }, {"UTF-8"}}};
  for (const BadState& bad : cases) ExpectRefused(bad);
}

TEST_F(BadStateTest, Tables) {
  const Slot slot{"v", DType::kF32, 1, Codec::kNone};
  const BadState cases[] = {
      {[&](auto* s) { s->AddTable("t", {slot}, nullptr); }, {"\"t\"", "rows"}},
      {[&](auto* s) { s->AddTable("t", {}, &rows_); }, {"\"t\"", "slots"}},
      {[&](auto* s) {
         s->AddTable("t", {{"v", DType::kF32, 0}}, &rows_);
       },
       {"\"t\"", "\"v\"", "0"}},
      {[&](auto* s) {
         s->AddTable("t", {slot, slot}, &rows_);
       },
       {"\"t\"", "\"v\""}},
      {[&](auto* s) {
         s->AddTable("t", {{"", DType::kF32, 1}}, &rows_);
       },
       {"slot", "empty"}},
      {[&](auto* s) {
         s->AddTable("t", {slot, {"w", DType::kF32, 1}}, &rows_);
       },
       {"\"t\"", "1", "2"}},
      {[&](auto* s) {
         s->AddTable("t", {slot}, &rows_, static_cast<SliceHash>(9));
       },
       {"\"t\"", "9"}},
      {[&](auto* s) {
         s->AddTable("t", {{"v", static_cast<DType>(99), 1}}, &rows_);
       },
       {"\"t\"", "99"}},
      {[&](auto* s) {
         s->AddTable("twice", {slot}, &rows_);
         s->AddTable("twice", {slot}, &rows_);
       },
       {"\"twice\""}}};
  for (const BadState& bad : cases) ExpectRefused(bad);
}

class FailingRows : public RowSource {
 public:
  uint64_t block_count() const override { return 3; }
  absl::StatusOr<RowBlock> Block(uint64_t block) const override {
    if (block == 2) return absl::AbortedError("the trainer went away");
    return RowBlock{};
  }
};

TEST_F(BadStateTest, RowsWithoutMemoryAndSourcesThatFail) {
  const std::vector<Slot> slots = {{"v", DType::kF32, 1}};
  const RowSource::Arrays rows(ids_, {{nullptr, 4}});
  ExpectRefused({[&](auto* s) { s->AddTable("t", slots, &rows); },
                 {"\"t\"", "\"v\"", "no data"}});
  FailingRows failing;
  RankState state;
  state.AddTable("t", slots, &failing);
  EXPECT_THAT(store_->Save({.step = 1}, state),
              Aborted("the trainer went away"));
  EXPECT_THAT(store_->Steps(), IsEmpty());
}

class BadSpecTest : public StoreFixture {};

TEST_F(BadSpecTest, BeginRefuses) {
  const auto expect = [&](const SaveSpec& spec, const std::string& words) {
    EXPECT_THAT(store_->Begin(spec), InvalidArgument(words));
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
  EXPECT_THAT(store_->Save({.step = 1, .world_size = 2}, RankState()),
              InvalidArgument("2"));
  // The refused calls have begun no attempt, so the next attempt is number 1.
  EXPECT_EQ(store_->Begin({.step = 1}).value().version.attempt, 1U);
}

// A caller that subtracts may come to a negative number of threads.
TEST_F(BadSpecTest, NoThreads) {
  options_.stage_threads = -7;
  Reopen();
  const absl::Status staged =
      store_->Save({.step = 2}, HeldState(SmallContent(1)).state()).status();
  options_.stage_threads = 8;
  Reopen();
  SaveSmall({1});
  ASSERT_OK_AND_ASSIGN(const auto step, store_->OpenStep(1));
  const ReadOptions read = {.threads = -7};
  std::vector<float> w(6);
  CollectRows rows({16, 4});
  for (const auto& [status, what] :
       {std::pair{staged, "StoreOptions::stage_threads"},
        {store_->Fold(1, read).status(), "ReadOptions::threads"},
        {step->ReadTensor("w", w.data(), w.size() * sizeof(float), read),
         "ReadOptions::threads"},
        {step->ReadBlob(0, "reader", read).status(), "ReadOptions::threads"},
        {step->Verify(read), "ReadOptions::threads"},
        {step->ScanTable("user", {.read = read}, &rows),
         "ReadOptions::threads"}}) {
    EXPECT_THAT(status, InvalidArgument(absl::StrCat(
                            what, " is -7; it must be at least 1")));
  }
}

TEST_F(BadSpecTest, ReserveThatIsNotThere) {
  constexpr uint64_t kMuch = uint64_t{1} << 60;
  const auto refused = ResourceExhausted("free", std::to_string(kMuch));
  options_.reserve_bytes = kMuch;
  Reopen();
  EXPECT_THAT(Save(1, SmallContent(1)), refused);
  EXPECT_THAT(store_->Steps(), IsEmpty());
  options_.reserve_bytes = 0;
  Reopen();
  const Store::Attempt save = Begin({.step = 1});
  EXPECT_THAT(
      Stage(path(), save.tickets.at(0), HeldState(BulkContent(1)).state(),
            {.reserve_bytes = kMuch}),
      refused);
  ASSERT_OK(store_->Publish(save.version, StageAll(save, {BulkContent(1)})));
  ExpectStep(1, {BulkContent(1)});
}

}  // namespace
}  // namespace ckptdb::testing
