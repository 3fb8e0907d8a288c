// SPDX-License-Identifier: Apache-2.0
// A remote that an older version of the library has shipped, as it lies in
// tests/golden/remote.
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "db/reader.h"
#include "db/state.h"
#include "db/store.h"
#include "remote/remote_store.h"
#include "schema/records/records.h"
#include "tests/support/source_folder.h"
#include "tests/support/temp_dir.h"
#include "tests/support/test.h"

namespace ckptdb::testing {
namespace {

class GoldenRemoteTest : public ::testing::Test {
 protected:
  void SetUp() override {
    Copy("tests/golden/remote/objects", dir_.path() + "/remote");
    Copy("tests/golden/declared_sharding/store", shipped());
    ASSERT_OK(Store::Open(shipped()).status());  // creates empty folders
    ASSERT_OK_AND_ASSIGN(remote_,
                         OpenObjectStore("file://" + dir_.path() + "/remote"));
  }
  static void Copy(const std::string& from, const std::string& to) {
    std::filesystem::copy(SourcePath(from), to,
                          std::filesystem::copy_options::recursive);
  }
  std::string shipped() const { return dir_.path() + "/shipped"; }
  std::string fetched() const { return dir_.path() + "/fetched"; }

  TempDir dir_;
  std::unique_ptr<ObjectStore> remote_;
};

TEST_F(GoldenRemoteTest, IsStillFetched) {
  ASSERT_OK_AND_ASSIGN(const VerifyRemoteResult verified,
                       VerifyRemote(remote_.get(), {.data = true}));
  EXPECT_THAT(verified.damage, IsEmpty());
  EXPECT_GT(verified.read_bytes, 0);
  ASSERT_OK(FetchStore(remote_.get(), fetched(), {.all = true}).status());
  ASSERT_OK_AND_ASSIGN(const auto expected, Reader::Open(shipped()));
  ASSERT_OK_AND_ASSIGN(const auto reader, Reader::Open(fetched()));
  EXPECT_EQ(reader->uuid(), expected->uuid());
  EXPECT_EQ(reader->user_metadata(), expected->user_metadata());
  ASSERT_EQ(reader->Steps().size(), expected->Steps().size());
  ASSERT_EQ(verified.steps, expected->Steps().size());
  for (const StepRecord& want : expected->Steps()) {
    const int64_t step = want.version.step;
    SCOPED_TRACE(step);
    ASSERT_OK_AND_ASSIGN(const StepRecord got, reader->FindStep(step));
    // Compares bytes, as metrics may be NaN.
    EXPECT_EQ(EncodeStepRecord(got).value(), EncodeStepRecord(want).value());
    EXPECT_EQ(reader->FindRanks(step).value(),
              expected->FindRanks(step).value());
    ASSERT_OK_AND_ASSIGN(const auto opened, reader->OpenStep(step));
    EXPECT_OK(opened->Verify());
  }
}

// After the library is updated, the trainer's store and a fetched one still
// ship.
TEST_F(GoldenRemoteTest, AnOwnerGoesOn) {
  ASSERT_OK(FetchStore(remote_.get(), fetched(), {.all = true}).status());
  int64_t next = 1000;
  for (const std::string& path : {shipped(), fetched()}) {
    ASSERT_OK_AND_ASSIGN(const auto store, Store::Open(path));
    const std::vector<float> values = {1, 2};
    RankState state;
    state.AddTensor("w", TensorView::Of(values.data(), {2}));
    ASSERT_OK(store->Save({.step = next}, state).status());
    PushOptions options;
    options.take_over = path == fetched();
    ASSERT_OK_AND_ASSIGN(const PushResult pushed,
                         PushStore(path, remote_.get(), options));
    EXPECT_THAT(pushed.shipped, ElementsAre(next));
    ++next;
  }
  ASSERT_OK_AND_ASSIGN(const VerifyRemoteResult verified,
                       VerifyRemote(remote_.get(), {.data = true}));
  EXPECT_THAT(verified.damage, IsEmpty());
}

}  // namespace
}  // namespace ckptdb::testing
