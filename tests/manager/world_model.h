// SPDX-License-Identifier: Apache-2.0
// A model of everything that ranks divide among themselves. Its values are
// determined by step and global position, so any number of ranks can check its
// part. Ranks are threads.
#ifndef CKPTDB_TESTS_MANAGER_WORLD_MODEL_H_
#define CKPTDB_TESTS_MANAGER_WORLD_MODEL_H_

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <functional>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "manager/checkpoint_manager.h"
#include "tests/manager/run_ranks.h"
#include "tests/manager/test_model.h"

namespace ckptdb::testing {

// The part of a model that all ranks of a world share.
struct WorldSpec {
  std::vector<int64_t> whole;  // elements of the replicated tensors
  std::vector<Shape> sharded;  // two-dimensional
  size_t cut_dimension = 0;    // of the sharded tensors
  int64_t rows = 0;
  TableSharding sharding = TableSharding::BySlices();
  uint64_t seed = 0;  // determines where sharded tensors are cut

  static WorldSpec Random(std::mt19937_64* random) {
    WorldSpec spec;
    const auto below = [&](uint64_t n) {
      return static_cast<int64_t>((*random)() % n);
    };
    spec.whole.resize(1 + static_cast<size_t>(below(8)));
    for (int64_t& elements : spec.whole) elements = below(5000);
    spec.sharded.resize(static_cast<size_t>(below(4)));
    for (Shape& shape : spec.sharded) shape = {1 + below(40), 1 + below(40)};
    spec.cut_dimension = static_cast<size_t>(below(2));
    spec.rows = below(400);
    spec.seed = (*random)();
    return spec;
  }
  // Returns where a sharded tensor of `size` is cut for `world` ranks; parts
  // may be empty.
  std::vector<int64_t> Cuts(int64_t size, uint32_t world) const {
    std::mt19937_64 random(seed + world);
    std::vector<int64_t> cuts = {0, size};
    while (cuts.size() < world + size_t{1}) {
      cuts.push_back(
          static_cast<int64_t>(random() % (static_cast<uint64_t>(size) + 1)));
    }
    std::sort(cuts.begin(), cuts.end());
    return cuts;
  }
};

// Returns whether a rank holds an id of a table with slice hash kMix, such as
// the models'.
inline bool OwnsId(const TableSharding& sharding, int64_t id, uint32_t rank,
                   uint32_t world) {
  switch (sharding.kind()) {
    case Item::Sharding::kBySlices: {
      const std::vector<uint32_t> bounds = EvenSliceBounds(world);
      const uint16_t slice = SliceOf(id, SliceHash::kMix);
      return bounds[rank] <= slice && slice < bounds[rank + 1];
    }
    case Item::Sharding::kByModulo:
      return static_cast<uint64_t>(id) % world == rank;
    case Item::Sharding::kCustom:
    case Item::Sharding::kByRange:
      return sharding.rank_of()(id, world) == rank;
    case Item::Sharding::kUndeclared:
    case Item::Sharding::kReplicated:
      break;
  }
  return true;
}

class WorldModel {
 public:
  WorldModel(WorldSpec spec, uint32_t rank, uint32_t world)
      : spec_(std::move(spec)), rank_(rank), world_(world) {
    for (size_t t = 0; t < spec_.whole.size(); ++t) {
      Tensor& tensor = tensors_.emplace_back();
      tensor.shape = {spec_.whole[t]};
      tensor.global = tensor.shape;
      tensor.offset = {0};
      tensor.values.resize(static_cast<size_t>(spec_.whole[t]));
    }
    for (const Shape& global : spec_.sharded) AddShard(global);
    for (size_t t = 0; t < tensors_.size(); ++t) {
      Tensor& tensor = tensors_[t];
      TensorState added = TensorState::Of(tensor.values.data(), tensor.shape);
      if (t >= spec_.whole.size()) {
        added.global_shape = tensor.global;
        added.offset = tensor.offset;
      }
      EXPECT_OK(state.AddTensor(absl::StrCat("t", t), added));
    }
    EXPECT_OK(state.AddTable("user", &users, spec_.sharding));
    EXPECT_OK(state.AddIoState("reader", &reader));
    EXPECT_OK(state.AddValue("epoch", &epoch));
  }

