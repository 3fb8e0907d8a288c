// SPDX-License-Identifier: Apache-2.0

#include "schema/bytes/shape.h"
#include "tests/db/store_fixture.h"
#include "tests/support/source_folder.h"

namespace ckptdb::testing {
namespace {

// Shards of one tensor on a grid of ranks.
class ShardTest : public StoreFixture {
 protected:
  // Cuts `shape` in each dimension; one rank for each cell of the grid.
  void SaveShards(std::mt19937_64* random, const Shape& shape,
                  const std::vector<size_t>& grid, Codec codec) {
    whole_ = {DType::kI16, shape, {}, codec, {}, {}};
    size_t bytes = 2;
    for (const int64_t n : shape) bytes *= static_cast<size_t>(n);
    whole_.bytes = RandomBytes(random, bytes);
    if (codec != Codec::kNone)
      std::fill_n(whole_.bytes.begin(), bytes / 2, '\0');
    std::vector<Box> cells = GridOf(random, shape, grid);
    std::shuffle(cells.begin(), cells.end(), *random);
    Publish(cells);
  }
  static std::vector<Box> GridOf(std::mt19937_64* random, const Shape& shape,
                                 const std::vector<size_t>& grid) {
    std::vector<Box> cells = {{}};
    for (size_t d = 0; d < shape.size(); ++d) {
      std::vector<Box> next;
      const std::vector<int64_t> cuts = Cuts(random, shape[d], grid[d]);
      for (const Box& cell : cells) {
        for (size_t i = 0; i + 1 < cuts.size(); ++i) {
          next.push_back(cell);
          next.back().offset.push_back(cuts[i]);
          next.back().shape.push_back(cuts[i + 1] - cuts[i]);
        }
      }
      cells = std::move(next);
    }
    return cells;
  }
  void Publish(const std::vector<Box>& cells) { ASSERT_OK(TryPublish(cells)); }
  absl::StatusOr<SaveResult> TryPublish(const std::vector<Box>& cells) {
    contents_.clear();
    for (const Box& cell : cells) {
      contents_.emplace_back();
      TensorContent& shard = contents_.back().tensors["t"];
      shard = {whole_.dtype, cell.shape,   PlainBox(cell),
               whole_.codec, whole_.shape, cell.offset};
    }
    const Store::Attempt save = Begin(
        {.step = ++step_, .world_size = static_cast<uint32_t>(cells.size())});
    return store_->Publish(save.version, StageAll(save, contents_));
  }
  static std::vector<int64_t> Cuts(std::mt19937_64* random, int64_t size,
                                   size_t parts) {
    std::vector<int64_t> cuts = {0, size};
    while (cuts.size() < parts + 1) {
      cuts.push_back(static_cast<int64_t>((*random)() %
                                          (static_cast<uint64_t>(size) + 1)));
    }
    std::sort(cuts.begin(), cuts.end());
    return cuts;
  }
  std::string PlainBox(const Box& box) const {
    std::string out;
    size_t elements = 1;
    for (const int64_t n : box.shape) elements *= static_cast<size_t>(n);
    for (size_t e = 0; e < elements; ++e) {
      size_t rest = e;
      size_t index = 0;
      size_t scale = 1;
      for (size_t d = box.shape.size(); d-- > 0;) {
        const auto n = static_cast<size_t>(box.shape[d]);
        index += scale * (static_cast<size_t>(box.offset[d]) + rest % n);
        rest /= n;
        scale *= static_cast<size_t>(whole_.shape[d]);
      }
      out.append(whole_.bytes, index * 2, 2);
    }
    return out;
  }
  void ExpectRandomBoxes(std::mt19937_64* random, int count) {
    ASSERT_OK_AND_ASSIGN(const auto step, store_->OpenStep(step_));
    EXPECT_TRUE(ReadTensorBytes(*step, "t").value() == whole_.bytes);
    for (int i = 0; i < count; ++i) {
      Box box;
      for (const int64_t n : whole_.shape) {
        const std::vector<int64_t> cuts = Cuts(random, n, 3);
        box.offset.push_back(cuts[1]);
        box.shape.push_back(cuts[2] - cuts[1]);
      }
      const std::string expected = PlainBox(box);
      std::string out(expected.size(), '\xcc');
      ASSERT_OK(step->ReadTensorPart("t", box.offset, box.shape, out.data(),
                                     out.size()));
      EXPECT_TRUE(out == expected)
          << ToString(box.offset) << " " << ToString(box.shape);
    }
  }
  int64_t step_ = 0;
  TensorContent whole_;
  std::vector<RankContent> contents_;
};

TEST_F(ShardTest, RandomBoxesOverGridsOfShards) {
  std::mt19937_64 random(TestSeed());
  SaveShards(&random, {97}, {5}, Codec::kNone);
  ExpectRandomBoxes(&random, 30);
  SaveShards(&random, {33, 41}, {3, 2}, Codec::kLz4);
  ExpectRandomBoxes(&random, 30);
  SaveShards(&random, {7, 9, 11, 3}, {2, 2, 2, 1}, Codec::kNone);
  ExpectRandomBoxes(&random, 30);
  SaveShards(&random, {5, 6, 7}, {1, 1, 1}, Codec::kAuto);
  ExpectRandomBoxes(&random, 10);
  // Shards of several chunks.
  SaveShards(&random, {1009, 13, 503}, {2, 1, 2}, Codec::kNone);
  ExpectRandomBoxes(&random, 4);
}

TEST_F(ShardTest, TensorOfTheWholeIsTheGlobalOne) {
  std::mt19937_64 random(1);
  SaveShards(&random, {10, 4}, {2, 2}, Codec::kNone);
  ASSERT_OK_AND_ASSIGN(const auto step, store_->OpenStep(step_));
  const Item spec = step->FindTensor("t").value();
  EXPECT_EQ(spec.dtype, DType::kI16);
  EXPECT_EQ(spec.shape, (Shape{10, 4}));
  EXPECT_EQ(spec.raw_bytes, 80u);
  ExpectHolds(*step, contents_);
}

// A step from before saves with gaps were refused: tests/golden/tensor_gap.
TEST_F(ShardTest, ReportsGapsAsDataLoss) {
  ASSERT_OK(store_->Close());
  std::filesystem::remove_all(path());
  std::filesystem::copy(SourcePath("tests/golden/tensor_gap/store"), path(),
                        std::filesystem::copy_options::recursive);
  Reopen();
  ASSERT_OK_AND_ASSIGN(const auto step, store_->OpenStep(1));
  std::string out(40, '\0');
  EXPECT_THAT(step->ReadTensor("t", out.data(), 40), DataLoss("\"t\""));
  EXPECT_OK(step->ReadTensorPart("t", {0, 0}, {4, 2}, out.data(), 16));
  EXPECT_OK(step->ReadTensorPart("t", {5, 0}, {5, 2}, out.data(), 20));
  EXPECT_THAT(step->ReadTensorPart("t", {3, 1}, {2, 1}, out.data(), 4),
              DataLoss("\"t\""));
}

TEST_F(ShardTest, RejectsGaps) {
  whole_ = {DType::kI16, {10, 2}, std::string(40, 'x'), {}, {}, {}};
  const std::vector<std::pair<std::vector<Box>, std::string>> gaps = {
      {{{{0, 0}, {4, 2}}, {{5, 0}, {5, 2}}},
       "the shards have 18 of the 20 elements of [10, 2]; missing element at "
       "[4, 0]"},
      {{{{0, 0}, {10, 1}}}, "at [0, 1]"},
      {{{{0, 0}, {9, 2}}, {{0, 0}, {9, 2}}}, "at [9, 0]"},
      {{{{0, 0}, {9, 2}}, {{9, 1}, {1, 1}}, {{9, 0}, {1, 0}}}, "at [9, 0]"},
      {{{{0, 0}, {0, 2}}}, "have 0 of the 20"}};
  for (const auto& [cells, words] : gaps)
    EXPECT_THAT(TryPublish(cells).status(), InvalidArgument("\"t\"", words));
  EXPECT_TRUE(store_->Steps().empty());
}

TEST_F(ShardTest, NamesTheFirstElementThatNoShardHas) {
  std::mt19937_64 random(TestSeed());
  for (int round = 0; round < 30; ++round) {
    const Shape shape = {1 + int64_t(random() % 6), 1 + int64_t(random() % 6),
                         1 + int64_t(random() % 6)};
    std::vector<Box> cells = GridOf(&random, shape, {2, 2, 2});
    const Box gone = cells.back();
    cells.pop_back();
    whole_ = {DType::kI16, shape, {}, {}, {}, {}};
    whole_.bytes.resize(
        static_cast<size_t>(2 * shape[0] * shape[1] * shape[2]));
    const absl::Status status = TryPublish(cells).status();
    if (std::count(gone.shape.begin(), gone.shape.end(), 0) > 0) {
      EXPECT_OK(status);
    } else {
      EXPECT_THAT(status,
                  InvalidArgument(absl::StrCat("missing element at ",
                                               ToString(gone.offset), ";")))
          << ToString(shape) << " " << ToString(gone.shape);
    }
  }
}

TEST_F(ShardTest, ReplicasAreRead) {
  std::mt19937_64 random(1);
  whole_ = {DType::kI16, {10, 2}, RandomBytes(&random, 40), {}, {}, {}};
  Publish({{{0, 0}, {10, 2}}, {{0, 0}, {10, 2}}});
  ExpectRandomBoxes(&random, 10);
  Publish({{{0, 0}, {4, 2}},
           {{4, 0}, {6, 2}},
           {{0, 0}, {4, 2}},
           {{4, 0}, {6, 2}},
           {{5, 1}, {0, 1}}});
  ExpectRandomBoxes(&random, 10);
}

TEST_F(ShardTest, RejectsPartlyOverlappingShards) {
  whole_ = {DType::kI16, {10, 2}, std::string(40, 'x'), {}, {}, {}};
  const std::vector<std::vector<Box>> overlaps = {
      {{{0, 0}, {10, 2}}, {{2, 0}, {5, 2}}},
      {{{0, 0}, {6, 2}}, {{5, 0}, {5, 2}}},
      {{{0, 0}, {10, 1}}, {{0, 1}, {10, 1}}, {{9, 0}, {1, 2}}}};
  for (const std::vector<Box>& cells : overlaps)
    EXPECT_THAT(TryPublish(cells), InvalidArgument("\"t\"", "overlap"));
  EXPECT_TRUE(store_->Steps().empty());
}

}  // namespace
}  // namespace ckptdb::testing
