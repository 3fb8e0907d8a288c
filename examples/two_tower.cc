// A two-tower recommender on several ranks, which are threads here: a table of
// users in a hash map, one of items in an array, a dense layer between them.
//
//   two_tower STORE STEPS RANKS [SIGNAL STEP]
//
// Goes on from the newest step of STORE, on any number of ranks. SIGTERM ends
// it with a save; to try that out, SIGNAL is raised after STEP. The same steps
// end with the same digest, however often it was killed or preempted.
#include <ckptdb/ckptdb.h>

#include <array>
#include <atomic>
#include <barrier>
#include <bit>
#include <cmath>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <thread>
#include <unordered_map>
#include <vector>

namespace {

constexpr size_t kDim = 8;
constexpr uint64_t kUsers = 4000, kItems = 1000, kExamples = 256;
constexpr float kRate = 0.1f;
using Vector = std::array<float, kDim>;

// The gradients of a step of a rank, and its part of those of other ranks.
struct Gradients {
  std::vector<int64_t> user_ids, item_ids;
  std::map<int64_t, Vector> items;
  Vector layer = {};
  double loss = 0;
};

// The users and items whose id % ranks is the rank's number, and a layer that
// is the same on all.
struct Rank {
  std::unordered_map<int64_t, Vector> users;
  std::vector<Vector> items = std::vector<Vector>(kItems);
  Vector layer = {1, 1, 1, 1, 1, 1, 1, 1};
  Gradients step;
};

std::atomic<bool> sigterm = false;
void OnSigterm(int /*signal*/) { sigterm = true; }

Vector NewRow(uint64_t id) {
  Vector row;
  for (float& value : row) {
    id = ckptdb::MixId(id + 1);
    value = static_cast<float>(id % 1000) / 1000 - 0.5f;
  }
  return row;
}

// A user clicks on the items of one kind.
void TrainExample(int64_t user_id, int64_t item_id, const Vector& i,
                  Rank* rank) {
  Vector& u = rank->users.try_emplace(user_id, NewRow(user_id)).first->second;
  float score = 0;
  for (size_t d = 0; d < kDim; ++d) score += rank->layer[d] * u[d] * i[d];
  const float label = user_id % 5 == item_id % 5 ? 1 : 0;
  const float error = 1 / (1 + std::exp(-score)) - label;
  for (size_t d = 0; d < kDim; ++d) {
    rank->step.items[item_id][d] += error * rank->layer[d] * u[d];
    rank->step.layer[d] += error * u[d] * i[d];
    u[d] -= kRate * error * rank->layer[d] * i[d];
  }
  rank->step.user_ids.push_back(user_id);
  rank->step.loss += error * error / kExamples;
}

// One step of all ranks together. Returns its mean loss.
double TrainStep(uint64_t step, uint32_t number, std::vector<Rank>* ranks,
                 std::barrier<>* together) {
  Rank& own = (*ranks)[number];
  own.step = {};
  for (uint64_t example = 0; example < kExamples; ++example) {
    const uint64_t random = ckptdb::MixId(step * kExamples + example);
    const uint64_t user = random % kUsers, item = random / kUsers % kItems;
    if (user % ranks->size() != number) continue;
    const Rank& owner = (*ranks)[item % ranks->size()];
    TrainExample(user, item, owner.items[item], &own);
  }
  together->arrive_and_wait();
  double loss = 0;
  for (const Rank& other : *ranks) {
    for (const auto& [id, gradient] : other.step.items) {
      if (id % ranks->size() != number) continue;
      for (size_t d = 0; d < kDim; ++d) own.items[id][d] -= kRate * gradient[d];
      own.step.item_ids.push_back(id);
    }
    for (size_t d = 0; d < kDim; ++d) {
      own.layer[d] -= kRate / kExamples * other.step.layer[d];
    }
    loss += other.step.loss;
  }
  together->arrive_and_wait();
  return loss;
}

// [checkpoints]
ckptdb::ManagerOptions OptionsFor(const char* path) {
  ckptdb::ManagerOptions options;
  options.path = path;
  options.sharding = ckptdb::TableSharding::ByModulo();
  options.best = {.metric = "loss", .lower_is_better = true};
  options.schedule.permanent = ckptdb::SaveEveryNSteps(20);
  options.retention.keep = ckptdb::LatestN(2) | ckptdb::BestN(*options.best);
  return options;
}
// [end]

absl::Status TrainRank(char** arguments, uint32_t number,
                       std::unique_ptr<ckptdb::Coordinator> coordinator,
                       std::vector<Rank>* ranks, std::barrier<>* together) {
  Rank& own = (*ranks)[number];
  // [checkpoints]
  ckptdb::MapTable users(&own.users, {ckptdb::Field("embedding")});
  ckptdb::VectorTable items(
      kItems, {ckptdb::Array("embedding", own.items[0].data(), kDim)}, {},
      [&](int64_t id) { return id % ranks->size() == number; });
  ckptdb::ModelState model;
  CKPTDB_RETURN_IF_ERROR(model.AddTable("user", &users));
  CKPTDB_RETURN_IF_ERROR(model.AddTable("item", &items));
  CKPTDB_RETURN_IF_ERROR(model.AddTensor(
      "layer", ckptdb::TensorState::Of(own.layer.data(), {kDim})));
  CKPTDB_ASSIGN_OR_RETURN(
      const auto manager,
      ckptdb::CheckpointManager::Open(OptionsFor(arguments[1]), &model,
                                      std::move(coordinator)));
  absl::Status restored = manager->Restore().status();
  if (!restored.ok() && !absl::IsNotFound(restored)) return restored;
  // [end]
  together->arrive_and_wait();
  while (manager->global_step() < std::atoll(arguments[2])) {
    const int64_t step = manager->global_step() + 1;
    const double loss = TrainStep(step, number, ranks, together);
    // [checkpoints]
    users.MarkUpserted(own.step.user_ids);
    CKPTDB_RETURN_IF_ERROR(items.MarkUpserted(own.step.item_ids));
    if (sigterm.exchange(false)) manager->SetPreempted();
    CKPTDB_ASSIGN_OR_RETURN(const auto outcome,
                            manager->Step({{"loss", loss}}));
    if (outcome.preempted) break;
    // [end]
    if (number != 0 || arguments[4] == nullptr) continue;
    if (step == std::atoll(arguments[5])) std::raise(std::atoi(arguments[4]));
  }
  // [checkpoints]
  return manager->FinishTraining();
  // [end]
}

uint64_t Digest(int64_t id, const Vector& values) {
  auto hash = static_cast<uint64_t>(id);
  for (const float value : values) {
    hash = ckptdb::MixId(hash + std::bit_cast<uint32_t>(value));
  }
  return hash;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 4 && argc != 6) return 2;
  std::signal(SIGTERM, OnSigterm);
  std::vector<Rank> ranks(std::strtoul(argv[3], nullptr, 10));
  ckptdb::ThreadGroup group(static_cast<uint32_t>(ranks.size()));
  std::barrier<> together(static_cast<ptrdiff_t>(ranks.size()));
  std::vector<std::thread> threads;
  for (uint32_t number = 0; number < ranks.size(); ++number) {
    threads.emplace_back([&, number] {
      for (uint64_t i = 0; i < kItems; ++i) ranks[number].items[i] = NewRow(i);
      const absl::Status status =
          TrainRank(argv, number, group.Join(number), &ranks, &together);
      if (status.ok()) return;
      std::fprintf(stderr, "two_tower: %s\n", status.ToString().c_str());
      std::_Exit(1);
    });
  }
  for (std::thread& thread : threads) thread.join();
  uint64_t digest = Digest(-1, ranks[0].layer);
  for (size_t r = 0; r < ranks.size(); ++r) {
    for (const auto& [id, row] : ranks[r].users) {
      digest += Digest(id, row);
    }
    for (size_t id = r; id < kItems; id += ranks.size()) {
      digest += Digest(static_cast<int64_t>(id), ranks[r].items[id]);
    }
  }
  std::printf("digest %016lx\n", digest);
  return 0;
}
