// SPDX-License-Identifier: Apache-2.0
// A trainer whose model is in GPU memory beside one whose model is in host
// memory: both have the same state after each step.
#include <ckptdb/db/reader.h>
#include <cuda_runtime_api.h>

#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "tests/examples/train_ctr/device_machine.h"
#include "tests/examples/train_ctr/saved_digest.h"
#include "tests/examples/train_ctr/state_copy.h"
#include "tests/support/temp_dir.h"
#include "train_ctr/checkpoint.h"
#include "train_ctr/device/kernels.h"
#include "train_ctr/trainer.h"

namespace train_ctr {
namespace {

using ::ckptdb::testing::StatusIs;
using ::testing::AllOf;
using ::testing::HasSubstr;

class DeviceTrainerTest : public ::testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    const std::string missing = StartMachine(GetParam());
    if (!missing.empty()) GTEST_SKIP() << missing;
    options_.cuda_device = 0;
    options_.device_rows = 20'000;
    checkpoint_.store = dir_.path() + "/store";
    checkpoint_.keep_steps = 100;
    checkpoint_.delta = true;
    checkpoint_.base_every = 4;
    checkpoint_.crash_drill = std::make_shared<CrashDrill>(std::nullopt);
  }
  void TearDown() override {
    if (!IsSkipped()) CheckMachine();
  }

  absl::StatusOr<std::unique_ptr<Trainer>> Make() const {
    auto reader =
        Reader::Create(NewGeneratedLog({}).value(), 64, options_.seed);
    return Trainer::Create(options_, std::move(reader).value());
  }
  std::unique_ptr<Trainer> MakeOnHost() const {
    TrainerOptions options = options_;
    options.cuda_device = std::nullopt;
    return MakeTrainer(options);
  }

  std::string DigestOf(int64_t step) const {
    return DigestOfSavedStep(checkpoint_.store, step);
  }

  const ckptdb::testing::TempDir dir_;
  TrainerOptions options_ = SmallTrainer();
  CheckpointOptions checkpoint_;
};

INSTANTIATE_TEST_SUITE_P(Machines, DeviceTrainerTest,
                         ::testing::ValuesIn(Machines()),
                         [](const auto& machine) { return machine.param; });

TEST_P(DeviceTrainerTest, EachStepMatchesAHostTrainer) {
  options_.hidden = {9, 8, 17};
  options_.dim = 5;
  options_.batch = 37;
  ASSERT_OK_AND_ASSIGN(const auto device, Make());
  const auto host = MakeOnHost();
  EXPECT_EQ(StateDigest(*device), StateDigest(*host));
  for (int step = 1; step <= 120; ++step) {
    ASSERT_OK_AND_ASSIGN(const double loss, device->Step());
    EXPECT_EQ(loss, host->Step().value()) << step;
    EXPECT_EQ(device->rows(), host->rows()) << step;
    if (step % 10 != 0) continue;
    ASSERT_EQ(StateDigest(*device), StateDigest(*host)) << step;
  }
  ASSERT_OK_AND_ASSIGN(const Evaluation evaluation, Evaluate(device.get()));
  ASSERT_OK_AND_ASSIGN(const Evaluation expected, Evaluate(host.get()));
  EXPECT_EQ(evaluation.loss, expected.loss);
  EXPECT_EQ(evaluation.auc, expected.auc);
  EXPECT_EQ(StateDigest(*device), StateDigest(*host));
}

