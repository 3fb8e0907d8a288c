// SPDX-License-Identifier: Apache-2.0
#include "tests/manager/ranks/rank_network.h"

#include <atomic>
#include <chrono>
#include <random>
#include <set>
#include <stdexcept>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/time/clock.h"

namespace ckptdb::testing {

class RankNetwork::Member : public Coordinator::Transport {
 public:
  Member(RankNetwork* network, uint32_t rank, uint32_t world_size)
      : network_(network), rank_(rank), world_size_(world_size) {}

  uint32_t rank() const override { return rank_; }
  uint32_t world_size() const override { return world_size_; }
  size_t unsent() const override { return 0; }
  absl::StatusOr<std::vector<Message>> Exchange(
      std::vector<Message> outgoing, absl::Time /*give_up*/) override {
    return network_->Exchange(rank_, std::move(outgoing));
  }

 private:
  RankNetwork* const network_;
  const uint32_t rank_;
  const uint32_t world_size_;
};

RankNetwork::RankNetwork(uint32_t world_size, NetworkFaults faults)
    : faults_(faults), ranks_(world_size) {}

std::unique_ptr<Coordinator::Transport> RankNetwork::Join(uint32_t rank) {
  const internal::MutexLock lock(&mutex_);
  return std::make_unique<Member>(this, rank,
                                  static_cast<uint32_t>(ranks_.size()));
}

bool RankNetwork::IsDead(uint32_t rank) {
  const internal::MutexLock lock(&mutex_);
  return ranks_[rank].dead;
}

NetworkTraffic RankNetwork::TrafficOf(uint32_t rank) {
  const internal::MutexLock lock(&mutex_);
  return ranks_[rank].traffic;
}

absl::StatusOr<std::vector<Coordinator::Transport::Message>>
RankNetwork::Exchange(uint32_t rank, std::vector<Message> outgoing) {
  const internal::MutexLock lock(&mutex_);
  for (Message& message : outgoing) Post(rank, std::move(message));
  if (ranks_[rank].dead) {
    return absl::UnavailableError(absl::StrCat("rank ", rank, " was killed"));
  }
  std::vector<Message> incoming;
  auto& mailbox = ranks_[rank].mailbox;
  while (!mailbox.empty() && mailbox.begin()->first <= absl::Now()) {
    incoming.push_back(std::move(mailbox.begin()->second));
    mailbox.erase(mailbox.begin());
  }
  return incoming;
}

void RankNetwork::Post(uint32_t from, Message message) {
  Rank& sender = ranks_[from];
  if (faults_.killed == from && sender.sent++ >= faults_.after_messages) {
    sender.dead = true;
  }
  const uint32_t to = message.rank;
  for (const uint32_t rank : {from, to}) {
    ++ranks_[rank].traffic.messages;
    ranks_[rank].traffic.bytes += message.bytes->size();
  }
  std::seed_seq seed{faults_.seed, uint64_t{from}, uint64_t{to},
                     sender.sent_to[to]++};
  std::mt19937_64 random(seed);
  if (sender.dead || ranks_[to].dead) return;
  const auto happens = [&](double probability) {
    return std::bernoulli_distribution(probability)(random);
  };
  const int copies =
      (happens(faults_.lost) ? 0 : 1) + (happens(faults_.duplicated) ? 1 : 0);
  message.rank = from;
  for (int i = 0; i < copies; ++i) {
    const double part = std::uniform_real_distribution<double>(0, 1)(random);
    ranks_[to].mailbox.emplace(absl::Now() + faults_.max_delay * part, message);
  }
}

CollectiveGroup::CollectiveGroup(uint32_t world_size)
    : world_size_(world_size) {
  collectives_.of_rank.resize(world_size);
  started_.of_rank.resize(world_size);
}

Coordinator::Collectives CollectiveGroup::Join(uint32_t rank) {
  Coordinator::Collectives group;
  group.rank = rank;
  group.world_size = world_size_;
  group.all_gather = [this, rank](std::string own) {
    return Meet(rank, "all_gather",
                std::vector<std::string>(world_size_, std::move(own)));
  };
  group.broadcast = [this,
                     rank](std::string value) -> absl::StatusOr<std::string> {
    auto values = Meet(rank, "broadcast",
                       std::vector<std::string>(world_size_, std::move(value)));
    if (!values.ok()) return values.status();
    return values->front();
  };
  group.all_to_all = [this, rank](std::vector<std::string> values) {
    return Meet(rank, "all_to_all", std::move(values));
  };
  group.abort = [this](const absl::Status& why) { Abort(why); };
  group.start_all_gather = [this, rank](std::string own) {
    const internal::MutexLock lock(&mutex_);
    const auto number =
        Enter(rank, "start_all_gather",
              std::vector<std::string>(world_size_, std::move(own)), &started_);
    return [this, rank, number] {
      const internal::MutexLock wait_lock(&mutex_);
      return Await(rank, number, &started_);
    };
  };
  return group;
}

// values[r] is for rank r; returns each rank's value for this one.
absl::StatusOr<std::vector<std::string>> CollectiveGroup::Meet(
    uint32_t rank, const std::string& function,
    std::vector<std::string> values) {
  const internal::MutexLock lock(&mutex_);
  if (!aborted_.ok()) return aborted_;
  const uint64_t number =
      Enter(rank, function, std::move(values), &collectives_);
  const std::string& met = collectives_.rounds[number].function;
  if (met != function) {
    return absl::InternalError(absl::StrCat(function, " meets ", met));
  }
  return Await(rank, number, &collectives_);
}

uint64_t CollectiveGroup::Enter(uint32_t rank, const std::string& function,
                                std::vector<std::string> values,
                                Rounds* rounds) {
  const uint64_t number = rounds->of_rank[rank]++;
  Round& round = rounds->rounds[number];
  if (round.values.empty()) round.function = function;
  if (round.function == function) round.values[rank] = std::move(values);
  changed_.NotifyAll();
  return number;
}

absl::StatusOr<std::vector<std::string>> CollectiveGroup::Await(
    uint32_t rank, uint64_t number, Rounds* rounds) {
  Round& round = rounds->rounds[number];
  while (round.values.size() < world_size_ && aborted_.ok()) {
    changed_.Wait(&mutex_);
  }
  if (round.values.size() < world_size_) return aborted_;
  std::vector<std::string> mine;
  for (const auto& [from, sent] : round.values) mine.push_back(sent[rank]);
  return mine;
}

void CollectiveGroup::Abort(const absl::Status& why) {
  const internal::MutexLock lock(&mutex_);
  if (!aborted_.ok()) return;
  std::set<uint32_t> missing;
  for (const Rounds* rounds : {&collectives_, &started_}) {
    if (rounds->rounds.empty()) continue;
    for (uint32_t rank = 0; rank < world_size_; ++rank) {
      const Round& last = rounds->rounds.rbegin()->second;
      if (!last.values.contains(rank)) missing.insert(rank);
    }
  }
  aborted_ = absl::Status(why.code(),
                          absl::StrCat(why.message(), "; not there were ranks ",
                                       absl::StrJoin(missing, ", ")));
  changed_.NotifyAll();
}

namespace {

// The calls of one rank, counted over all functions and threads.
struct Disturbance {
  Disturbance(CollectiveFaults given, const Coordinator::Collectives& group)
      : faults(std::move(given)), abort(group.abort), random(faults.seed) {}