  // Every value depends on the step. Existing rows also change, one in five is
  // erased, and one in five is added.
  void Train(int64_t step) {
    for (size_t t = 0; t < tensors_.size(); ++t) {
      const std::vector<float> values = Expected(tensors_[t], t, step);
      std::copy(values.begin(), values.end(), tensors_[t].values.begin());
    }
    for (int64_t id = -spec_.rows / 2; id < spec_.rows; ++id) {
      if (!OwnsId(spec_.sharding, id, rank_, world_)) continue;
      if (HasRow(id, step)) {
        users.Set(id, ValueOf(id, step));
      } else if (users.rows().contains(id)) {
        users.Erase(id);
      }
    }
    reader.position = absl::StrCat(step, "/", rank_);
    epoch = step;
  }
  void ExpectTrained(int64_t step) const {
    SCOPED_TRACE(absl::StrCat("rank ", rank_, " of ", world_, " at ", step));
    for (size_t t = 0; t < tensors_.size(); ++t) {
      EXPECT_TRUE(tensors_[t].values == Expected(tensors_[t], t, step)) << t;
    }
    TestTable expected;
    for (int64_t id = -spec_.rows / 2; id < spec_.rows; ++id) {
      if (HasRow(id, step) && OwnsId(spec_.sharding, id, rank_, world_)) {
        expected.Set(id, ValueOf(id, step));
      }
    }
    EXPECT_TRUE(users.rows() == expected.rows())
        << users.rows().size() << " rows, not " << expected.rows().size();
    EXPECT_EQ(epoch, step);
  }

  ModelState state;
  TestTable users;
  TestIo reader;
  int64_t epoch = 0;

 private:
  struct Tensor {
    Shape shape;
    Shape global;
    Shape offset;
    std::vector<float> values;
  };

  static bool HasRow(int64_t id, int64_t step) { return (id + step) % 5 != 0; }
  static float ValueOf(int64_t id, int64_t step) {
    return static_cast<float>(id * 100 + step);
  }
  void AddShard(const Shape& global) {
    const size_t d = spec_.cut_dimension;
    const std::vector<int64_t> cuts = spec_.Cuts(global[d], world_);
    Tensor& tensor = tensors_.emplace_back();
    tensor.global = global;
    tensor.shape = global;
    tensor.offset = {0, 0};
    tensor.offset[d] = cuts[rank_];
    tensor.shape[d] = cuts[rank_ + size_t{1}] - cuts[rank_];
    tensor.values.resize(
        static_cast<size_t>(tensor.shape[0] * tensor.shape[1]));
  }
  static std::vector<float> Expected(const Tensor& tensor, size_t t,
                                     int64_t step) {
    std::vector<float> values(tensor.values.size());
    const int64_t columns = tensor.shape.back();
    for (size_t i = 0; i < values.size(); ++i) {
      const auto at = static_cast<int64_t>(i);
      const int64_t row = tensor.shape.size() < 2 ? 0 : at / columns;
      const int64_t place = tensor.shape.size() < 2
                                ? at
                                : (tensor.offset[0] + row) * tensor.global[1] +
                                      tensor.offset[1] + at % columns;
      values[i] = static_cast<float>(place * 7 + step * 1000) +
                  static_cast<float>(t) / 16;
    }
    return values;
  }

  const WorldSpec spec_;
  const uint32_t rank_;
  const uint32_t world_;
  std::vector<Tensor> tensors_;
};

// A rank that runs as a thread.
struct WorldRank {
  uint32_t rank = 0;
  uint32_t world = 1;
  std::unique_ptr<WorldModel> model;
  std::unique_ptr<CheckpointManager> manager;

  // Trains and saves step by step.
  absl::Status TrainTo(int64_t step) {
    while (manager->global_step() < step) {
      model->Train(manager->global_step() + 1);
      const auto outcome = manager->Step();
      if (!outcome.ok()) return outcome.status();
    }
    return manager->WaitUntilFinished();
  }
};

// Runs `body` on that many ranks, and returns their results.
inline std::vector<absl::Status> RunWorld(
    uint32_t world, const WorldSpec& spec, const ManagerOptions& options,
    const std::function<absl::Status(WorldRank*)>& body,
    const WrapRanks& wrap = nullptr) {
  const auto make = [&](uint32_t rank) {
    return WorldRank{rank, world,
                     std::make_unique<WorldModel>(spec, rank, world), nullptr};
  };
  return RunRanks<WorldRank>(world, options, make, body, wrap);
}

}  // namespace ckptdb::testing

#endif  // CKPTDB_TESTS_MANAGER_WORLD_MODEL_H_
