// SPDX-License-Identifier: Apache-2.0
// SaveSpec::blobs: what the owner adds to a save that has been staged.

#include "tests/db/store_fixture.h"

namespace ckptdb::testing {
namespace {

class PublishedBlobsTest : public SweptFixture {
 protected:
  using Blobs = std::map<std::string, std::string>;
  // Two ranks, in files if `content` is large.
  absl::StatusOr<SaveResult> SaveRanks(int64_t step, const RankContent& content,
                                       const Blobs& blobs) {
    const Store::Attempt save = Begin({.step = step, .world_size = 2});
    RankContent other = SmallRank(1, 2);
    other.tables = {};
    auto result = store_->Publish(
        save.version, StageAll(save, {content, other}), {.blobs = blobs});
    if (!result.ok()) {
      EXPECT_OK(store_->Abandon(save.version));
    }
    return result;
  }
  void ExpectBlobs(int64_t step_number, const Blobs& blobs) {
    SCOPED_TRACE(step_number);
    ASSERT_OK_AND_ASSIGN(const auto step, store_->OpenStep(step_number));
    for (const auto& [name, bytes] : blobs) {
      ASSERT_OK_AND_ASSIGN(const std::string read, step->ReadBlob(0, name));
      EXPECT_TRUE(read == bytes) << name;
      EXPECT_THAT(step->ReadBlob(1, name), NotFound("rank 1 has no blob"));
    }
    EXPECT_EQ(step->ReadBlob(0, "reader").value(), "position 7");
    EXPECT_EQ(step->ReadBlob(1, "reader").value(), "rank 1");
    EXPECT_OK(step->Verify());
  }
  // Names before, between and after those of the rank, and no bytes.
  Blobs SomeBlobs(size_t bytes) {
    std::mt19937_64 random(TestSeed());
    return {{"a", RandomBytes(&random, bytes)},
            {"reader2", ""},
            {"zebra", std::string(bytes, 'z')}};
  }
  static RankContent Content(bool large) {
    RankContent content = large ? BulkContent(7) : SmallContent(7);
    content.tables = {};
    return content;
  }
};

TEST_F(PublishedBlobsTest, AreStoredWithTheOwnersPart) {
  int64_t step = 0;
  for (const bool large : {false, true}) {
    for (const size_t bytes : {10, 3'000'000}) {
      const Blobs blobs = SomeBlobs(bytes);
      ASSERT_OK_AND_ASSIGN(const SaveResult saved,
                           SaveRanks(++step, Content(large), blobs));
      EXPECT_GE(saved.raw_bytes, 2 * bytes);
      EXPECT_GE(saved.exclusive_bytes, bytes);
      ExpectBlobs(step, blobs);
      // Tensors w and perhaps bulk, blob reader of both ranks.
      EXPECT_EQ(Record(step).items, blobs.size() + (large ? 4 : 3));
    }
  }
  Reopen();
  ExpectBlobs(2, SomeBlobs(3'000'000));
  ExpectBlobs(4, SomeBlobs(3'000'000));
  DeleteSteps({1, 2, 3});
  ASSERT_OK(store_->Sweep());
  Reopen();
  ExpectBlobs(4, SomeBlobs(3'000'000));
}

TEST_F(PublishedBlobsTest, SaveOfOneRankTakesThem) {
  SaveSpec spec;
  spec.blobs = {{"metadata", std::string(2'000'000, 'm')}};
  RankContent content = SmallContent(7);
  ASSERT_OK(Save(1, content, spec));
  content.blobs["metadata"] = spec.blobs["metadata"];
  ExpectStep(1, {content});
}

TEST_F(PublishedBlobsTest, InvalidOnesAreRefusedAndChangeNothing) {
  const Store::Attempt save = Begin({.step = 1});
  const auto staged = StageAll(save, {SmallContent(7)});
  const std::pair<Blobs, std::string> cases[] = {
      {{{"reader", "x"}},
       "blob \"reader\" of SaveSpec::blobs was also staged by rank 0"},
      {{{"", "x"}}, "blob name"},
      {{{"\xff", "x"}}, "blob name"}};
  for (const auto& [blobs, words] : cases) {
    EXPECT_THAT(store_->Publish(save.version, staged, {.blobs = blobs}),
                InvalidArgument(words));
    EXPECT_THAT(store_->Steps(), IsEmpty());
  }
  ASSERT_OK(store_->Publish(save.version, staged, {.blobs = {{"w", "x"}}}));
  RankContent expected = SmallContent(7);
  expected.blobs["w"] = "x";
  ExpectStep(1, {expected});
}

TEST_F(PublishedBlobsTest, AreLimited) {
  for (const uint64_t bytes : {kMaxPublishedBytes - 1, kMaxPublishedBytes}) {
    const Blobs blobs = {{"a", std::string(bytes - 5, 'a')}, {"b", "12345"}};
    ASSERT_OK(SaveRanks(static_cast<int64_t>(bytes), Content(false), blobs));
    ExpectBlobs(static_cast<int64_t>(bytes), blobs);
  }
  EXPECT_THAT(
      SaveRanks(1, Content(false),
                {{"a", std::string(kMaxPublishedBytes, 'a')}, {"b", "1"}}),
      InvalidArgument("SaveSpec::blobs has 67108865 bytes; the limit is "
                      "67108864; stage larger blobs with a rank"));
}

// Copies the store's folder at each point of a publish, as a crash leaves it.
TEST_F(PublishedBlobsTest, AreCommittedWithTheStep) {
  const Blobs blobs = SomeBlobs(300'000);
  std::vector<std::string> points;
  const auto copy = [&](size_t i) {
    return absl::StrCat(dir_.path(), "/copy", i);
  };
  options_.on_point = [&](absl::string_view point) {
    if (!absl::StartsWith(point, "publish:")) return;
    std::filesystem::copy(path(), copy(points.size()),
                          std::filesystem::copy_options::recursive);
    points.emplace_back(point);
  };
  Reopen();
  ASSERT_OK(SaveRanks(1, Content(true), blobs));
  ASSERT_EQ(points.size(), 4u);
  for (size_t i = 0; i < points.size(); ++i) {
    SCOPED_TRACE(points[i]);
    options_.on_point = nullptr;
    ASSERT_OK_AND_ASSIGN(store_, Store::Open(copy(i), options_));
    if (i < 2) {
      EXPECT_THAT(ListSteps(), IsEmpty());
    } else {
      ExpectBlobs(1, blobs);
    }
    EXPECT_OK(store_->Sweep());
  }
}

}  // namespace
}  // namespace ckptdb::testing
