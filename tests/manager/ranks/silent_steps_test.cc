// SPDX-License-Identifier: Apache-2.0
// Steps at which the ranks of a manager do not meet: which they are, that no
// save is missed, and when preemptions and errors reach all ranks.
#include <random>
#include <stdexcept>

#include "absl/strings/match.h"
#include "absl/time/clock.h"
#include "tests/manager/forwarding_coordinator.h"
#include "tests/manager/manager_fixture.h"
#include "tests/manager/run_ranks.h"
#include "tests/manager/test_options.h"
#include "tests/support/seed.h"

namespace ckptdb::testing {
namespace {

// Counts the calls of one rank's training thread, and the exchanges of notices
// that it has ended.
class CountingRanks : public ForwardingCoordinator {
 public:
  CountingRanks(std::unique_ptr<Coordinator> ranks, int* calls)
      : ForwardingCoordinator(std::move(ranks)), calls_(*calls) {}
  absl::Status Barrier(absl::string_view tag, absl::Duration wait) override {
    ++calls_;
    return ForwardingCoordinator::Barrier(tag, wait);
  }
  absl::StatusOr<std::string> Broadcast(absl::string_view tag,
                                        std::string value,
                                        absl::Duration wait) override {
    ++calls_;
    return ForwardingCoordinator::Broadcast(tag, std::move(value), wait);
  }
  absl::StatusOr<std::vector<std::string>> Gather(
      absl::string_view tag, std::string value, absl::Duration wait) override {
    ++calls_;
    return ForwardingCoordinator::Gather(tag, std::move(value), wait);
  }
  // A manager's second duplicate exchanges notices.
  absl::StatusOr<std::unique_ptr<Coordinator>> Duplicate() override {
    CKPTDB_ASSIGN_OR_RETURN(auto other, ForwardingCoordinator::Duplicate());
    if (++duplicates_ < 2) return other;
    return std::make_unique<CountingRanks>(std::move(other), &calls_);
  }

 private:
  int& calls_;
  int duplicates_ = 0;
};

// One rank, with the steps at which it met the others or ended an exchange of
// notices.
struct MeetingRank {
  absl::StatusOr<StepOutcome> StepTo(int64_t step) {
    model.Train(step);
    const int before = calls;
    absl::StatusOr<StepOutcome> outcome = manager->StepTo(step);
    if (calls > before) met.push_back(step);
    return outcome;
  }
  absl::StatusOr<StepOutcome> Step() {
    return StepTo(manager->global_step() + 1);
  }
  void TrainTo(int64_t step) {
    while (manager->global_step() < step) ASSERT_OK(Step());
  }
  // Whether the next step is a meeting.
  bool MeetsNext() {
    EXPECT_OK(Step());
    return met.back() == manager->global_step();
  }
  bool is_owner() const { return rank == kOwnerRank; }

  uint32_t rank = 0;
  int calls = 0;
  std::vector<int64_t> met;
  TestModel model;
  std::unique_ptr<CheckpointManager> manager;
};

class SilentStepsTest : public ManagerTest {
 protected:
  void SetUp() override {
    ManagerTest::SetUp();
    options_.observers.on_saved = nullptr;
    options_.observers.on_warning = [](const std::string&) {};
    options_.ranks.sharding = TableSharding::ByModulo();
    options_.schedule.permanent = SaveAtSteps({});
    // The number of steps between meetings does not depend on their duration.
    options_.ranks.notice_interval = absl::Hours(10);
    options_.ranks.deadline = absl::Hours(10);
  }

