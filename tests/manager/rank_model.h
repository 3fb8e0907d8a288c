// SPDX-License-Identifier: Apache-2.0
// The model of one rank of many, for tests of the manager on several ranks.
#ifndef CKPTDB_TESTS_MANAGER_RANK_MODEL_H_
#define CKPTDB_TESTS_MANAGER_RANK_MODEL_H_

#include <gtest/gtest.h>

#include <cstdint>
#include <vector>

#include "absl/strings/str_cat.h"
#include "db/state.h"
#include "schema/bytes/modulo_rank.h"
#include "tests/manager/test_model.h"

namespace ckptdb::testing {

// A TestModel with a table sharded by slices and a sharded tensor.
struct RankModel : TestModel {
  static constexpr int64_t kElements = 12;  // in the tensor

  RankModel(uint32_t rank, uint32_t world_size)
      : bounds(EvenSliceBounds(world_size)),
        first(kElements * rank / world_size),
        shard(
            static_cast<size_t>(kElements * (rank + 1) / world_size - first)) {
    owns = [this, rank](int64_t id) {
      const uint16_t slice = SliceOf(id, SliceHash::kMix);
      return slice >= bounds[rank] && slice < bounds[rank + 1];
    };
    EXPECT_OK(state.AddTensor(
        "shard", ShardOf(shard.data(), {static_cast<int64_t>(shard.size())},
                         {kElements}, {first})));
  }
  // Shards the rows by the remainder of the id instead.
  void ShardByModulo(uint32_t rank, uint32_t world_size) {
    owns = [=](int64_t id) { return ModuloRank(world_size)(id) == rank; };
  }
  void Train(int64_t step, uint32_t rank) {
    TestModel::Train(step);
    reader.position = absl::StrCat(step, "/", rank);
    for (size_t i = 0; i < shard.size(); ++i) {
      shard[i] = static_cast<float>(step * 100 + first + int64_t(i));
    }
  }
  // Returns whether the model is in the state that `world_size` ranks have
  // trained so far, except for the io state, which differs with the number of
  // ranks.
  bool IsTrained(int64_t step, uint32_t rank, uint32_t world_size) const {
    RankModel expected(rank, world_size);
    return IsTrainedLike(&expected, step);
  }
  // The same, with a model that was not trained yet and has the same rows.
  bool IsTrainedLike(RankModel* expected, int64_t step) const {
    for (int64_t s = 1; s <= step; ++s) expected->Train(s, /*rank=*/0);
    return weights == expected->weights && shard == expected->shard &&
           users.rows() == expected->users.rows() && epoch == expected->epoch &&
           note == expected->note;
  }

  std::vector<uint32_t> bounds;
  int64_t first;
  std::vector<float> shard;
};

}  // namespace ckptdb::testing

#endif  // CKPTDB_TESTS_MANAGER_RANK_MODEL_H_
