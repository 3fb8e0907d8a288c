// SPDX-License-Identifier: Apache-2.0
#include "db/stage/segments.h"

#include <utility>

#include "gtest/gtest.h"
#include "tests/support/status_matchers.h"

namespace ckptdb::internal {
namespace {

constexpr uint64_t kTensorBytes = uint64_t{512} << 20;
constexpr int kThreads = 2;

// Items with a tensor each, whose bytes nothing reads.
std::vector<StagedItem> Tensors(int count) {
  static constexpr char kBytes[1] = {};
  std::vector<StagedItem> items;
  for (int i = 0; i < count; ++i) {
    StagedItem& staged = items.emplace_back();
    staged.item.name = std::string(1, static_cast<char>('a' + i));
    staged.item.raw_bytes = kTensorBytes;
    staged.streams.push_back(MakeChunkStream(
        staged.item.name, 0, absl::string_view(kBytes, kTensorBytes),
        sizeof(float), Codec::kNone));
  }
  return items;
}

uint64_t BytesIn(const Segment& segment) {
  uint64_t bytes = 0;
  for (const Piece& piece : segment) {
    bytes += piece.stream->BytesOf(piece.begin, piece.end);
  }
  return bytes;
}

TEST(CutSegmentsTest, GivesEachWorkerASegment) {
  const auto items = Tensors(2);
  const auto segments = CutSegments(items, kThreads);
  ASSERT_EQ(segments.size(), 2U);
  EXPECT_EQ(BytesIn(segments[0]), kTensorBytes);
  EXPECT_EQ(BytesIn(segments[1]), kTensorBytes);
}

// The training waits until what is not held is written: all workers write that
// first.
TEST(CutSegmentsTest, GivesEachWorkerASegmentOfWhatIsNotHeld) {
  auto items = Tensors(2);
  Stream* const held = items[1].streams[0].get();
  held->HoldFrom(0, nullptr);
  const auto segments = CutSegments(items, kThreads);
  ASSERT_EQ(segments.size(), 4U);
  for (const Segment& segment : segments) {
    EXPECT_EQ(BytesIn(segment), kTensorBytes / 2);
  }
  EXPECT_NE(segments[1][0].stream, held);
  EXPECT_EQ(segments[2][0].stream, held);
}

TEST(CutSegmentsTest, CutsATensorThatIsHeldInPart) {
  auto items = Tensors(1);
  Stream* const stream = items[0].streams[0].get();
  stream->HoldFrom(stream->entries() / 4, nullptr);
  const auto segments = CutSegments(items, kThreads);
  ASSERT_EQ(segments.size(), 4U);
  EXPECT_EQ(BytesIn(segments[0]) + BytesIn(segments[1]), kTensorBytes / 4);
  EXPECT_EQ(segments[2][0].begin, stream->entries() / 4);
}

}  // namespace
}  // namespace ckptdb::internal
