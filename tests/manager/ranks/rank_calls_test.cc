// SPDX-License-Identifier: Apache-2.0
// Simulates, from a seed and in simulated time, calls of ranks whose messages
// are delayed, lost, duplicated and reordered, and one of which stops or dies.
#include "manager/ranks/rank_calls.h"

#include <optional>
#include <random>

#include "absl/strings/match.h"
#include "absl/strings/string_view.h"
#include "manager/coordinator.h"
#include "manager/ranks/packed_values.h"
#include "tests/support/long_run.h"
#include "tests/support/seed.h"
#include "tests/support/test.h"

namespace ckptdb::testing {
namespace {

using internal::CallKind;
using internal::CallMessage;
using internal::CallResult;
using internal::RankCalls;

constexpr absl::Duration kTick = absl::Milliseconds(5);
constexpr absl::Duration kDeadline = absl::Seconds(4);
constexpr int kCalls = 12;

// The faults of a simulated world.
struct Faults {
  uint32_t world_size = 1;
  double lost = 0;
  double duplicated = 0;
  int max_delay_ms = 0;
  // The rank that stops before a call for longer than the deadline, or dies
  // after that many messages.
  std::optional<uint32_t> stopped;
  std::optional<uint32_t> killed;
  int at_call = 0;
  int after_messages = 0;
};

class World {
 public:
  World(const Faults& faults, uint64_t seed) : faults_(faults), random_(seed) {
    for (int i = 0; i < kCalls; ++i) {
      kinds_.push_back(static_cast<CallKind>(Draw(7)));
    }
    ranks_.resize(faults.world_size);
    for (uint32_t r = 0; r < faults.world_size; ++r) {
      ranks_[r].outbox = std::make_unique<Outbox>(this, r);
      RankCalls::Outbox* const outbox = ranks_[r].outbox.get();
      ranks_[r].calls =
          r == kOwnerRank
              ? internal::NewOwnerCalls(faults.world_size, outbox)
              : internal::NewFollowerCalls(r, faults.world_size, outbox);
    }
  }

  void Run() {
    const absl::Time end = now_ + kCalls * kCalls * kDeadline;
    while (now_ < end && !AllDone()) {
      now_ += kTick;
      for (uint32_t r = 0; r < ranks_.size(); ++r) RunRank(r);
    }
    EXPECT_TRUE(AllDone()) << "a rank hangs";
    if (AllDone()) CheckOutcomes();
  }

 private:
  class Outbox : public RankCalls::Outbox {
   public:
    Outbox(World* world, uint32_t rank) : world_(world), rank_(rank) {}
    Bytes Send(uint32_t to, CallMessage message) override {
      const auto bytes = std::make_shared<const std::string>(Encode(message));
      world_->Post(rank_, to, *bytes);
      return bytes;
    }
    void SendAgain(uint32_t to, Bytes bytes) override {
      world_->Post(rank_, to, *bytes);
    }

   private:
    World* const world_;
    const uint32_t rank_;
  };

  struct Rank {
    std::unique_ptr<Outbox> outbox;
    std::unique_ptr<RankCalls> calls;
    bool dead = false;
    bool in_call = false;
    bool waits = false;  // in the call
    absl::Time waits_at;
    absl::Time begun;
    absl::Time begins;  // the next call
    int sent = 0;
    std::vector<CallResult> results;
    std::multimap<absl::Time, std::pair<uint32_t, std::string>> mailbox;
  };

  int Draw(int below) {
    return std::uniform_int_distribution<int>(0, below - 1)(random_);
  }
  bool Happens(double probability) {
    return std::bernoulli_distribution(probability)(random_);
  }