// The training goes on while a step is written. Deltas have the rows of those
// of the host.
TEST_P(DeviceTrainerTest, SavedStepsHoldTheirState) {
  ASSERT_OK_AND_ASSIGN(const auto device, Make());
  ASSERT_OK_AND_ASSIGN(const auto checkpoints,
                       Checkpoints::Open(checkpoint_, device.get()));
  const auto host = MakeOnHost();
  CheckpointOptions host_checkpoint = checkpoint_;
  host_checkpoint.store = dir_.path() + "/host_store";
  ASSERT_OK_AND_ASSIGN(const auto host_checkpoints,
                       Checkpoints::Open(host_checkpoint, host.get()));
  std::vector<std::string> digests;
  for (int step = 1; step <= 100; ++step) {
    ASSERT_OK(device->Step());
    ASSERT_OK(host->Step());
    if (step % 10 != 0) continue;
    digests.push_back(StateDigest(*host));
    ASSERT_OK(checkpoints->Save(0.5));
    ASSERT_OK(host_checkpoints->Save(0.5));
  }
  ASSERT_OK(checkpoints->Finish());
  ASSERT_OK(host_checkpoints->Finish());
  const std::vector<SaveReport> saves = checkpoints->TakeReports();
  const std::vector<SaveReport> expected = host_checkpoints->TakeReports();
  ASSERT_EQ(saves.size(), digests.size());
  ASSERT_EQ(expected.size(), digests.size());
  uint64_t erased = 0;
  for (size_t s = 0; s < saves.size(); ++s) {
    EXPECT_EQ(saves[s].step, int64_t(10 * (s + 1)));
    EXPECT_EQ(saves[s].kind, expected[s].kind) << s;
    EXPECT_EQ(saves[s].rows_upserted, expected[s].rows_upserted) << s;
    EXPECT_EQ(saves[s].rows_erased, expected[s].rows_erased) << s;
    EXPECT_EQ(DigestOf(saves[s].step), digests[s]) << s;
    erased += saves[s].rows_erased;
  }
  EXPECT_GT(erased, 0U);  // so that there are deltas
}

// A run is given up in the middle of a save, and another one goes on from the
// newest step and from an older one.
TEST_P(DeviceTrainerTest, RestoredTrainerContinuesIdentically) {
  const auto host = MakeOnHost();
  while (host->step() < 90) ASSERT_OK(host->Step());
  for (const int64_t resumed_from : {0, 40, 20}) {
    SCOPED_TRACE(resumed_from);
    ASSERT_OK_AND_ASSIGN(const auto device, Make());
    ASSERT_OK_AND_ASSIGN(const auto checkpoints,
                         Checkpoints::Open(checkpoint_, device.get()));
    if (resumed_from > 0) {
      ASSERT_OK(device->Step());  // what is there before is replaced
      ASSERT_OK(checkpoints->RestoreOrStart(resumed_from));
      EXPECT_EQ(StateDigest(*device), DigestOf(resumed_from));
    }
    while (device->step() < 90) {
      ASSERT_OK(device->Step());
      if (device->step() <= 40 && device->step() % 20 == 0) {
        ASSERT_OK(checkpoints->Save(0.5));
      }
    }
    EXPECT_EQ(StateDigest(*device), StateDigest(*host));
    EXPECT_EQ(device->rows(), host->rows());
  }
}

TEST_P(DeviceTrainerTest, FullTableErrorNamesTheRemedy) {
  options_.device_rows = 50;
  ASSERT_OK_AND_ASSIGN(const auto device, Make());
  absl::Status trained;
  while (trained.ok() && device->step() < 100) {
    trained = device->Step().status();
  }
  EXPECT_THAT(trained, StatusIs(absl::StatusCode::kResourceExhausted,
                                HasSubstr("has 50 rows in GPU memory, and all "
                                          "are taken; give it more by "
                                          "--device-rows")));
  EXPECT_THAT(trained.message(), HasSubstr("table \""));
}

// Rows that are erased have room for others: many more ids come than fit.
TEST_P(DeviceTrainerTest, ReusesErasedRows) {
  options_.erase_after_steps = 8;
  options_.device_rows = 600;
  ASSERT_OK_AND_ASSIGN(const auto device, Make());
  const auto host = MakeOnHost();
  size_t most = 0;
  while (device->step() < 200) {
    ASSERT_OK(device->Step());
    ASSERT_OK(host->Step());
    most = std::max(most, device->rows());
  }
  EXPECT_LE(most, 1200U);
  EXPECT_EQ(StateDigest(*device), StateDigest(*host));
}

