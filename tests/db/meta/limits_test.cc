// SPDX-License-Identifier: Apache-2.0
// Every limit that a caller can reach: at, below, above.
#include "schema/bytes/limits.h"

#include "schema/types.h"

#include <gmock/gmock.h>

#include "db/state.h"
#include "tests/db/store_fixture.h"

namespace ckptdb::testing {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class LimitsTest : public StoreFixture {
 protected:
  // Saves the next step: there, with these bytes, when `allowed`; else
  // InvalidArgument with `value` and `limit` in it.
  void Check(const RankContent& content, bool allowed, uint64_t value,
             uint64_t limit) {
    ++step_;
    const auto result = Save(step_, content);
    if (allowed) {
      ASSERT_OK(result);
      ExpectStep(step_, {content});
      return;
    }
    ExpectRefused(result.status(), value, limit);
  }
  void ExpectRefused(const absl::Status& status, uint64_t value,
                     uint64_t limit) {
    EXPECT_THAT(status, StatusIs(absl::StatusCode::kInvalidArgument,
                                 AllOf(HasSubstr(std::to_string(value)),
                                       HasSubstr(std::to_string(limit)))));
    EXPECT_FALSE(store_->FindStep(step_).ok());
  }

  int64_t step_ = 0;
};

TEST_F(LimitsTest, NameBytes) {
  for (const size_t bytes :
       {size_t{1}, kMaxNameBytes - 1, kMaxNameBytes, kMaxNameBytes + 1}) {
    const bool allowed = bytes <= kMaxNameBytes;
    const std::string name(bytes, 'n');
    RankContent tensor;
    tensor.tensors[name] = TensorContent::Of<float>({1}, {1});
    Check(tensor, allowed, bytes, kMaxNameBytes);
    RankContent blob;
    blob.blobs[name] = "b";
    Check(blob, allowed, bytes, kMaxNameBytes);
    RankContent table;
    table.tables[name] = {
        {{"v", DType::kU8, 1}}, SliceHash::kModulo, {{1, "x"}}};
    Check(table, allowed, bytes, kMaxNameBytes);
    RankContent slot;
    slot.tables["t"] = {
        {{name, DType::kU8, 1}}, SliceHash::kModulo, {{1, "x"}}};
    Check(slot, allowed, bytes, kMaxNameBytes);
  }
}

TEST_F(LimitsTest, NameBytesOfABulkSave) {
  RankContent content = BulkContent(1);
  content.tensors[std::string(kMaxNameBytes, 't')] = BulkTensor(2);
  content.tables[std::string(kMaxNameBytes, 'u')] = content.tables["user"];
  Check(content, true, 0, 0);
}

TEST_F(LimitsTest, Dimensions) {
  for (const size_t dimensions :
       {kMaxDimensions - 1, kMaxDimensions, kMaxDimensions + 1}) {
    RankContent content;
    content.tensors["t"] = TensorContent::Of<float>({2}, {1, 2});
    content.tensors["t"].shape.assign(dimensions, 1);
    content.tensors["t"].shape.back() = 2;
    Check(content, dimensions <= kMaxDimensions, dimensions, kMaxDimensions);
  }
}

TEST_F(LimitsTest, Slots) {
  for (const size_t slots :
       {size_t{1}, kMaxSlots - 1, kMaxSlots, kMaxSlots + 1}) {
    std::mt19937_64 random(1);
    RankContent content;
    TableContent& table = content.tables["user"];
    for (size_t s = 0; s < slots; ++s) {
      table.slots.push_back({"s" + std::to_string(s), DType::kI16, 1});
    }
    table.rows = RandomRows(&random, table.row_bytes(), 300);
    Check(content, slots <= kMaxSlots, slots, kMaxSlots);
  }
}

TEST_F(LimitsTest, SlotBytes) {
  for (const uint64_t bytes :
       {uint64_t{1}, kMaxSlotBytes - 1, kMaxSlotBytes, kMaxSlotBytes + 1}) {
    std::mt19937_64 random(1);
    RankContent content;
    TableContent& table = content.tables["user"];
    table.slots = {{"wide", DType::kU8, static_cast<uint32_t>(bytes)},
                   {"narrow", DType::kU8, 1}};
    table.rows = RandomRows(&random, table.row_bytes(), 30);
    Check(content, bytes <= kMaxSlotBytes, bytes, kMaxSlotBytes);
  }
}

TEST_F(LimitsTest, SlotBytesThatOverflow32Bits) {
  RankContent content;
  content.tables["user"].slots = {{"wide", DType::kF64, 1u << 30}};
  Check(content, false, uint64_t{8} << 30, kMaxSlotBytes);
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
    ASSERT_OK_AND_ASSIGN(const Store::Attempt save,
                         store_->Begin({.step = 1, .world_size = ranks}));
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
  void CheckPublish(const SaveSpec& publish, bool allowed, uint64_t value,
                    uint64_t limit) {
    ++step_;
    const auto result = Save(step_, SmallContent(1), publish);
    if (!allowed) return ExpectRefused(result.status(), value, limit);
    ASSERT_OK(result);
    Reopen();
    ASSERT_OK_AND_ASSIGN(const StepRecord record, store_->FindStep(step_));
    EXPECT_EQ(record.metrics, publish.metrics);
    EXPECT_EQ(record.user_metadata, publish.user_metadata);
  }
};

TEST_F(PublishLimitsTest, Metrics) {
  for (const size_t metrics : {kMaxMetrics - 1, kMaxMetrics, kMaxMetrics + 1}) {
    SaveSpec publish;
    for (size_t m = 0; m < metrics; ++m) {
      publish.metrics["m" + std::to_string(m)] = static_cast<double>(m);
    }
    CheckPublish(publish, metrics <= kMaxMetrics, metrics, kMaxMetrics);
  }
}

// Before anything of the ranks is looked at, in the words of the call.
TEST_F(PublishLimitsTest, WhatIsWrongIsSaidOfTheSpec) {
  ASSERT_OK_AND_ASSIGN(const Store::Attempt save, store_->Begin({.step = 1}));
  const auto expect = [&](const SaveSpec& publish, const std::string& words) {
    EXPECT_THAT(store_->Publish(save.version, {}, publish),
                StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr(words)));
  };
  SaveSpec publish;
  for (size_t m = 0; m <= kMaxMetrics; ++m) {
    publish.metrics["m" + std::to_string(m)] = 0;
  }
  expect(publish, "4097 metrics; the limit is 4096");
  expect({.metrics = {{"", 1.0}}}, "metric name");
  expect({.user_metadata = {{"", "v"}}}, "metadata name");
  expect({.user_metadata = {{"a", std::string(kMaxMetadataBytes, 'x')}}},
         "user metadata takes 1048577 bytes; the limit is 1048576");
}

