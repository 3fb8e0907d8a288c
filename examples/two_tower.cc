// SPDX-License-Identifier: Apache-2.0
// A two-tower recommender: users in a hash map, items in an array, one layer.
//   two_tower STORE STEPS RANKS [SIGNAL STEP]
//
// Ranks are threads, or processes under "mpirun -np RANKS". It resumes from the
// newest step of STORE, and ends with the same digest on any number of ranks.
// SIGTERM ends it with a save; the last rank raises SIGNAL after STEP.
#include <ckptdb/ckptdb.h>

#include <array>
#include <atomic>
#include <bit>
#include <cmath>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <unordered_map>
#include <vector>

#include "ranks/ranks.h"

namespace {

using examples::Exchange, examples::PerRank, examples::Ranks, ckptdb::MixId;
constexpr uint64_t kDim = 8, kUsers = 4000, kItems = 1000, kExamples = 256;
constexpr float kRate = 0.1f;
using Vector = std::array<float, kDim>;

// Sums of multiples of 2^-40 are exact, and so the same on any number of ranks.
double Exact(double value) { return std::round(value * 0x1p40) / 0x1p40; }

constexpr int64_t kLayer = -1;  // in the place of an item's id
struct Gradient {
  int64_t id = 0;
  std::array<double, kDim + 1> sum = {};  // and at last the loss
};
// A rank has the users and items of id % size == rank, and the whole layer.
struct Model {
  std::unordered_map<int64_t, Vector> users;
  std::vector<Vector> items;
  Vector layer = {1, 1, 1, 1, 1, 1, 1, 1};
  std::vector<int64_t> changed_users, changed_items;  // by the last step
};

std::atomic<bool> sigterm = false;

Vector NewRow(uint64_t id) {
  Vector row;
  for (float& v : row) v = float((id = MixId(id + 1)) % 1000) / 1000;
  return row;
}

// A user clicks on the items of one kind. Returns the gradient of the item.
Gradient TrainExample(int64_t user_id, int64_t item_id, const Vector& i,
                      Model* model, Gradient* layer) {
  Vector& u = model->users.try_emplace(user_id, NewRow(user_id)).first->second;
  float score = 0;
  for (size_t d = 0; d < kDim; ++d) score += model->layer[d] * u[d] * i[d];
  const float click = user_id % 5 == item_id % 5 ? 1 : 0;
  const float error = 1 / (1 + std::exp(-score)) - click;
  Gradient item = {.id = item_id};
  for (size_t d = 0; d < kDim; ++d) {
    item.sum[d] = Exact(error * model->layer[d] * u[d]);
    layer->sum[d] += Exact(error * u[d] * i[d] / kExamples);
    u[d] -= kRate * error * model->layer[d] * i[d];
  }
  layer->sum[kDim] += Exact(error * error / kExamples);
  model->changed_users.push_back(user_id);
  return item;
}

// Returns the mean loss, on the owner, whose metrics are the step's.
ckptdb::Metrics Apply(const PerRank<Gradient>& gradients, const Ranks& own,
                      Model* model) {
  std::unordered_map<int64_t, std::array<double, kDim + 1>> sums;
  for (const std::vector<Gradient>& of_rank : gradients) {
    for (const auto& [id, part] : of_rank) {
      for (size_t d = 0; d <= kDim; ++d) sums[id][d] += part[d];
    }
  }
  model->changed_items.clear();
  for (const auto& [id, sum] : sums) {
    Vector& row = id == kLayer ? model->layer : model->items[id];
    for (size_t d = 0; d < kDim; ++d) row[d] -= kRate * float(sum[d]);
    if (id != kLayer) model->changed_items.push_back(id);
  }
  return own.is_owner() ? ckptdb::Metrics{{"loss", sums[kLayer][kDim]}}
                        : ckptdb::Metrics();
}

absl::StatusOr<ckptdb::Metrics> Step(uint64_t step, Ranks* own, Model* model) {
  const uint32_t size = own->size();
  std::vector<std::array<int64_t, 2>> examples;  // of this rank's users
  PerRank<int64_t> ids(size);                    // of items
  for (uint64_t e = step * kExamples; e < (step + 1) * kExamples; ++e) {
    const uint64_t random = MixId(e);
    const uint64_t user = random % kUsers, item = random / kUsers % kItems;
    if (user % size != own->rank()) continue;
    examples.push_back({int64_t(user), int64_t(item)});
    ids[item % size].push_back(int64_t(item));
  }
  CKPTDB_ASSIGN_OR_RETURN(ids, Exchange(own, "ids", ids));
  PerRank<Vector> rows(size);
  for (uint32_t r = 0; r < size; ++r) {
    for (const int64_t id : ids[r]) rows[r].push_back(model->items[id]);
  }
  CKPTDB_ASSIGN_OR_RETURN(rows, Exchange(own, "rows", rows));
  model->changed_users.clear();
  PerRank<Gradient> gradients(size);
  Gradient layer = {.id = kLayer};
  for (const auto& [user, item] : examples) {
    auto& of_rank = gradients[item % size];
    const Vector& row = rows[item % size][of_rank.size()];
    of_rank.push_back(TrainExample(user, item, row, model, &layer));
  }
  for (auto& of_rank : gradients) of_rank.push_back(layer);
  CKPTDB_ASSIGN_OR_RETURN(gradients, Exchange(own, "gradients", gradients));
  return Apply(gradients, *own, model);
}

// [checkpoints]
ckptdb::ManagerOptions OptionsFor(const char* path, Ranks* own) {
  ckptdb::ManagerOptions options;
  options.path = path;
  options.ranks.deadline = own->deadline();
  options.ranks.sharding = ckptdb::TableSharding::ByModulo();
  options.restore.best = {.metric = "loss", .lower_is_better = true};
  options.schedule.permanent = ckptdb::SaveEveryNSteps(20);
  options.retention.keep =
      ckptdb::LatestN(2) | ckptdb::BestN(*options.restore.best);
  return options;
}

absl::Status Train(char** arguments, Ranks* own, Model* model) {
  ckptdb::MapTable users(&model->users, {ckptdb::Field("embedding")});
  ckptdb::VectorTable items(
      kItems, {ckptdb::Array("embedding", model->items[0].data(), kDim)}, {},
      [&](int64_t id) { return id % own->size() == own->rank(); });
  ckptdb::ModelState state;
  CKPTDB_RETURN_IF_ERROR(state.AddTable("user", &users));
  CKPTDB_RETURN_IF_ERROR(state.AddTable("item", &items));
  CKPTDB_RETURN_IF_ERROR(state.AddTensor(
      "layer", ckptdb::TensorState::Of(model->layer.data(), {kDim})));
  CKPTDB_ASSIGN_OR_RETURN(auto ranks, own->NewCoordinator());
  CKPTDB_ASSIGN_OR_RETURN(const auto manager, ckptdb::CheckpointManager::Open(
                                                  OptionsFor(arguments[1], own),
                                                  &state, std::move(ranks)));
  CKPTDB_ASSIGN_OR_RETURN(const auto start, manager->RestoreOrStart());
  if (own->is_owner()) std::fprintf(stderr, "%s\n", start.ToString().c_str());
  // [end]
  while (manager->global_step() < std::atoll(arguments[2])) {
    const int64_t step = manager->global_step() + 1;
    CKPTDB_ASSIGN_OR_RETURN(const auto metrics, Step(step, own, model));
    // [checkpoints]
    users.MarkUpserted(model->changed_users);
    CKPTDB_RETURN_IF_ERROR(items.MarkUpserted(model->changed_items));
    if (sigterm.exchange(false)) manager->SetPreempted();
    CKPTDB_ASSIGN_OR_RETURN(const auto outcome, manager->Step(metrics));
    if (outcome.preempted) break;
    // [end]
    if (own->rank() + 1 != own->size() || arguments[4] == nullptr) continue;
    if (step == std::atoll(arguments[5])) std::raise(std::atoi(arguments[4]));
  }
  // [checkpoints]
  return manager->FinishTraining();
}
// [end]

uint64_t Digest(int64_t id, const Vector& row) {
  auto hash = uint64_t(id);
  for (const float v : row) hash = MixId(hash + std::bit_cast<int>(v));
  return hash;
}

absl::Status Run(char** arguments, Ranks* own) {
  Model model;
  for (uint64_t i = 0; i < kItems; ++i) model.items.push_back(NewRow(i));
  CKPTDB_RETURN_IF_ERROR(Train(arguments, own, &model));
  uint64_t digest = own->is_owner() ? Digest(kLayer, model.layer) : 0;
  for (const auto& [id, row] : model.users) digest += Digest(id, row);
  for (size_t id = own->rank(); id < kItems; id += own->size()) {
    digest += Digest(int64_t(id), model.items[id]);
  }
  CKPTDB_ASSIGN_OR_RETURN(digest, examples::Sum(own, "digests", digest));
  if (own->is_owner()) std::printf("digest %016lx\n", digest);
  return absl::OkStatus();
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 4 && argc != 6) {
    std::fputs("usage: two_tower STORE STEPS RANKS [SIGNAL STEP]\n", stderr);
    return 2;
  }
  std::signal(SIGTERM, [](int /*signal*/) { sigterm = true; });
  return examples::RunRanks({"two_tower", std::atoi(argv[3])},
                            [argv](Ranks* own) { return Run(argv, own); });
}
