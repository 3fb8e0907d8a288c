// SPDX-License-Identifier: Apache-2.0
// Readers that are opened while another process creates the store.

#include "absl/strings/match.h"
#include "tests/db/sim_store.h"
#include "tests/support/status_matchers.h"

namespace ckptdb::testing {
namespace {

// A window of the reader may be a single moment, so each is tried, except under
// sanitizers, which are slower.
uint64_t StrideOfMoments() { return kSanitized && !IsLongRun() ? 7 : 1; }

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
  void SetUp() override {
    SimStore whole(created_);
    ASSERT_OK(whole.Open());
    whole.Close();
  }
  // What is there after the first `operations` of creating a store.
  void Begin(size_t operations) {
    owner_ = std::make_unique<SimStore>(
        created_->CrashAfter(operations, PowerLoss::kKeepAll));
    looks_ =
        std::make_shared<CountedLooks>(owner_->environment()->file_system());
  }
  std::function<void()> Create() {
    return [this] { EXPECT_OK(owner_->Open()); };
  }
  absl::StatusOr<std::unique_ptr<Reader>> OpenReader() const {
    StoreOptions options;
    options.environment = std::make_shared<internal::Environment>(
        looks_, [] { return 0; }, /*on_disk=*/false);
    return Reader::Open(SimStore::kPath, options);
  }
  const std::shared_ptr<SimFileSystem> created_ =
      std::make_shared<SimFileSystem>();
  std::unique_ptr<SimStore> owner_;
  std::shared_ptr<CountedLooks> looks_;
};

// Each opening finds the store without its last operations, and the owner goes
// on when the reader looks whether a store is being created.
TEST_F(CreationTest, ReaderWaitsForAStoreThatIsHalfCreated) {
  const size_t operations = created_->operations();
  ASSERT_GT(operations, 20U);
  const uint64_t stride = StrideOfMoments();
  for (size_t k = FirstCase(stride); k < operations; k += stride) {
    SCOPED_TRACE(created_->OperationText(k));
    Begin(k);
    looks_->BeforeLookAt("LOCK", Create());
    ASSERT_OK_AND_ASSIGN(const auto reader, OpenReader());
    EXPECT_TRUE(reader->Steps().empty());
  }
}

// The owner begins after so many looks of the reader, on an empty disk and
// after the death of another owner.
TEST_F(CreationTest, ReaderFails_NeverForAStoreThatIsCreatedMeanwhile) {
  constexpr uint64_t kLooks = 80;  // about three tries to open
  const uint64_t stride = StrideOfMoments();
  for (const size_t begun : {size_t{0}, created_->operations() / 2}) {
    uint64_t look = FirstCase(stride);
    for (bool called = true; called && look < kLooks; look += stride) {
      SCOPED_TRACE(look);
      Begin(begun);
      looks_->Before(static_cast<int>(look), Create());
      const auto reader = OpenReader();
      called = looks_->called();
      if (called) {
        EXPECT_OK(reader.status());
      }
    }
  }
}

}  // namespace
}  // namespace ckptdb::testing