  void Post(uint32_t from, uint32_t to, const std::string& bytes) {
    for (uint32_t r = 0; r < ranks_.size(); ++r) {
      if (r != from && (to == internal::kAllOthers || to == r)) {
        PostTo(from, r, bytes);
      }
    }
  }
  void PostTo(uint32_t from, uint32_t to, const std::string& bytes) {
    if (ranks_[from].dead) return;
    if (faults_.killed == from &&
        ++ranks_[from].sent > faults_.after_messages) {
      ranks_[from].dead = true;
      return;
    }
    const int copies =
        (Happens(faults_.lost) ? 0 : 1) + (Happens(faults_.duplicated) ? 1 : 0);
    for (int i = 0; i < copies; ++i) {
      const auto delay = absl::Milliseconds(Draw(faults_.max_delay_ms + 1));
      ranks_[to].mailbox.emplace(now_ + delay, std::make_pair(from, bytes));
    }
  }

  // A rank outside of a call receives no messages, but one that is done does,
  // as it would in its next call.
  void RunRank(uint32_t r) {
    Rank& rank = ranks_[r];
    if (rank.dead) return;
    const bool done = rank.results.size() == kCalls;
    if (!rank.in_call && !done && now_ >= rank.begins) Begin(r, &rank);
    if (!rank.in_call && !done) return;
    if (rank.in_call && !rank.waits && !BeginsToWait(r, &rank)) return;
    Receive(&rank);
    rank.calls->Advance(now_);
    if (rank.dead || !rank.in_call || !rank.calls->is_over()) return;
    const absl::Duration deadline = DeadlineOf(r, rank.results.size());
    EXPECT_LE(now_ - rank.begun,
              deadline + internal::GraceOf(deadline) + 2 * kTick);
    rank.results.push_back(rank.calls->Take());
    rank.in_call = false;
    rank.begins = now_ + absl::Milliseconds(Draw(50));
    if (faults_.stopped == r &&
        rank.results.size() == static_cast<size_t>(faults_.at_call)) {
      rank.begins = now_ + 2 * kDeadline;
    }
  }

  // A rank sometimes polls between the two parts of an all-gather.
  bool BeginsToWait(uint32_t r, Rank* rank) {
    if (now_ < rank->waits_at) {
      if (!Happens(0.1)) return false;
      Receive(rank);
      rank->calls->Advance(now_);
      return false;
    }
    rank->waits = true;
    rank->begun = now_;
    rank->calls->Wait(now_, DeadlineOf(r, rank->results.size()));
    return true;
  }

  // Waits as AfterGather does: the owner may be late, or still in the Gathers
  // just before this call.
  absl::Duration DeadlineOf(uint32_t r, size_t number) const {
    absl::Duration deadline = kDeadline;
    for (size_t i = number; r != kOwnerRank && i > 0; --i) {
      if (kinds_[i - 1] != CallKind::kGather) break;
      deadline += 2 * kDeadline;
    }
    return deadline;
  }

  void Begin(uint32_t r, Rank* rank) {
    const size_t number = rank->results.size();
    internal::CallRequest request;
    request.kind = kinds_[number];
    request.call =
        internal::DescribeCall(request.kind, absl::StrCat("call ", number));
    request.value = absl::StrCat(r, ".", number);
    for (uint32_t to = 0; to < faults_.world_size; ++to) {
      request.values.push_back(ValueOf(r, to, number));
    }
    request.now = now_;
    request.deadline = DeadlineOf(r, number);
    rank->in_call = true;
    rank->begun = now_;
    rank->waits = request.kind != CallKind::kAllGather;
    if (!rank->waits) {
      request.deadline = absl::InfiniteDuration();
      rank->waits_at = now_ + absl::Milliseconds(Draw(100));
      // The stopping rank may also stop here.
      if (faults_.stopped == r && Happens(0.3)) {
        rank->waits_at = now_ + 2 * kDeadline;
      }
    }
    rank->calls->Begin(std::move(request));
  }