TEST_F(PublishLimitsTest, MetricNameBytes) {
  for (const size_t bytes :
       {kMaxNameBytes - 1, kMaxNameBytes, kMaxNameBytes + 1}) {
    SaveSpec publish;
    publish.metrics[std::string(bytes, 'm')] = 1;
    CheckPublish(publish, bytes <= kMaxNameBytes, bytes, kMaxNameBytes);
  }
}

TEST_F(PublishLimitsTest, MetadataBytesAreOfNamesAndValuesInAll) {
  for (const uint64_t bytes :
       {kMaxMetadataBytes - 1, kMaxMetadataBytes, kMaxMetadataBytes + 1}) {
    SaveSpec publish;
    publish.user_metadata["a"] = std::string(1000, 'x');
    publish.user_metadata["b"] = std::string(bytes - 1002, 'y');
    CheckPublish(publish, bytes <= kMaxMetadataBytes, bytes, kMaxMetadataBytes);
    const absl::Status set = store_->SetUserMetadata(publish.user_metadata);
    if (bytes <= kMaxMetadataBytes) {
      EXPECT_OK(set);
      Reopen();
      EXPECT_EQ(store_->user_metadata(), publish.user_metadata);
    } else {
      EXPECT_THAT(set, StatusIs(absl::StatusCode::kInvalidArgument,
                                HasSubstr(absl::StrCat(kMaxMetadataBytes))));
    }
  }
}

TEST_F(PublishLimitsTest, MetadataNameBytes) {
  for (const size_t bytes :
       {kMaxNameBytes - 1, kMaxNameBytes, kMaxNameBytes + 1}) {
    SaveSpec publish;
    publish.user_metadata[std::string(bytes, 'k')] = "v";
    CheckPublish(publish, bytes <= kMaxNameBytes, bytes, kMaxNameBytes);
  }
}

TEST_F(PublishLimitsTest, NamesAreNames) {
  EXPECT_THAT(Save(1, SmallContent(1), {.metrics = {{"", 1.0}}}),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("empty")));
  EXPECT_THAT(Save(1, SmallContent(1), {.user_metadata = {{"\xff", "v"}}}),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("UTF-8")));
  EXPECT_THAT(store_->Steps(), IsEmpty());
}

}  // namespace
}  // namespace ckptdb::testing