TEST_P(DeviceTrainerTest, RejectsAMissingDevice) {
  options_.cuda_device = 1'000;
  EXPECT_THAT(Make().status(),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       AllOf(HasSubstr("--device cuda:1000: "),
                             HasSubstr("numbered from 0 to"))));
}

TEST_P(DeviceTrainerTest, RejectsTablesLargerThanMemory) {
  options_.device_rows = (uint64_t{1} << 31) - 1;
  options_.dim = 4096;
  EXPECT_THAT(Make().status(),
              StatusIs(absl::StatusCode::kResourceExhausted,
                       HasSubstr("--device cuda:0: cudaMalloc of")));
}

// More rows than a grid has threads.
TEST_P(DeviceTrainerTest, AllRowsOfALargeTableAreCleared) {
  std::vector<int64_t> ids(1'100'003, 7);
  const size_t bytes = ids.size() * sizeof(int64_t);
  void* memory = nullptr;
  ASSERT_EQ(cudaMalloc(&memory, bytes), cudaSuccess);
  EXPECT_EQ(cudaMemcpy(memory, ids.data(), bytes, cudaMemcpyHostToDevice),
            cudaSuccess);
  ClearIds clear;
  clear.table.rows = ids.size();
  clear.table.ids = static_cast<int64_t*>(memory);
  clear.table.freq = clear.table.last_step = clear.table.ids;
  EXPECT_EQ(Launch(clear, nullptr), cudaSuccess);
  EXPECT_EQ(cudaMemcpy(ids.data(), memory, bytes, cudaMemcpyDeviceToHost),
            cudaSuccess);
  EXPECT_EQ(static_cast<size_t>(std::count(ids.begin(), ids.end(), kFreeId)),
            ids.size());
  cudaFree(memory);
}

#if defined(TRAIN_CTR_STANDIN)

// Trains a few steps, and returns the digest, or the first error.
absl::StatusOr<std::string> TrainALittle(Trainer* trainer) {
  for (int step = 0; step < 4; ++step) {
    CKPTDB_RETURN_IF_ERROR(trainer->Step().status());
  }
  CKPTDB_RETURN_IF_ERROR(trainer->model()->rows()->EraseUnseenSince(3));
  CKPTDB_RETURN_IF_ERROR(trainer->model()->rows()->OnRestored());
  CKPTDB_ASSIGN_OR_RETURN(const StateView state, trainer->View());
  return StateDigest(state);
}

// No error is lost: a run in which a call of the runtime fails says so.
TEST_P(DeviceTrainerTest, ReportsEachFailingCall) {
  using Standin = ckptdb::testing::CudaStandin;
  if (GetParam() != "random") GTEST_SKIP() << "one order is enough";
  options_.device_rows = 600;
  for (int64_t call = 1;; ++call) {
    StartMachine(GetParam());
    Standin::FailCall(call, cudaErrorLaunchFailure);
    absl::StatusOr<std::unique_ptr<Trainer>> trainer = Make();
    absl::StatusOr<std::string> digest = absl::UnknownError("");
    if (trainer.ok()) digest = TrainALittle(trainer->get());
    const bool all_done = Standin::calls() < call;
    trainer = absl::CancelledError();
    CheckMachine();
    if (all_done) {
      EXPECT_OK(digest);
      EXPECT_GT(call, 100);
      break;
    }
    // What only allows to free while others capture is not needed here.
    if (Standin::FailedCall() == "cudaThreadExchangeStreamCaptureMode") {
      continue;
    }
    ASSERT_FALSE(digest.ok()) << "call " << call;
  }
}

#endif

}  // namespace
}  // namespace train_ctr
