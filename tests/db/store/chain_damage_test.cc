// SPDX-License-Identifier: Apache-2.0
// Records of a chain that are missing, out of place or another's: found before
// the first row is handed out, and nothing is swept for it.

#include "schema/bytes/keys.h"
#include "schema/bytes/page.h"
#include "schema/records/record_checks.h"
#include "schema/records/records.h"
#include "tests/db/delta_fixture.h"
#include "tests/db/raw_database.h"

namespace ckptdb::testing {
namespace {

class ChainDamageTest : public DeltaFixture {
 protected:
  // Step 4 is left of steps 1 to 4; 40 and 50 are another chain.
  void SetUp() override {
    DeltaFixture::SetUp();
    content_ = UserContent({1, 2, 3});
    for (int64_t step = 1; step < 5; ++step) SaveStep(step);
    last_ = history_.at(4);
    parent_.reset();
    content_ = UserContent({7, 8});
    for (const int64_t step : {40, 50}) SaveStep(step);
    for (const int64_t step : {1, 2, 3}) ASSERT_OK(store_->Delete(step));
    ASSERT_OK(store_->Sweep());
    ExpectRows(4, last_);
    store_.reset();
  }
  void SaveStep(int64_t step) {
    rows()[step * 100] = RowOf(step, 1);
    ASSERT_NO_FATAL_FAILURE(SaveNext(step));
    versions_[step] = *parent_;
  }
  class Meta : public RawDatabase {
   public:
    using RawDatabase::RawDatabase;
    std::string Get(const std::string& key) { return RawDatabase::Get(1, key); }
    void Put(const std::string& key, const std::string& value) {
      RawDatabase::Put(1, key, value);
    }
    void Delete(const std::string& key) { RawDatabase::Delete(1, key); }
  };
  StepRecord Decoded(Meta* meta, const std::string& key) {
    return DecodeStepRecord(meta->Get(key)).value();
  }
  void Edit(const std::string& key,
            const std::function<void(StepRecord*)>& edit) {
    Meta meta(path());
    StepRecord record = Decoded(&meta, key);
    edit(&record);
    meta.Put(key, internal::EncodeUnchecked(record));
  }
  // Nothing of step 4 is read, by nobody; nothing else is any the worse.
  // `gone`: versions that nothing names any more.
  void ExpectFound(const std::vector<std::string>& words,
                   const std::vector<Version>& gone = {}) {
    Reopen();
    ExpectDataLoss(store_->OpenStep(4).status(), words);
    ExpectDataLoss(store_->OpenChanges(versions_[1], 4).status(), {});
    SaveSpec spec{.step = 60, .parent = versions_[4]};
    spec.abandoned = SaveSpec::Abandoned::kKeep;
    ExpectDataLoss(SaveOver(spec, last_, last_).status(), words);
    ExpectDataLoss(Reader::Open(path()).value()->OpenStep(4).status(), words);
    ExpectRows(50, history_[50]);
    ASSERT_OK_AND_ASSIGN(Store::SweepResult swept, store_->Sweep());
    std::erase_if(swept.swept_versions,
                  [](const Version& version) { return version.step == 60; });
    EXPECT_EQ(swept.swept_versions, gone);
    EXPECT_EQ(swept.freed_bytes, 0u);
    EXPECT_THAT(ListSteps(), ElementsAre(4, 40, 50));
  }
  // The step opens, and then it is found.
  void ExpectFoundByReads(const std::vector<std::string>& words) {
    Reopen();
    ASSERT_OK_AND_ASSIGN(const auto step, store_->OpenStep(4));
    LiveRows live(last_.tables["user"].slots);
    ExpectDataLoss(step->ScanTable("user", {}, &live), words);
    ExpectDataLoss(step->ScanTable("user", {.slices = {0, 100}}, &live), words);
    ExpectDataLoss(
        step->RestoreTable("user", LiveTable::RestoreMode::kClear, {}, &live),
        words);
    ExpectDataLoss(step->LookupRow("user", 1).status(), words);
    ExpectDataLoss(step->Verify(), words);
    EXPECT_THAT(live.touched(), IsEmpty());
    EXPECT_FALSE(live.cleared());
  }
  void ExpectStoreDoesNotOpen(const std::vector<std::string>& words) {
    ExpectDataLoss(Store::Open(path(), options_).status(), words);
    ExpectDataLoss(Reader::Open(path()).status(), words);
  }
  static void ExpectDataLoss(const absl::Status& status,
                             const std::vector<std::string>& words) {
    EXPECT_THAT(status, DataLoss(words));
  }
  std::string Name(int64_t step) { return ToString(versions_.at(step)); }
  RankContent last_;
  std::map<int64_t, Version> versions_;
};

TEST_F(ChainDamageTest, ARecordIsMissing) {
  for (const int64_t step : {1, 2, 3}) {
    SCOPED_TRACE("step " + std::to_string(step));
    const std::string key = RetiredKey(versions_[step]);
    store_.reset();
    std::string record;
    {
      Meta meta(path());
      record = meta.Get(key);
      meta.Delete(key);
    }
    ExpectFound({"chain of " + Name(4), Name(step) + " is missing"});
    store_.reset();
    Meta(path()).Put(key, record);
    Reopen();
    ExpectRows(4, last_);
    ExpectRows(50, history_[50]);
  }
}

TEST_F(ChainDamageTest, ARankRecordIsMissing) {
  Meta(path()).Delete(RankKey(versions_[2], 0));
  ExpectFound({Name(2), "rank 0", "its record is missing"});
}

TEST_F(ChainDamageTest, ARankRecordOfAnotherVersion) {
  {
    Meta meta(path());
    meta.Put(RankKey(versions_[2], 0), meta.Get(RankKey(versions_[3], 0)));
  }
  ExpectFound({Name(2), "rank 0", "record hash"});
}

// A rank record and the step record that vouches for it, both replaced.
TEST_F(ChainDamageTest, AnotherAttemptUnderTheSameVersion) {
  {
    Meta meta(path());
    auto rank = DecodeRankRecord(meta.Get(RankKey(versions_[3], 0))).value();
    rank.version = versions_[2];
    const std::string bytes = internal::EncodeUnchecked(rank);
    meta.Put(RankKey(versions_[2], 0), bytes);
    StepRecord record = Decoded(&meta, RetiredKey(versions_[2]));
    record.rank_digests = {HashBytes(bytes)};
    meta.Put(RetiredKey(versions_[2]), internal::EncodeUnchecked(record));
  }
  ExpectFound({"chain of " + Name(4), Name(2) + " has lineage digest",
               "of the parent of " + Name(3)});
}

TEST_F(ChainDamageTest, TheRecordOfAnotherAttempt) {
  {
    Meta meta(path());
    meta.Put(RetiredKey(versions_[2]), meta.Get(RetiredKey(versions_[3])));
  }
  ExpectStoreDoesNotOpen(
      {"key of " + Name(2) + " holds the record of " + Name(3)});
}

TEST_F(ChainDamageTest, AMemberOfAnotherStore) {
  const std::string uuid = "99999999-2222-3333-4444-555555555555";
  Edit(RetiredKey(versions_[2]),
       [&](StepRecord* record) { record->store_uuid = uuid; });
  ExpectFound({"chain of " + Name(4), Name(2) + " belongs to store " + uuid});
}

TEST_F(ChainDamageTest, AStepOfAnotherStore) {
  const std::string uuid = "99999999-2222-3333-4444-555555555555";
  Edit(StepKey(4), [&](StepRecord* record) { record->store_uuid = uuid; });
  ExpectFound({Name(4) + " belongs to store " + uuid});
}

TEST_F(ChainDamageTest, AMemberLeftOut) {
  Edit(StepKey(4), [&](StepRecord* record) {
    record->chain.erase(record->chain.begin() + 1);
  });
  ExpectFound({Name(3) + " has parent " + Name(2), "expected " + Name(1)},
              /*gone=*/{versions_[2]});
}

// Its rows cannot be read, and nothing is saved over a chain that does not go
// back to all rows.
TEST_F(ChainDamageTest, AChainWithoutItsBase) {
  Edit(StepKey(4),
       [](StepRecord* record) { record->chain.erase(record->chain.begin()); });
  ExpectFoundByReads({"chain of " + Name(4), "\"user\"", "has no run"});
  EXPECT_THAT(SaveOver({.step = 60,
                        .parent = versions_[4],
                        .abandoned = SaveSpec::Abandoned::kKeep},
                       last_, last_),
              FailedPrecondition("changes of table \"user\" over parent " +
                                 Name(4) + ": the base run is missing"));
  EXPECT_THAT(ListSteps(), ElementsAre(4, 40, 50));
}

TEST_F(ChainDamageTest, MembersTwiceOrInAnotherOrder) {
  const std::string whole = Meta(path()).Get(StepKey(4));
  Edit(StepKey(4), [](StepRecord* record) {
    std::swap(record->chain[0], record->chain[1]);
  });
  ExpectStoreDoesNotOpen({"chain", "goes back from step 2 to step 1"});
  Meta(path()).Put(StepKey(4), whole);
  Edit(StepKey(4),
       [](StepRecord* record) { record->chain[0] = record->chain[1]; });
  ExpectStoreDoesNotOpen({"chain", "has duplicate " + Name(2)});
}

TEST_F(ChainDamageTest, ABaseOfOtherSlices) {
  Edit(RetiredKey(versions_[1]), [&](StepRecord* record) {
    record->slice_bounds = {0, kSlices};
  });
  ExpectFound({Name(1) + " has lineage digest"});
}

}  // namespace
}  // namespace ckptdb::testing
