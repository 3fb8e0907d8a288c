// SPDX-License-Identifier: Apache-2.0
// A test with a store of its own, in a folder of its own.
#ifndef CKPTDB_TESTS_DB_STORE_FIXTURE_H_
#define CKPTDB_TESTS_DB_STORE_FIXTURE_H_

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "db/store.h"
#include "tests/db/content.h"
#include "tests/support/status_matchers.h"
#include "tests/support/temp_dir.h"

namespace ckptdb::testing {

class StoreFixture : public ::testing::Test {
 protected:
  void SetUp() override { Reopen(); }

  std::string path() const { return dir_.path() + "/store"; }

  // Closes the store and opens it with `options_`.
  void Reopen() {
    store_.reset();
    ASSERT_OK_AND_ASSIGN(store_, Store::Open(path(), options_));
  }

  absl::StatusOr<SaveResult> Save(int64_t step, const RankContent& content,
                                  SaveSpec spec = {}) {
    const HeldState held(content);
    spec.step = step;
    return store_->Save(spec, held.state());
  }
  absl::StatusOr<SaveResult> Overwrite(int64_t step, const RankContent& content,
                                       SaveSpec spec = {}) {
    spec.overwrite = true;
    return Save(step, content, std::move(spec));
  }

  void ExpectStep(int64_t step, const std::vector<RankContent>& ranks) {
    SCOPED_TRACE("step " + std::to_string(step));
    ASSERT_OK_AND_ASSIGN(const auto reader, store_->OpenStep(step));
    EXPECT_EQ(reader->record().version.step, step);
    ExpectHolds(*reader, ranks);
    EXPECT_OK(reader->Verify());
  }

  std::vector<int64_t> ListSteps() const {
    std::vector<int64_t> steps;
    for (const StepRecord& record : store_->Steps()) {
      steps.push_back(record.version.step);
    }
    return steps;
  }

  TempDir dir_;
  StoreOptions options_;
  std::unique_ptr<Store> store_;
};

// A little of everything, small enough to be inline.
inline RankContent SmallContent(uint64_t seed) {
  std::mt19937_64 random(seed);
  RankContent content;
  content.tensors["w"] = TensorContent::Of<float>(
      {2, 3}, {static_cast<float>(seed), 1, 2, 3, 4, 5});
  content.tables["user"] = {
      {{"embedding", DType::kF32, 4}, {"freq", DType::kI32, 1}},
      SliceHash::kModulo,
      RandomRows(&random, 20, 50)};
  content.blobs["reader"] = "position " + std::to_string(seed);
  return content;
}

// The same with a tensor that makes the save a bulk one.
inline RankContent BulkContent(uint64_t seed) {
  RankContent content = SmallContent(seed);
  content.tensors["bulk"] = BulkTensor(seed);
  return content;
}

}  // namespace ckptdb::testing

#endif  // CKPTDB_TESTS_DB_STORE_FIXTURE_H_