  CollectiveFaults faults;
  std::function<void(const absl::Status&)> abort;
  internal::Mutex mutex;
  std::mt19937_64 random ABSL_GUARDED_BY(mutex);
  uint64_t calls ABSL_GUARDED_BY(mutex) = 0;
  std::atomic<bool> dead = false;

  bool FailsNext() {
    const internal::MutexLock lock(&mutex);
    return calls++ == faults.at_call;
  }

  template <typename Call>
  auto Run(Call call) -> decltype(call()) {
    Delay();
    using Kind = CollectiveFaults::Kind;
    if (dead) return absl::UnavailableError("killed");
    if (!FailsNext()) return call();
    switch (faults.kind) {
      case Kind::kFailBefore:
        return absl::UnavailableError("the network is down");
      case Kind::kFailAfter:
        call().status().IgnoreError();
        return absl::UnavailableError("the network is down");
      case Kind::kThrow:
        throw std::runtime_error("the network is down");
      case Kind::kDie:
        dead = true;
        return absl::UnavailableError("killed");
      case Kind::kWrongCount:
        break;
    }
    auto result = call();
    if (result.ok()) result->resize(0);
    return result;
  }

  void Delay() {
    std::uniform_real_distribution<double> part(0, 1);
    internal::ConditionVariable never;
    const internal::MutexLock lock(&mutex);
    const absl::Time end = absl::Now() + faults.max_delay * part(random);
    while (absl::Now() < end) never.WaitUntil(&mutex, absl::ToChronoTime(end));
  }
};

}  // namespace

Coordinator::Collectives Disturb(Coordinator::Collectives collectives,
                                 const CollectiveFaults& faults) {
  const auto state = std::make_shared<Disturbance>(faults, collectives);
  Coordinator::Collectives disturbed = collectives;
  disturbed.all_gather = [=](const std::string& own) {
    return state->Run([&] { return collectives.all_gather(own); });
  };
  disturbed.broadcast = [=](const std::string& value) {
    return state->Run([&] { return collectives.broadcast(value); });
  };
  disturbed.all_to_all = [=](const std::vector<std::string>& values) {
    return state->Run([&] { return collectives.all_to_all(values); });
  };
  disturbed.start_all_gather = [=](const std::string& own) {
    using Values = std::vector<std::string>;
    std::function<absl::StatusOr<Values>()> wait;
    const absl::StatusOr<Values> started =
        state->Run([&]() -> absl::StatusOr<Values> {
          wait = collectives.start_all_gather(own);
          return Values(1);
        });
    const bool wrong_count = started.ok() && started->empty();
    if (!started.ok() || wrong_count) wait = [=] { return started; };
    return wait;
  };
  // A dead rank aborts nothing.
  disturbed.abort = [=](const absl::Status& why) {
    if (!state->dead) collectives.abort(why);
  };
  return disturbed;
}

}  // namespace ckptdb::testing
