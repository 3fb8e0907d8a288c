// SPDX-License-Identifier: Apache-2.0
// Tensors and blobs that did not change since the parent.

#include <filesystem>
#include <set>
#include <string>

#include "tests/db/store_fixture.h"
#include "tests/support/row_files.h"

namespace ckptdb::testing {
namespace {

class ReuseTest : public SweptFixture {
 protected:
  Version DataOf(int64_t step, const std::string& name) {
    return FindItem(step, name).data_version;
  }
  std::set<std::filesystem::path> Tables() const {
    std::set<std::filesystem::path> tables;
    for (const auto& entry : std::filesystem::directory_iterator(In("db"))) {
      if (entry.path().extension() == ".sst") tables.insert(entry.path());
    }
    return tables;
  }
};

RankContent DenseContent(uint64_t seed) {
  RankContent content;
  content.tensors["bulk"] = BulkTensor(seed);
  content.tensors["scalar"] = TensorContent::Of<float>({}, {1});
  content.blobs["vocabulary"] = std::string(100'000, 'v');
  return content;
}

TEST_F(ReuseTest, UnchangedItemsAreNotWrittenAgain) {
  for (const bool bulk : {true, false}) {
    RankContent content = DenseContent(1);
    if (!bulk) content.tensors.erase("bulk");
    const int64_t step = bulk ? 10 : 20;
    ASSERT_OK_AND_ASSIGN(const SaveResult first, Save(step, content));
    ASSERT_OK_AND_ASSIGN(const SaveResult second, Save(step + 1, content));
    EXPECT_EQ(second.raw_bytes, first.raw_bytes);
    EXPECT_EQ(second.exclusive_bytes, 0u);
    EXPECT_EQ(second.borrowed_bytes, first.exclusive_bytes);
    for (const auto& [name, tensor] : content.tensors)
      EXPECT_EQ(DataOf(step + 1, name), first.version) << name;
    EXPECT_EQ(DataOf(step + 1, "vocabulary"), first.version);
    EXPECT_THAT(Record(step + 1).references, ElementsAre(first.version));
    ASSERT_OK(store_->Delete(step));
    EXPECT_THAT(Swept(), IsEmpty());
    ExpectStep(step + 1, {content});
    Reopen();
    ASSERT_OK(store_->Sweep());
    ExpectStep(step + 1, {content});
    ASSERT_OK(store_->Delete(step + 1));
    ASSERT_OK(store_->Sweep());
  }
}

TEST_F(ReuseTest, OnlyChangedItemsAreWritten) {
  RankContent content = DenseContent(1);
  content.blobs["vocabulary"] = std::string(2'000'000, 'v');
  ASSERT_OK_AND_ASSIGN(const SaveResult first, Save(1, content));
  content.tensors["bulk"].bytes.back() ^= 1;
  ASSERT_OK_AND_ASSIGN(const SaveResult second, Save(2, content));
  EXPECT_EQ(DataOf(2, "bulk"), second.version);
  EXPECT_EQ(DataOf(2, "vocabulary"), first.version);
  EXPECT_GE(second.exclusive_bytes, content.tensors["bulk"].bytes.size());
  EXPECT_GE(second.borrowed_bytes, content.blobs["vocabulary"].size());
  ExpectStep(2, {content});
}

TEST_F(ReuseTest, SameBytesOfAnotherShapeOrDTypeAreWritten) {
  RankContent content;
  content.tensors["t"] = BulkTensor(1);
  ASSERT_OK(Save(1, content));
  TensorContent& tensor = content.tensors["t"];
  tensor.shape = {tensor.shape[0] / 4, 4};
  ASSERT_OK(Save(2, content));
  ExpectStep(2, {content});
  tensor.dtype = DType::kI32;
  ASSERT_OK(Save(3, content));
  ExpectStep(3, {content});
}

TEST_F(ReuseTest, RefersToTheVersionThatHasTheBytes) {
  const RankContent content = DenseContent(1);
  ASSERT_OK_AND_ASSIGN(const SaveResult first, Save(1, content));
  for (const int64_t step : {2, 3}) ASSERT_OK(Save(step, content));
  EXPECT_EQ(DataOf(3, "bulk"), first.version);
  DeleteSteps({1, 2});
  ASSERT_OK(store_->Sweep());
  Reopen();
  ExpectStep(3, {content});
  ASSERT_OK(Save(4, content));
  EXPECT_EQ(DataOf(4, "bulk"), first.version);
}

TEST_F(ReuseTest, BytesGoWithTheLastStepThatUsesThem) {
  const RankContent content = DenseContent(1);
  ASSERT_OK_AND_ASSIGN(const SaveResult first, Save(1, content));
  ASSERT_OK(Save(2, content));
  ASSERT_OK(store_->Delete(1));
  ASSERT_OK(store_->Sweep());
  ASSERT_OK(store_->Delete(2));
  ASSERT_OK_AND_ASSIGN(const Store::SweepResult swept, store_->Sweep());
  EXPECT_THAT(swept.swept_versions, Contains(first.version));
  EXPECT_GE(swept.freed_bytes, kBulkTensorBytes);
  EXPECT_THAT(UsageNow().held_versions, IsEmpty());
  EXPECT_LT(UsageNow().disk_bytes, kBulkTensorBytes);
}

// A damaged version that is no step any more, but has bytes of one that stays.
// Saves of earlier steps put a separator before its tables.
TEST_F(ReuseTest, ASweepKeepsTheSeparatorOfADamagedVersion) {
  RankContent content;
  content.tensors["changed"] = BulkTensor(1);
  content.tensors["kept"] = BulkTensor(2);
  ASSERT_OK(Save(20, content));
  const std::set<std::filesystem::path> tables = Tables();
  content.tensors["changed"] = BulkTensor(3);
  ASSERT_OK(Save(21, content));
  ASSERT_OK(store_->Quarantine(21));
  ASSERT_OK(store_->Delete(20));
  ASSERT_OK(store_->Sweep());
  store_.reset();
  for (const std::filesystem::path& table : tables) {
    if (!std::filesystem::exists(table)) continue;
    if (std::filesystem::file_size(table) > kBulkTensorBytes) DamageFile(table);
  }
  Reopen();
  for (const int64_t step : {10, 5}) {
    ASSERT_OK(Save(step, DenseContent(step)));
    const std::set<std::filesystem::path> saved = Tables();
    ASSERT_OK(store_->Sweep());
    EXPECT_EQ(Tables(), saved);
    ExpectStep(step, {DenseContent(step)});
  }
}

TEST_F(ReuseTest, OverwriteOfTheParentKeepsTheBytes) {
  const RankContent content = DenseContent(1);
  ASSERT_OK(Save(1, content));
  for (int i = 0; i < 3; ++i) {
    ASSERT_OK(Overwrite(1, content));
    ASSERT_OK(store_->Sweep());
  }
  Reopen();
  ExpectStep(1, {content});
  ASSERT_OK(Save(2, content));
  ASSERT_OK(Overwrite(1, DenseContent(7)));
  ASSERT_OK(store_->Sweep());
  Reopen();
  ExpectStep(1, {DenseContent(7)});
  ExpectStep(2, {content});
}

TEST_F(ReuseTest, TablesAndWhatIsAskedForAreWrittenAgain) {
  RankContent content = DenseContent(1);
  content.tables = SmallContent(1).tables;
  ASSERT_OK(Save(1, content));
  ASSERT_OK_AND_ASSIGN(const SaveResult second, Save(2, content));
  EXPECT_EQ(DataOf(2, "user"), second.version);
  ExpectStep(2, {content});
  options_.rewrite_unchanged = true;
  Reopen();
  ASSERT_OK_AND_ASSIGN(const SaveResult third, Save(3, content));
  EXPECT_EQ(third.borrowed_bytes, 0u);
  EXPECT_EQ(DataOf(3, "bulk"), third.version);
  EXPECT_THAT(Record(3).references, IsEmpty());
}

TEST_F(ReuseTest, ParentDeletedBetweenBeginAndPublish) {
  const RankContent content = DenseContent(1);
  ASSERT_OK(Save(1, content));
  const Store::Attempt save = Begin({.step = 2});
  const auto staged = StageAll(save, {content});
  ASSERT_OK(store_->Delete(1));
  ASSERT_OK(store_->Sweep());
  ASSERT_OK(store_->Publish(save.version, staged));
  ASSERT_OK(store_->Sweep());
  Reopen();
  ExpectStep(2, {content});
}

// Steps of a tensor of 4 MiB that always changes and ten others, each of which
// stays as it is from another step on. The last two steps are kept.
class SettlingTest : public ReuseTest {
 protected:
  static constexpr int kTensors = 10;
  static constexpr int64_t kSteps = 24;
  size_t settling_bytes_ = size_t{4} << 10;
  RankContent ContentOf(int64_t step) const {
    RankContent content;
    content.tensors["a_large"] = BulkTensor(step, size_t{4} << 20);
    for (int i = 0; i < kTensors; ++i) {
      const int64_t settled = std::min<int64_t>(step, i);
      content.tensors["small" + std::to_string(i)] =
          BulkTensor(static_cast<uint64_t>(100 * i + settled), settling_bytes_);
    }
    return content;
  }
  void SaveAll() {
    for (int64_t step = 0; step < kSteps; ++step) {
      SaveSpec publish;
      if (step >= 2) publish.retire = {step - 2};
      ASSERT_OK(Save(step, ContentOf(step), publish));
    }
    ASSERT_OK(store_->Sweep());
  }
};

TEST_F(SettlingTest, SmallTensorsKeepNoFilesOfRetiredSteps) {
  ASSERT_NO_FATAL_FAILURE(SaveAll());
  EXPECT_THAT(UsageNow().held_versions, IsEmpty());
  // Two steps, and the space that is set aside for a full disk.
  EXPECT_LT(UsageNow().disk_bytes, uint64_t{2 * 4 + 8 + 1} << 20);
  ExpectStep(kSteps - 1, {ContentOf(kSteps - 1)});
}

// The two steps have 4 + 4 + 10 * 0.4 MiB, and files of retired steps as much
// again as one of them, before the last save saw that they are retired.
TEST_F(SettlingTest, TensorsKeepAboutTheSizeOfAStepOfRetiredSteps) {
  settling_bytes_ = size_t{400} << 10;
  ASSERT_NO_FATAL_FAILURE(SaveAll());
  ASSERT_OK_AND_ASSIGN(const Usage usage, store_->GetUsage());
  EXPECT_LT(usage.disk_bytes, uint64_t{2 * 8 + 2 * 8 + 8} << 20);
  EXPECT_EQ(DataOf(kSteps - 1, "small0"), DataOf(kSteps - 2, "small0"))
      << "what has settled is not stored again at each step";
  ExpectStep(kSteps - 1, {ContentOf(kSteps - 1)});
}

// Both settle, the larger one first, and change again in the opposite order:
// what is left of a file is borrowed no longer.
TEST_F(SettlingTest, SmallTensorIsStoredAgain_WhenRestOfItsFileChanged) {
  RankContent content;
  content.tensors["large"] = BulkTensor(1, size_t{2} << 20);
  content.tensors["small"] = BulkTensor(2, size_t{4} << 10);
  ASSERT_OK_AND_ASSIGN(const SaveResult first, Save(1, content));
  content.tensors["other"] = BulkTensor(3, size_t{1} << 20);
  ASSERT_OK(Save(2, content));
  EXPECT_EQ(DataOf(2, "small"), first.version);
  content.tensors["large"] = BulkTensor(4, size_t{2} << 20);
  ASSERT_OK(Save(3, content));
  EXPECT_EQ(DataOf(4, "small"), Save(4, content).value().version);
  ExpectStep(4, {content});
}

}  // namespace
}  // namespace ckptdb::testing