  // Runs `body` on each rank, and returns the steps at which they met.
  std::vector<int64_t> Run(uint32_t world,
                           const std::function<void(MeetingRank*)>& body) {
    std::vector<std::vector<int64_t>> met(world);
    const auto run = [&](uint32_t r, auto ranks) -> absl::Status {
      MeetingRank rank;
      rank.rank = r;
      rank.model.owns = [=](int64_t id) { return id % world == r; };
      ManagerOptions options = options_;
      if (r != kOwnerRank) options.ranks.notice_interval = absl::Seconds(3);
      CKPTDB_ASSIGN_OR_RETURN(
          rank.manager,
          CheckpointManager::Open(
              options, &rank.model.state,
              std::make_unique<CountingRanks>(std::move(ranks), &rank.calls)));
      body(&rank);
      met[r] = rank.met;
      return rank.manager->Close();
    };
    EXPECT_THAT(OnRanks(world, run), Each(IsOk()));
    EXPECT_THAT(met, Each(met[0]));
    return met[0];
  }
};

TEST_F(SilentStepsTest, RanksMeetAtFirstAndWhereAStepIsDue) {
  options_.schedule.permanent = SaveEveryNSteps(50);
  EXPECT_THAT(Run(3, [](MeetingRank* rank) { rank->TrainTo(120); }),
              ElementsAre(1, 2, 12, 50, 51, 100, 101));
  EXPECT_THAT(Steps(), ElementsAre(50, 100));
}

TEST_F(SilentStepsTest, RanksMeetRarely_WhenNoStepIsDue) {
  EXPECT_THAT(Run(4, [](MeetingRank* rank) { rank->TrainTo(3000); }),
              ElementsAre(1, 2, 12, 112, 1112, 2112));
}

// Calls are counted, not steps.
TEST_F(SilentStepsTest, StepNumbersMayJump) {
  options_.schedule.permanent = SaveAtOrAfterEveryNSteps(100'000);
  const auto met = Run(2, [](MeetingRank* rank) {
    for (int64_t i = 1; i <= 30; ++i) ASSERT_OK(rank->StepTo(i * 4096));
  });
  EXPECT_THAT(met,
              ElementsAre(1 * 4096, 2 * 4096, 12 * 4096, 25 * 4096, 26 * 4096));
  EXPECT_THAT(Steps(), ElementsAre(25 * 4096));
}

TEST_F(SilentStepsTest, RanksMeetAtEachStep) {
  const auto all = [](MeetingRank* rank) { rank->TrainTo(30); };
  options_.save.enabled = false;
  EXPECT_THAT(Run(2, all), SizeIs(3));
  options_.save.enabled = true;
  options_.schedule.permanent =
      SaveIf("never", [](const SavePolicy::Context&) { return false; });
  EXPECT_THAT(Run(2, all), SizeIs(30));
  options_.schedule.permanent = SaveAtSteps({});
  options_.ranks.notice_interval = absl::ZeroDuration();
  EXPECT_THAT(Run(2, all), SizeIs(30));
}

TEST_F(SilentStepsTest, IntervalBoundsTheTimeBetweenMeetings) {
  options_.ranks.notice_interval = absl::Milliseconds(40);
  const auto met = Run(2, [](MeetingRank* rank) {
    while (rank->manager->global_step() < 60) {
      absl::SleepFor(absl::Milliseconds(10));
      ASSERT_OK(rank->Step());
    }
  });
  // At most four steps of at least 10 ms each.
  for (size_t i = 1; i < met.size(); ++i) EXPECT_LE(met[i] - met[i - 1], 4);
}

// The same with whichever number of ranks, interval, and schedule by number.
TEST_F(SilentStepsTest, SavesTheStepsThatMeetingAtEachStepSaves) {
  std::mt19937_64 random(TestSeed());
  const auto below = [&](uint64_t bound) {
    return static_cast<int64_t>(random() % bound);
  };
  const auto policy = [&] {
    const SavePolicy policies[] = {
        SaveEveryNSteps(7 + below(30)),
        SaveAtOrAfterEveryNSteps(7 + below(30)),
        SaveAtSteps({below(150), below(150), below(150)}),
        SaveInitially(),
        SaveEveryNSteps(2 + below(9)) & SaveEveryNSteps(2 + below(9)),
        SaveEveryNSteps(9) & !SaveEveryNSteps(27)};
    return policies[below(std::size(policies))] |
           policies[below(std::size(policies))];
  };
  std::map<absl::Duration, size_t> meetings;
  for (int run = 0; run < 8; ++run) {
    options_.schedule = {.permanent = policy(), .ephemeral = policy()};
    options_.schedule.ephemeral_cooldown_steps = below(30);
    options_.retention.keep_ephemeral = 1000;
    options_.save.async = below(2) == 0;
    const auto world = static_cast<uint32_t>(2 + below(3));
    const int64_t stride = 1 + below(3);
    std::vector<std::vector<std::pair<int64_t, bool>>> saved;
    for (const absl::Duration interval :
         {absl::ZeroDuration(), absl::Seconds(2), absl::Hours(10)}) {
      options_.ranks.notice_interval = interval;
      options_.path = absl::StrCat(dir_.path(), "/", run, "-", saved.size());
      const auto met = Run(world, [=](MeetingRank* rank) {
        for (int64_t step = 1; step <= 150; step += stride) {
          ASSERT_OK(rank->StepTo(step));
        }
      });
      meetings[interval] += met.size();
      saved.emplace_back();
      for (const StepRecord& record : Records()) {
        saved.back().emplace_back(record.version.step, record.ephemeral);
      }
    }
    EXPECT_THAT(saved, Each(saved[0])) << "run " << run;
  }
  EXPECT_LT(meetings[absl::Hours(10)], meetings[absl::ZeroDuration()] * 3 / 4);
}

TEST_F(SilentStepsTest, PreemptionReachesAllRanksAtTheNextMeeting) {
  options_.schedule.permanent = SaveOnPreemption();
  const auto met = Run(3, [](MeetingRank* rank) {
    rank->TrainTo(20);
    if (rank->rank == 2) rank->manager->SetPreempted();
    rank->TrainTo(111);
    EXPECT_EQ(rank->manager->preempted(), rank->rank == 2);
    ASSERT_OK_AND_ASSIGN(const StepOutcome outcome, rank->Step());
    EXPECT_TRUE(outcome.preempted);
    EXPECT_TRUE(outcome.save.has_value());
    ASSERT_OK(rank->manager->WaitUntilFinished());
    ASSERT_OK_AND_ASSIGN(const StepOutcome next, rank->Step());
    EXPECT_FALSE(next.preempted);
    EXPECT_FALSE(rank->MeetsNext());
  });
  EXPECT_THAT(met, ElementsAre(1, 2, 12, 112, 113));
  EXPECT_THAT(Steps(), ElementsAre(112));
}

// The exchange that ends at step 112 began at step 62.
TEST_F(SilentStepsTest, PreemptionDuringAnExchangeReachesAllRanksAtTheNext) {
  options_.schedule.permanent = SaveOnPreemption();
  Run(3, [](MeetingRank* rank) {
    rank->TrainTo(62);
    if (rank->rank == 2) rank->manager->SetPreempted();
    while (!rank->Step().value().preempted) {
    }
    EXPECT_EQ(rank->manager->global_step(), 1112);
    ASSERT_OK(rank->manager->FinishTraining());
  });
  EXPECT_THAT(Steps(), ElementsAre(1112));
}

// Its votes are then ignored.
TEST_F(SilentStepsTest, OtherCallsMayOvertakeAnExchange) {
  const auto met = Run(3, [](MeetingRank* rank) {
    rank->TrainTo(8);  // an exchange has begun at step 7
    ASSERT_OK(rank->manager->Save());
    rank->TrainTo(17);  // and one at step 14
    ASSERT_OK(rank->manager->Restore());
    rank->TrainTo(40);
  });
  EXPECT_THAT(met, Contains(9));
  EXPECT_THAT(Steps(), ElementsAre(8));
}

TEST_F(SilentStepsTest, RanksMeetAtEachStep_UntilAPreemptionIsAnswered) {
  const auto met = Run(2, [](MeetingRank* rank) {
    rank->TrainTo(20);
    if (rank->rank == 1) rank->manager->SetPreempted();
    rank->TrainTo(111);
    for (int i = 0; i < 5; ++i) EXPECT_TRUE(rank->Step().value().preempted);
    ASSERT_OK(rank->manager->FinishTraining());
    EXPECT_FALSE(rank->Step().value().preempted);
    EXPECT_FALSE(rank->MeetsNext());
  });
  EXPECT_THAT(met, ElementsAre(1, 2, 12, 112, 113, 114, 115, 116, 117));
  EXPECT_THAT(Steps(), ElementsAre(116));
}

// The save that answers it may fail.
TEST_F(SilentStepsTest, RanksMeetAtEachStep_WhileAPreemptedStepIsSaved) {
  options_.schedule.permanent = SaveOnPreemption();
  options_.save.tolerated_failures = 1;
  Run(2, [this](MeetingRank* rank) {
    rank->TrainTo(12);
    rank->manager->SetPreempted();
    rank->TrainTo(111);
    if (rank->is_owner()) gate_.Close();
    if (rank->rank == 1) {
      rank->model.users.FailWith(absl::UnavailableError("no rows today"));
    }
    EXPECT_TRUE(rank->Step().value().preempted);
    for (int i = 0; i < 3; ++i) EXPECT_TRUE(rank->MeetsNext());
    rank->model.users.FailWith(absl::OkStatus());
    if (rank->is_owner()) gate_.Open();
    ASSERT_OK(rank->manager->WaitUntilFinished());
    ASSERT_OK_AND_ASSIGN(const StepOutcome outcome, rank->Step());
    EXPECT_TRUE(outcome.preempted);
    EXPECT_TRUE(outcome.save.has_value());
  });
  EXPECT_THAT(Steps(), ElementsAre(116));
}

// The error of a background save.
TEST_F(SilentStepsTest, ErrorOfASaveReachesAllRanksAtTheNextMeeting) {
  options_.schedule.permanent = SaveAtSteps({5});
  const auto met = Run(3, [this](MeetingRank* rank) {
    rank->TrainTo(4);
    if (rank->is_owner()) gate_.Close();
    if (rank->rank == 1) {
      rank->model.users.FailWith(absl::UnavailableError("no rows today"));
    }
    rank->TrainTo(10);
    if (rank->is_owner()) gate_.Open();
    while (rank->manager->IsSavingInProgress()) std::this_thread::yield();
    rank->model.users.FailWith(absl::OkStatus());
    rank->TrainTo(35);
    EXPECT_THAT(rank->Step(), Unavailable("save of step 5: ", "no rows today"));
    EXPECT_TRUE(rank->MeetsNext());
    EXPECT_FALSE(rank->MeetsNext());
  });
  EXPECT_THAT(met, ElementsAre(1, 2, 5, 6, 36, 37));
}

TEST_F(SilentStepsTest, ExceptionOfACallbackReachesAllRanksAtTheNextMeeting) {
  options_.schedule.permanent = SaveAtSteps({5});
  options_.observers.on_deleted = [](int64_t) {
    throw std::runtime_error("the trainer is broken");
  };
  const auto met = Run(2, [](MeetingRank* rank) {
    rank->TrainTo(10);
    if (rank->is_owner()) {
      EXPECT_OK(rank->manager->Delete(5));
    }
    rank->TrainTo(35);
    EXPECT_THAT(rank->Step(), Internal("rank 0: ", "the trainer is broken"));
    EXPECT_TRUE(rank->MeetsNext());
  });
  EXPECT_THAT(met, ElementsAre(1, 2, 5, 6, 36, 37));
}

TEST_F(SilentStepsTest, TimeIsLookedAtInMeetings) {
  options_.schedule.permanent = SaveEveryNSeconds(60);
  const auto met = Run(2, [this](MeetingRank* rank) {
    rank->TrainTo(20);
    ASSERT_OK(rank->manager->WaitUntilFinished());
    if (rank->is_owner()) now_micros_ += 61'000'000;
    rank->TrainTo(120);
  });
  EXPECT_THAT(met, ElementsAre(1, 2, 12, 112, 113));
  EXPECT_THAT(Steps(), ElementsAre(1, 112));
}

// A step that was put off is saved at once when the save in progress ends.
TEST_F(SilentStepsTest, RanksMeetAtEachStep_WhileAStepIsPutOff) {
  options_.schedule.permanent = SaveEveryNSteps(20);
  options_.save.busy = ManagerOptions::BusyPolicy::kCoalesce;
  const auto met = Run(2, [this](MeetingRank* rank) {
    rank->TrainTo(12);
    if (rank->is_owner()) gate_.Close();
    rank->TrainTo(43);
    if (rank->is_owner()) gate_.Open();
    ASSERT_OK(rank->manager->WaitUntilFinished());
    rank->TrainTo(50);
  });
  EXPECT_THAT(met, ElementsAre(1, 2, 12, 20, 21, 40, 41, 42, 43, 44, 45));
  EXPECT_THAT(Steps(), ElementsAre(20, 44));
}

TEST_F(SilentStepsTest, FailedSaveIsRetriedAfterItsSteps) {
  options_.schedule.permanent = SaveEveryNSteps(20);
  options_.save.tolerated_failures = 1;
  options_.save.retry_after_steps = 5;
  const auto met = Run(2, [](MeetingRank* rank) {
    rank->TrainTo(19);
    if (rank->rank == 1) {
      rank->model.users.FailWith(absl::UnavailableError("no rows today"));
    }
    ASSERT_OK(rank->Step());
    ASSERT_OK(rank->manager->WaitUntilFinished());
    rank->model.users.FailWith(absl::OkStatus());
    rank->TrainTo(39);
  });
  EXPECT_THAT(met, ElementsAre(1, 2, 12, 20, 21, 25, 26));
  EXPECT_THAT(Steps(), ElementsAre(25));
}

TEST_F(SilentStepsTest, DueStepFails_WhileAnotherIsSaved) {
  options_.schedule.permanent = SaveEveryNSteps(20);
  options_.save.busy = ManagerOptions::BusyPolicy::kFail;
  Run(2, [this](MeetingRank* rank) {
    rank->TrainTo(12);
    if (rank->is_owner()) gate_.Close();
    rank->TrainTo(39);
    EXPECT_THAT(rank->Step(), FailedPrecondition("step 40 cannot be saved"));
    EXPECT_TRUE(rank->MeetsNext());
    if (rank->is_owner()) gate_.Open();
    ASSERT_OK(rank->manager->WaitUntilFinished());
    rank->TrainTo(60);
  });
  EXPECT_THAT(Steps(), ElementsAre(20, 60));
}

TEST_F(SilentStepsTest, RequestedSaveWaitsOnAllRanks_WhileAnotherIsSaved) {
  options_.schedule.permanent = SaveEveryNSteps(20);
  options_.save.busy = ManagerOptions::BusyPolicy::kCoalesce;
  Run(2, [this](MeetingRank* rank) {
    rank->TrainTo(12);
    if (rank->is_owner()) gate_.Close();
    rank->TrainTo(21);
    std::future<void> opened;
    if (rank->is_owner()) {
      opened = std::async(std::launch::async, [this] { gate_.Open(); });
    }
    ASSERT_OK_AND_ASSIGN(PendingSave save, rank->manager->Save());
    ASSERT_OK(save.WaitCommitted());
    rank->TrainTo(30);
  });
  EXPECT_THAT(Steps(), ElementsAre(20, 21));
}

TEST_F(SilentStepsTest, NextStepIsAMeeting_AfterAnyOtherCallOfAllRanks) {
  const std::vector<std::function<absl::Status(CheckpointManager*)>> calls = {
      [](auto* manager) { return manager->Save().status(); },
      [](auto* manager) { return manager->ShouldSave(1000).status(); },
      [](auto* manager) { return manager->Load({}).status(); },
      [](auto* manager) { return manager->FinishTraining(); },
      [](auto* manager) { return manager->RestoreOrStart().status(); },
      [](auto* manager) { return manager->Restore().status(); },
      [](auto* manager) { return manager->AbandonSteps(); }};
  Run(3, [&](MeetingRank* rank) {
    rank->TrainTo(20);
    for (size_t call = 0; call < calls.size(); ++call) {
      SCOPED_TRACE(call);
      EXPECT_FALSE(rank->MeetsNext());
      EXPECT_OK(calls[call](rank->manager.get()));
      EXPECT_TRUE(rank->MeetsNext());
    }
  });
}

// At a step at which ranks would not have met.
TEST_F(SilentStepsTest, ShouldSaveAgreesWithStep) {
  options_.schedule.permanent = SaveEveryNSteps(30) | SaveEveryNSeconds(60);
  Run(2, [this](MeetingRank* rank) {
    for (int64_t step = 1; step <= 60; ++step) {
      if (step == 20 && rank->is_owner()) now_micros_ += 61'000'000;
      ASSERT_OK_AND_ASSIGN(const auto asked, rank->manager->ShouldSave(step));
      ASSERT_OK_AND_ASSIGN(const StepOutcome outcome, rank->Step());
      EXPECT_EQ(outcome.decision, asked);
      ASSERT_OK(rank->manager->WaitUntilFinished());
    }
  });
  EXPECT_THAT(Steps(), ElementsAre(1, 20, 30, 60));
}

TEST_F(SilentStepsTest, OutcomeAndExplanationSayWhyNothingWasDecided) {
  Run(2, [](MeetingRank* rank) {
    rank->TrainTo(20);
    const std::string why = "the ranks did not meet at this step: ";
    ASSERT_OK_AND_ASSIGN(const StepOutcome outcome, rank->Step());
    EXPECT_EQ(outcome.step, 21);
    EXPECT_EQ(outcome.decision.kind, SavePolicy::Kind::kNone);
    EXPECT_EQ(outcome.decision.reason, why + "no step is due by its number");
    if (rank->is_owner()) {
      EXPECT_EQ(rank->manager->Explain(21)->saved,
                "not saved: " + outcome.decision.reason);
      EXPECT_THAT(rank->manager->Explain(22), NotFound("step 22"));
    }
  });
  options_.schedule.permanent = SaveEveryNSteps(50);
  Run(2, [](MeetingRank* rank) {
    rank->TrainTo(20);
    EXPECT_THAT(rank->Step().value().decision.reason,
                EndsWith("the next one due by its number is 50"));
  });
}

// The rank communicates in its next step, but the others only in a later one.
// All get an error, as whenever ranks make different calls.
TEST_F(SilentStepsTest, AllRanksFail_AfterOneHasMissedAnAnnouncement) {
  options_.schedule.permanent = SaveEveryNSteps(20);
  options_.save.async = false;
  const auto run = [&](uint32_t r, auto ranks) -> absl::Status {
    TestModel model;
    model.owns = [=](int64_t id) { return id % 3 == r; };
    if (r == 1) {
      ranks = std::make_unique<LosesBroadcast>(std::move(ranks), "step 21");
    } else {
      ranks = std::make_unique<ForwardingCoordinator>(std::move(ranks));
    }
    CKPTDB_ASSIGN_OR_RETURN(
        const auto manager,
        CheckpointManager::Open(options_, &model.state, std::move(ranks)));
    std::vector<absl::Status> failed;
    // Ranks 0 and 2 meet rank 1 at step 40, and it meets them at step 22.
    for (int64_t step = 1; step <= (r == 1 ? 32 : 50); ++step) {
      model.Train(step);
      const absl::Status status = manager->Step().status();
      if (!status.ok()) failed.push_back(status);
    }
    EXPECT_THAT(failed, SizeIs(r == 1 ? 12 : 11));
    if (r == 1) {
      EXPECT_THAT(failed[0], Unavailable("the message was lost"));
      failed.erase(failed.begin());
    }
    EXPECT_THAT(failed, Each(Aborted("the ranks disagree: rank ")));
    EXPECT_THAT(failed[0], Aborted("step 22", "step 40"));
    return manager->Close();
  };
  EXPECT_THAT(OnRanks(3, run), Each(IsOk()));
  EXPECT_THAT(Steps(), ElementsAre(20));
}

}  // namespace
}  // namespace ckptdb::testing
