// SPDX-License-Identifier: Apache-2.0
// Every limit that a caller can reach: at, below, above.

#include "schema/types.h"

#include "tests/db/store_fixture.h"

namespace ckptdb::testing {
namespace {

class LimitsTest : public StoreFixture {
 protected:
  // Saves the next step: there, with these bytes, when `value` is within
  // `limit`; else InvalidArgument with both in it.
  void Check(const RankContent& content, uint64_t value, uint64_t limit) {
    ++step_;
    const auto result = Save(step_, content);
    if (value > limit) return ExpectRefused(result.status(), value, limit);
    ASSERT_OK(result);
    ExpectStep(step_, {content});
  }
  void ExpectRefused(const absl::Status& status, uint64_t value,
                     uint64_t limit) {
    EXPECT_THAT(status,
                InvalidArgument(std::to_string(value), std::to_string(limit)));
    EXPECT_FALSE(store_->FindStep(step_).ok());
  }
  static std::vector<uint64_t> Around(uint64_t limit) {
    return {limit - 1, limit, limit + 1};
  }
  int64_t step_ = 0;
};

TEST_F(LimitsTest, NameBytes) {
  for (const size_t bytes :
       {size_t{1}, kMaxNameBytes - 1, kMaxNameBytes, kMaxNameBytes + 1}) {
    const std::string name(bytes, 'n');
    std::vector<RankContent> each(4);
    each[0].tensors[name] = TensorContent::Of<float>({1}, {1});
    each[1].blobs[name] = "b";
    each[2].tables[name] = {
        {{"v", DType::kU8, 1}}, SliceHash::kModulo, {{1, "x"}}};
    each[3].tables["t"] = {
        {{name, DType::kU8, 1}}, SliceHash::kModulo, {{1, "x"}}};
    for (const RankContent& one : each) Check(one, bytes, kMaxNameBytes);
  }
  RankContent bulk = BulkContent(1);
  bulk.tensors[std::string(kMaxNameBytes, 't')] = BulkTensor(2);
  bulk.tables[std::string(kMaxNameBytes, 'u')] = bulk.tables["user"];
  Check(bulk, 0, 0);
}

TEST_F(LimitsTest, Dimensions) {
  for (const uint64_t dimensions : Around(kMaxDimensions)) {
    RankContent content;
    content.tensors["t"] = TensorContent::Of<float>({2}, {1, 2});
    content.tensors["t"].shape.assign(dimensions, 1);
    content.tensors["t"].shape.back() = 2;
    Check(content, dimensions, kMaxDimensions);
  }
}

TEST_F(LimitsTest, SlotsAndTheirBytes) {
  const auto check = [&](std::vector<Slot> slots, uint64_t value,
                         uint64_t limit) {
    std::mt19937_64 random(1);
    RankContent content;
    TableContent& table = content.tables["user"];
    table.slots = std::move(slots);
    table.rows = RandomRows(&random, table.row_bytes(),
                            table.slots.size() == 2 ? 30 : 300);
    Check(content, value, limit);
  };
  for (const uint64_t count :
       {uint64_t{1}, kMaxSlots - 1, uint64_t{kMaxSlots}, kMaxSlots + 1}) {
    std::vector<Slot> slots;
    for (uint64_t s = 0; s < count; ++s)
      slots.push_back({"s" + std::to_string(s), DType::kI16, 1});
    check(slots, count, kMaxSlots);
  }
  for (const uint64_t bytes : {uint64_t{1}, kMaxSlotBytes - 1,
                               uint64_t{kMaxSlotBytes}, kMaxSlotBytes + 1}) {
    check({{"wide", DType::kU8, static_cast<uint32_t>(bytes)},
           {"narrow", DType::kU8, 1}},
          bytes, kMaxSlotBytes);
  }
  RankContent content;
  content.tables["user"].slots = {{"wide", DType::kF64, 1u << 30}};
  Check(content, uint64_t{8} << 30, kMaxSlotBytes);
}

TEST_F(LimitsTest, BlobBytesAreCheckedBeforeTheyAreRead) {
  const char byte = 'x';
  RankState state;
  state.AddBlob("huge", absl::string_view(&byte, kMaxBlobBytes + 1));
  ++step_;
  ExpectRefused(store_->Save({.step = step_}, state).status(),
                kMaxBlobBytes + 1, kMaxBlobBytes);
}

TEST_F(LimitsTest, WorldSizeOfBegin) {
  for (const uint32_t ranks : {1u, kMaxWorldSize - 1, kMaxWorldSize}) {
    const Store::Attempt save = Begin({.step = 1, .world_size = ranks});
    EXPECT_EQ(save.tickets.size(), ranks);
    EXPECT_EQ(save.tickets.back().rank(), ranks - 1);
    ASSERT_OK(store_->Abandon(save.version));
  }
  ExpectRefused(
      store_->Begin({.step = 1, .world_size = kMaxWorldSize + 1}).status(),
      kMaxWorldSize + 1, kMaxWorldSize);
}

class PublishLimitsTest : public LimitsTest {
 protected:
  void CheckPublish(const SaveSpec& publish, uint64_t value, uint64_t limit) {
    ++step_;
    const auto result = Save(step_, SmallContent(1), publish);
    if (value > limit) return ExpectRefused(result.status(), value, limit);
    ASSERT_OK(result);
    Reopen();
    EXPECT_EQ(Record(step_).metrics, publish.metrics);
    EXPECT_EQ(Record(step_).user_metadata, publish.user_metadata);
  }
};

// Before anything of the ranks is looked at, in the words of the call.
TEST_F(PublishLimitsTest, WhatIsWrongIsSaidOfTheSpec) {
  ASSERT_OK_AND_ASSIGN(const Store::Attempt save, store_->Begin({.step = 1}));
  const auto expect = [&](const SaveSpec& publish, const std::string& words) {
    EXPECT_THAT(store_->Publish(save.version, {}, publish),
                InvalidArgument(words));
  };
  SaveSpec publish;
  for (size_t m = 0; m <= kMaxMetrics; ++m)
    publish.metrics["m" + std::to_string(m)] = 0;
  expect(publish, "4097 metrics; the limit is 4096");
  expect({.metrics = {{"", 1.0}}}, "metric name");
  expect({.user_metadata = {{"", "v"}}}, "metadata name");
  expect({.user_metadata = {{"a", std::string(kMaxMetadataBytes, 'x')}}},
         "user metadata takes 1048577 bytes; the limit is 1048576");
}

TEST_F(PublishLimitsTest, MetadataBytesAreOfNamesAndValuesInAll) {
  for (const uint64_t bytes : Around(kMaxMetadataBytes)) {
    const UserMetadata metadata = {{"a", std::string(1000, 'x')},
                                   {"b", std::string(bytes - 1002, 'y')}};
    CheckPublish({.user_metadata = metadata}, bytes, kMaxMetadataBytes);
    const absl::Status set = store_->SetUserMetadata(metadata);
    if (bytes <= kMaxMetadataBytes) {
      EXPECT_OK(set);
      Reopen();
      EXPECT_EQ(store_->user_metadata(), metadata);
    } else {
      EXPECT_THAT(set, InvalidArgument(absl::StrCat(kMaxMetadataBytes)));
    }
  }
}

TEST_F(PublishLimitsTest, MetricsAndNames) {
  for (const uint64_t metrics : Around(kMaxMetrics)) {
    SaveSpec publish;
    for (uint64_t m = 0; m < metrics; ++m)
      publish.metrics["m" + std::to_string(m)] = static_cast<double>(m);
    CheckPublish(publish, metrics, kMaxMetrics);
  }
  for (const uint64_t bytes : Around(kMaxNameBytes)) {
    const std::string name(bytes, 'm');
    CheckPublish({.metrics = {{name, 1}}}, bytes, kMaxNameBytes);
    CheckPublish({.user_metadata = {{name, "v"}}}, bytes, kMaxNameBytes);
  }
}

TEST_F(PublishLimitsTest, NamesAreNames) {
  EXPECT_THAT(Save(1, SmallContent(1), {.metrics = {{"", 1.0}}}),
              InvalidArgument("empty"));
  EXPECT_THAT(Save(1, SmallContent(1), {.user_metadata = {{"\xff", "v"}}}),
              InvalidArgument("UTF-8"));
  EXPECT_THAT(store_->Steps(), IsEmpty());
}

}  // namespace
}  // namespace ckptdb::testing
