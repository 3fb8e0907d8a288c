// SPDX-License-Identifier: Apache-2.0
#include "manager/state/replicated_tensors.h"

#include <algorithm>
#include <random>

#include "tests/support/seed.h"
#include "tests/support/test.h"

namespace ckptdb::testing {
namespace {

using internal::AssignSavers;
using internal::CompareReplicas;
using internal::DescribeReplicas;
using Saver = ManagerOptions::ReplicatedSaver;

ModelState ModelOf(const std::vector<std::pair<std::string, int64_t>>& sizes) {
  static float data[1] = {0};
  ModelState model;
  for (const auto& [name, elements] : sizes) {
    EXPECT_OK(model.AddTensor(name, TensorState::Of(data, {elements})));
  }
  return model;
}

TEST(AssignSavers, AssignsTheLargestToTheRankWithTheLeast) {
  const ModelState model = ModelOf({{"a", 3}, {"b", 8}, {"c", 5}, {"d", 4}});
  EXPECT_THAT(AssignSavers(model, Saver::kBalanced, 2).value(),
              ElementsAre(0, 0, 1, 1));
  EXPECT_THAT(AssignSavers(model, Saver::kOwner, 2).value(),
              ElementsAre(0, 0, 0, 0));
  EXPECT_THAT(AssignSavers(model, Saver::kBalanced, 1).value(),
              ElementsAre(0, 0, 0, 0));
}

// Ranks may register their tensors in different orders.
TEST(AssignSavers, AssignmentIsBalancedAndIndependentOfOrder) {
  std::mt19937_64 random(TestSeed());
  for (int round = 0; round < 50; ++round) {
    const auto world = static_cast<uint32_t>(1 + random() % 9);
    std::vector<std::pair<std::string, int64_t>> sizes(1 + random() % 60);
    for (size_t i = 0; i < sizes.size(); ++i) {
      sizes[i] = {std::to_string(i), static_cast<int64_t>(random() % 1000)};
    }
    ASSERT_OK_AND_ASSIGN(const auto savers,
                         AssignSavers(ModelOf(sizes), Saver::kBalanced, world));
    std::map<std::string, uint32_t> saver_of;
    std::vector<int64_t> load(world);
    int64_t largest = 0;
    for (size_t i = 0; i < sizes.size(); ++i) {
      saver_of[sizes[i].first] = savers[i];
      load.at(savers[i]) += sizes[i].second;
      largest = std::max(largest, sizes[i].second);
    }
    const auto [least, most] = std::minmax_element(load.begin(), load.end());
    EXPECT_LE(*most - *least, largest);

    std::shuffle(sizes.begin(), sizes.end(), random);
    ASSERT_OK_AND_ASSIGN(const auto shuffled,
                         AssignSavers(ModelOf(sizes), Saver::kBalanced, world));
    for (size_t i = 0; i < sizes.size(); ++i) {
      EXPECT_EQ(shuffled[i], saver_of[sizes[i].first]);
    }
  }
}

TEST(CompareReplicas, NamesTheFirstDifference) {
  const auto describe = [](const ModelState& model, Saver saver) {
    return DescribeReplicas(model, {.replicated_saver = saver});
  };
  const std::string ab =
      describe(ModelOf({{"b", 2}, {"a", 1}}), Saver::kBalanced);
  EXPECT_OK(CompareReplicas(
      ab, 1, describe(ModelOf({{"a", 1}, {"b", 2}}), Saver::kBalanced)));
  EXPECT_THAT(
      CompareReplicas(ab, 2, describe(ModelOf({{"a", 1}}), Saver::kBalanced)),
      InvalidArgument(
          "where rank 0 has tensor \"b\" f32 [2], rank 2 has none"));
  EXPECT_THAT(
      CompareReplicas(describe(ModelOf({}), Saver::kBalanced), 1,
                      describe(ModelOf({{"a", 1}}), Saver::kBalanced)),
      InvalidArgument("rank 0 has none, rank 1 has tensor \"a\" f32 [1]"));
  EXPECT_THAT(
      CompareReplicas(ab, 1,
                      describe(ModelOf({{"a", 1}, {"b", 2}}), Saver::kOwner)),
      InvalidArgument("kOwner"));
}

}  // namespace
}  // namespace ckptdb::testing
