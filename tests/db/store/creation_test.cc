// Readers that are opened while another process creates the store.
#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "ckptdb/tests/db/sim_store.h"
#include "ckptdb/tests/support/status_matchers.h"

namespace ckptdb::testing {
namespace {

// Counts the looks of a reader at files and folders, and calls a function
// before one of them.
class CountedLooks : public rocksdb::FileSystemWrapper {
 public:
  using rocksdb::FileSystemWrapper::FileSystemWrapper;
  using IOStatus = rocksdb::IOStatus;
  using IOOptions = rocksdb::IOOptions;
  const char* Name() const override { return "CountedLooks"; }

  void Before(int look, std::function<void()> call) {
    at_ = look;
    call_ = std::move(call);
  }
  // Calls the function before the first look at a file of this name.
  void BeforeLookAt(std::string name, std::function<void()> call) {
    name_ = std::move(name);
    call_ = std::move(call);
  }
  bool called() const { return call_ == nullptr; }

  IOStatus FileExists(const std::string& path, const IOOptions& options,
                      rocksdb::IODebugContext* debug) override {
    Look(path);
    return FileSystemWrapper::FileExists(path, options, debug);
  }
  IOStatus GetChildren(const std::string& path, const IOOptions& options,
                       std::vector<std::string>* names,
                       rocksdb::IODebugContext* debug) override {
    Look(path);
    return FileSystemWrapper::GetChildren(path, options, names, debug);
  }
  IOStatus GetFileSize(const std::string& path, const IOOptions& options,
                       uint64_t* bytes,
                       rocksdb::IODebugContext* debug) override {
    Look(path);
    return FileSystemWrapper::GetFileSize(path, options, bytes, debug);
  }
  IOStatus NewSequentialFile(const std::string& path,
                             const rocksdb::FileOptions& options,
                             std::unique_ptr<rocksdb::FSSequentialFile>* file,
                             rocksdb::IODebugContext* debug) override {
    Look(path);
    return FileSystemWrapper::NewSequentialFile(path, options, file, debug);
  }

 private:
  void Look(const std::string& path) {
    const bool now =
        name_.empty() ? looks_++ == at_ : absl::EndsWith(path, "/" + name_);
    if (now && call_ != nullptr) std::exchange(call_, nullptr)();
  }

  int at_ = -1;
  int looks_ = 0;
  std::string name_;
  std::function<void()> call_;
};

// A reader of a simulated disk on which an owner creates the store.
class CreationTest : public ::testing::Test {
 protected:
  // What is there after the first `operations` of creating a store.
  void Begin(size_t operations) {
    const auto files = std::make_shared<SimFileSystem>();
    SimStore whole(files);
    ASSERT_OK(whole.Open());
    operations_ = files->operations();
    whole.Close();
    Begin(*files, operations);
  }
  void Begin(const SimFileSystem& files, size_t operations) {
    owner_ = std::make_unique<SimStore>(
        files.CrashAfter(operations, PowerLoss::kKeepAll));
    looks_ =
        std::make_shared<CountedLooks>(owner_->environment()->file_system());
  }
  std::function<void()> Create() {
    return [this] { EXPECT_OK(owner_->Open()); };
  }
  absl::StatusOr<std::unique_ptr<Reader>> OpenReader() const {
    ReaderOptions options;
    options.environment = std::make_shared<internal::Environment>(
        looks_, [] { return 0; }, /*on_disk=*/false);
    return Reader::Open(SimStore::kPath, options);
  }

  size_t operations_ = 0;
  std::unique_ptr<SimStore> owner_;
  std::shared_ptr<CountedLooks> looks_;
};

// Each opening finds the store without its last operations, and the owner goes
// on when the reader looks whether a store is being created.
TEST_F(CreationTest, ReaderWaitsForAStoreThatIsHalfCreated) {
  const auto files = std::make_shared<SimFileSystem>();
  SimStore whole(files);
  ASSERT_OK(whole.Open());
  const size_t operations = files->operations();
  whole.Close();
  ASSERT_GT(operations, 20U);
  const uint64_t stride = IsLongRun() ? 1 : 5;
  for (size_t k = FirstCase(stride); k <= operations; k += stride) {
    SCOPED_TRACE(files->OperationText(k));
    Begin(*files, k);
    looks_->BeforeLookAt("LOCK", Create());
    ASSERT_OK_AND_ASSIGN(const auto reader, OpenReader());
    EXPECT_TRUE(reader->Steps().empty());
  }
}

TEST_F(CreationTest, ReaderFails_NeverForAStoreThatIsCreatedMeanwhile) {
  // Of an empty disk, and of one on which the database has just been begun.
  for (const size_t begun : {size_t{0}, size_t{1}}) {
    bool called = true;
    for (int look = 0; called; ++look) {
      SCOPED_TRACE(look);
      Begin(0);
      Begin(begun == 0 ? 0 : operations_ / 2);
      looks_->Before(look, Create());
      const auto reader = OpenReader();
      called = looks_->called();
      // Without a file of the store there is none.
      if (!called && begun == 0) {
        EXPECT_THAT(reader, StatusIs(absl::StatusCode::kNotFound,
                                     ::testing::HasSubstr("no store at")));
      } else if (called) {
        EXPECT_OK(reader.status());
      }
      if (look > 200) break;
    }
  }
}

}  // namespace
}  // namespace ckptdb::testing