  // A few ranks' values are large, and some are empty.
  static std::string ValueOf(uint32_t from, uint32_t to, size_t number) {
    if ((from + to + number) % 5 == 0) return "";
    const std::string value = absl::StrCat(from, " to ", to, ".", number);
    const bool large = number % 5 == 1 && from < 8 && to < 8;
    return large ? value + std::string(10'000, 'x') : value;
  }

  void Receive(Rank* rank) {
    while (!rank->mailbox.empty() && rank->mailbox.begin()->first <= now_) {
      const auto [from, bytes] = rank->mailbox.begin()->second;
      rank->mailbox.erase(rank->mailbox.begin());
      CallMessage message;
      ASSERT_OK(Decode(bytes, &message));
      rank->calls->OnMessage(from, std::move(message));
    }
  }

  bool AllDone() const {
    for (const Rank& rank : ranks_) {
      if (!rank.dead && rank.results.size() < kCalls) return false;
    }
    return true;
  }

  void CheckOutcomes() const {
    for (size_t number = 0; number < kCalls; ++number) {
      SCOPED_TRACE(absl::StrCat("call ", number, ", kind ",
                                static_cast<int>(kinds_[number])));
      std::optional<absl::Status> all;
      for (uint32_t r = 0; r < ranks_.size(); ++r) {
        if (ranks_[r].dead) continue;
        // Ranks other than the owner do not wait for a Gather.
        if (kinds_[number] == CallKind::kGather && r != kOwnerRank) continue;
        SCOPED_TRACE(absl::StrCat("rank ", r));
        const CallResult& result = ranks_[r].results[number];
        if (!all.has_value()) all = result.status;
        // No other rank can deliver the owner's value for a rank.
        if (kinds_[number] != CallKind::kTellEach ||
            faults_.killed != kOwnerRank) {
          EXPECT_EQ(result.status, *all);
        }
        CheckResult(r, number, result);
      }
    }
  }

  // Returns whether an error names the rank that is gone or late, and no other.
  bool Names(const absl::Status& status, uint32_t gone) const {
    return absl::StartsWith(status.message(),
                            absl::StrCat("ranks ", gone, " of ",
                                         faults_.world_size, " did not reach"));
  }

  void CheckResult(uint32_t r, size_t number, const CallResult& result) const {
    if (!result.status.ok()) {
      EXPECT_EQ(result.status.code(), absl::StatusCode::kDeadlineExceeded);
      const std::optional<uint32_t> gone =
          faults_.killed.has_value() ? faults_.killed : faults_.stopped;
      ASSERT_TRUE(gone.has_value()) << result.status;
      EXPECT_TRUE(Names(result.status, *gone)) << result.status;
      return;
    }
    const CallKind kind = kinds_[number];
    for (uint32_t from = 0;
         kind == CallKind::kAllGather && from < faults_.world_size; ++from) {
      EXPECT_EQ(internal::UnpackValue(result.value, from).value(),
                absl::StrCat(from, ".", number));
    }
    if (kind == CallKind::kBroadcast || kind == CallKind::kTell) {
      EXPECT_EQ(result.value, absl::StrCat("0.", number));
    } else if (kind == CallKind::kTellEach) {
      EXPECT_EQ(result.value, ValueOf(kOwnerRank, r, number));
    }
    const bool gathers = kind == CallKind::kGather && r == kOwnerRank;
    if (!gathers && kind != CallKind::kAllToAll) {
      EXPECT_EQ(result.values.size(), 0U);
      return;
    }
    ASSERT_EQ(result.values.size(), faults_.world_size);
    for (uint32_t from = 0; from < faults_.world_size; ++from) {
      EXPECT_EQ(result.values[from], gathers ? absl::StrCat(from, ".", number)
                                             : ValueOf(from, r, number));
    }
  }

  const Faults faults_;
  std::mt19937_64 random_;
  absl::Time now_ = absl::UnixEpoch();
  std::vector<CallKind> kinds_;
  std::vector<Rank> ranks_;
};

Faults DrawFaults(uint32_t world_size, std::mt19937_64* random) {
  const auto draw = [&](int below) {
    return std::uniform_int_distribution<int>(0, below - 1)(*random);
  };
  Faults faults;
  faults.world_size = world_size;
  faults.lost = std::vector<double>{0, 0.05, 0.15}[size_t(draw(3))];
  faults.duplicated = std::vector<double>{0, 0.3}[size_t(draw(2))];
  faults.max_delay_ms = std::vector<int>{0, 20, 200}[size_t(draw(3))];
  const auto rank = static_cast<uint32_t>(draw(static_cast<int>(world_size)));
  const int what = draw(3);
  if (what == 1) faults.stopped = rank;
  if (what == 2) faults.killed = rank;
  // If the outcome is lost and the owner has stopped or died, nobody is left to
  // ask: two processes cannot agree then.
  if (what != 0 && rank == kOwnerRank) faults.lost = 0;
  faults.at_call = draw(kCalls);
  faults.after_messages = draw(40);
  return faults;
}

void PlayWorld(const Faults& faults, uint64_t seed) {
  SCOPED_TRACE(absl::StrCat(
      "world size ", faults.world_size, ", lost ", faults.lost, ", duplicated ",
      faults.duplicated, ", delay ", faults.max_delay_ms, " ms, stopped ",
      faults.stopped.has_value() ? absl::StrCat(*faults.stopped) : "none",
      " at call ", faults.at_call, ", killed ",
      faults.killed.has_value() ? absl::StrCat(*faults.killed) : "none",
      " after ", faults.after_messages));
  World(faults, seed).Run();
}

void PlayWorlds(uint32_t world_size, int rounds) {
  for (int round = 0; round < rounds; ++round) {
    const uint64_t seed =
        TestSeed() + uint64_t(world_size) * 1'000'003 + uint64_t(round);
    std::mt19937_64 random(seed);
    const Faults faults = DrawFaults(world_size, &random);
    SCOPED_TRACE(absl::StrCat("round ", round));
    PlayWorld(faults, random());
    if (::testing::Test::HasFailure()) return;
  }
}

class RankCallsTest : public ::testing::TestWithParam<uint32_t> {};

TEST_P(RankCallsTest, AllLivingRanksReturnTheSameOutcome) {
  PlayWorlds(GetParam(), kSanitized ? 15 : 60);
}

INSTANTIATE_TEST_SUITE_P(Worlds, RankCallsTest,
                         ::testing::Range(uint32_t{1}, uint32_t{17}));

// The owner dies while it sends many ranks the outcome of a call: only a few
// may know it, far from the others.
TEST(ManyRankCalls, AnyRankThatKnowsTheOutcomeSpreadsIt) {
  std::mt19937_64 random(TestSeed());
  for (const uint32_t world_size : {40U, 100U, 200U}) {
    // Threads of 200 ranks take minutes under ThreadSanitizer.
    if (kSanitized && !IsLongRun() && world_size > 40) break;
    for (int round = 0; round < (kSanitized ? 1 : 4); ++round) {
      Faults faults;
      faults.world_size = world_size;
      faults.max_delay_ms = 20;
      faults.killed = kOwnerRank;
      faults.after_messages = 1 + static_cast<int>(random() % (2 * world_size));
      PlayWorld(faults, random());
      if (HasFailure()) return;
    }
  }
}

TEST(CallMessage, RejectsEveryTruncation) {
  CallMessage message;
  message.channel = "/0";
  message.call = "gather part";
  message.status = absl::NotFoundError("gone");
  message.value = std::string("\0value", 6);
  const std::string bytes = Encode(message);
  for (size_t length = 0; length < bytes.size(); ++length) {
    CallMessage decoded;
    EXPECT_THAT(
        internal::Decode(absl::string_view(bytes).substr(0, length), &decoded),
        Internal(absl::StrCat(length, " bytes")));
  }
  CallMessage decoded;
  ASSERT_OK(internal::Decode(bytes, &decoded));
  EXPECT_EQ(decoded.status, message.status);
  EXPECT_EQ(decoded.value, message.value);
}

}  // namespace
}  // namespace ckptdb::testing
