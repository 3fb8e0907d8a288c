// SPDX-License-Identifier: Apache-2.0
// Restores of values that were saved with another type.
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>

#include "tests/manager/test_model.h"
#include "tests/manager/test_options.h"
#include "tests/support/temp_dir.h"

namespace ckptdb::testing {
namespace {

class ValueTypesTest : public ::testing::Test {
 protected:
  struct Values {
    int64_t int64 = 7;
    double number = 1.5;
    std::string text = "8 bytes.";
  };
  using Adding = std::function<absl::Status(Values*, ModelState*)>;

  // Opens a manager with the value that `add` adds.
  void Open(const Adding& add) {
    manager_.reset();
    values_ = {};
    state_ = {};
    ASSERT_OK(add(&values_, &state_));
    ASSERT_OK_AND_ASSIGN(manager_, CheckpointManager::Open(options_, &state_));
  }

  // By the names of the types.
  const std::map<std::string, Adding> adds_ = {
      {"int64", [](auto* v, auto* m) { return m->AddValue("x", &v->int64); }},
      {"double", [](auto* v, auto* m) { return m->AddValue("x", &v->number); }},
      {"string", [](auto* v, auto* m) { return m->AddValue("x", &v->text); }}};
  TempDir dir_;
  ManagerOptions options_ = TestOptions(dir_.path() + "/store");
  Values values_;
  ModelState state_;
  std::unique_ptr<CheckpointManager> manager_;
};

TEST_F(ValueTypesTest, RestoreNamesBothTypes_IfTheyDiffer) {
  for (const auto& [saved, add] : adds_) {
    options_.path = dir_.path() + "/" + saved;
    ASSERT_NO_FATAL_FAILURE(Open(add));
    ASSERT_OK(manager_->Step());
    ASSERT_OK(manager_->WaitUntilFinished());
    for (const auto& [type, add_other] : adds_) {
      SCOPED_TRACE(saved + " as " + type);
      ASSERT_NO_FATAL_FAILURE(Open(add_other));
      values_ = {1, 1, "changed"};
      const auto report = manager_->Restore({.fall_back = true});
      if (type == saved) {
        EXPECT_OK(report);
        EXPECT_TRUE(values_.int64 == 7 || values_.number == 1.5 ||
                    values_.text == Values().text);
        continue;
      }
      EXPECT_THAT(report, FailedPrecondition("\"x\": expected " + type,
                                             "got " + saved));
      EXPECT_FALSE(manager_->store()->FindStep(1).value().quarantined);
      EXPECT_EQ(values_.int64, 1);
      EXPECT_EQ(values_.number, 1);
      EXPECT_EQ(values_.text, "changed");
      EXPECT_THAT(
          manager_->Load({LoadRule()}),
          FailedPrecondition("\"x\": expected " + type, "got " + saved));
    }
  }
}

// Older versions stored no types.
TEST_F(ValueTypesTest, RestoreComparesSizes_IfTheStepHasNoTypes) {
  StoreOptions options;
  ASSERT_OK_AND_ASSIGN(const auto store, Store::Open(options_.path, options));
  const auto save = [&](int64_t step, absl::string_view bytes) {
    RankState state;
    state.AddBlob("extra/x", bytes);
    ASSERT_OK(store->Save({.step = step}, state));
  };
  ASSERT_NO_FATAL_FAILURE(save(1, "5 byt"));
  ASSERT_NO_FATAL_FAILURE(save(2, absl::string_view("\5\0\0\0\0\0\0\0", 8)));
  ASSERT_OK(store->Close());
  for (const std::string type : {"int64", "double"}) {
    ASSERT_NO_FATAL_FAILURE(Open(adds_.at(type)));
    EXPECT_THAT(manager_->Restore({.step = 1, .fall_back = true}),
                FailedPrecondition(type + " of 8 bytes", "a value of 5 bytes"));
    EXPECT_OK(manager_->Restore({.step = 2}));
  }
  ASSERT_NO_FATAL_FAILURE(Open(adds_.at("string")));
  EXPECT_OK(manager_->Restore({.step = 1}));
  EXPECT_EQ(values_.text, "5 byt");
}

TEST_F(ValueTypesTest, StepListsTypes) {
  Values values;
  ModelState model;
  ASSERT_OK(model.AddValue("epoch", &values.int64));
  ASSERT_OK(model.AddValue("two\nlines", &values.text));
  ASSERT_OK_AND_ASSIGN(manager_, CheckpointManager::Open(options_, &model));
  ASSERT_OK(manager_->Step());
  ASSERT_OK(manager_->WaitUntilFinished());
  EXPECT_EQ(
      manager_->store()->Steps().back().user_metadata.at("ckptdb.value_types"),
      "int64 epoch\nstring two\\nlines");
  ASSERT_OK(manager_->Restore());
}

}  // namespace
}  // namespace ckptdb::testing
