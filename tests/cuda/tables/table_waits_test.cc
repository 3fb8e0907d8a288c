// SPDX-License-Identifier: Apache-2.0
// Skips each ordering call of saves and restores of tables in device memory in
// turn: the record of an event, or a wait of a stream or of the host. One of
// the device's execution orders must detect it.
#include <cuda_runtime_api.h>

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "cuda/device_table.h"
#include "tests/cuda/tables/device_trainer.h"
#include "tests/support/seed.h"

namespace ckptdb::testing {
namespace {

using WaitRows = DeviceTrainer::Rows;

// A trainer with a new table, and a consumer of its changes.
struct WaitCase {
  DeviceTrainer* trainer;
  DeviceTable* table;
  ChangeTracker::Consumer consumer;
  // Whether the trainer's work is done before the rows are fetched. Otherwise
  // the device has done nothing on its own before the fetch.
  bool goes_on;
};

// Uses a table, and returns whether the result is correct.
using WaitScenario = std::function<bool(const WaitCase&)>;

// Values change again between taking the set and its capture, and after it.
bool SavesChanges(const WaitCase& with) {
  DeviceTrainer* const trainer = with.trainer;
  if (!trainer->Upsert({1, 2, 3}, 1).ok()) return false;
  const auto changes = with.table->tracker()->Take(with.consumer);
  if (!changes.ok() || changes->upserted != std::vector<int64_t>{1, 2, 3}) {
    return false;
  }
  if (!trainer->Upsert({1}, 2, /*marks=*/false).ok()) return false;
  const WaitRows expected = trainer->Rounded(trainer->rows());
  const absl::Span<const int64_t> ids = changes->upserted;
  const auto captured = with.table->Capture(&ids);
  if (!captured.ok() || !trainer->Upsert({1, 2, 3}, 3).ok()) return false;
  if (with.goes_on) CudaStandin::Finish(trainer->stream());
  if (!(*captured)->Fetch().ok()) return false;
  for (const auto& [id, row] : trainer->RowsOf(**captured)) {
    if (expected.at(id) != row) return false;
  }
  return true;
}

// A full table of several chunks.
bool SavesAll(const WaitCase& with) {
  const WaitRows expected = with.trainer->Rounded(with.trainer->rows());
  const auto captured = with.table->Capture(nullptr);
  if (!captured.ok() || !with.trainer->Upsert({1, 2, 3}, 3).ok()) return false;
  if (with.goes_on) CudaStandin::Finish(with.trainer->stream());
  return (*captured)->Fetch().ok() &&
         with.trainer->RowsOf(**captured) == expected;
}

// A restore's writes come after the trainer's queued work, and are complete
// when the call returns.
bool IsThere(const WaitCase& with, const WaitRows& expected) {
  if (with.goes_on) CudaStandin::Finish(with.trainer->stream());
  return with.trainer->ReadNow() == expected;
}

bool Clears(const WaitCase& with) {
  LiveTable* const live = with.table->Live({"embedding", "step"});
  WaitRows expected = with.trainer->rows();
  for (auto& [id, row] : expected) row = {std::vector<float>(5), 0};
  return live->Clear().ok() && IsThere(with, expected);
}

bool Consumes(const WaitCase& with) {
  LiveTable* const live = with.table->Live({"embedding", "step"});
  const std::vector<int64_t> ids = {4, 5};
  const std::vector<float> embedding(10, 0.5F);
  const std::vector<int64_t> steps = {40, 50};
  const std::vector<const char*> slots = {
      reinterpret_cast<const char*>(embedding.data()),
      reinterpret_cast<const char*>(steps.data())};
  WaitRows expected = with.trainer->rows();
  expected[4] = {std::vector<float>(5, 0.5F), 40};
  expected[5] = {std::vector<float>(5, 0.5F), 50};
  return live->Consume(0, {ids, slots}).ok() && IsThere(with, expected);
}

bool Erases(const WaitCase& with) {
  LiveTable* const live = with.table->Live({"embedding", "step"});
  WaitRows expected = with.trainer->rows();
  expected[5] = {std::vector<float>(5), 0};
  return live->Erase(0, {5}).ok() && IsThere(with, expected);
}

// Runs a scenario without call number `skip`, from 1. Returns whether the
// result is wrong. Sets *ordering to its ordering calls, numbered in the same
// way.
bool GoesWrongInTable(const WaitScenario& scenario,
                      const DeviceTrainerOptions& options,
                      CudaStandin::Order order, bool goes_on,
                      uint64_t staging_bytes, int64_t skip,
                      std::vector<CudaStandin::Ordering>* ordering) {
  CudaStandin::Reset({.order = order, .seed = TestSeed()});
  CudaDevice::Options device_options;
  device_options.staging_bytes = staging_bytes;
  device_options.chunk_bytes = 1 << 20;
  device_options.ring_slots = 2;
  device_options.required = true;
  auto device = CudaDevice::Open(device_options);
  EXPECT_OK(device);
  bool right = false;
  {
    DeviceTrainer trainer(device->get(), options);
    DeviceTable* const table = trainer.table();
    const auto consumer = table->tracker()->AddConsumer("test");
    EXPECT_OK(table->tracker()->Take(*consumer));
    std::vector<int64_t> all;
    for (int64_t id = 0; id < static_cast<int64_t>(options.rows); ++id) {
      all.push_back(id);
    }
    EXPECT_OK(trainer.Upsert(all, 0, /*marks=*/false));
    CudaStandin::Finish(trainer.stream());
    // Work that is still queued when the scenario begins.
    EXPECT_OK(trainer.Upsert({5}, 1, /*marks=*/false));
    const int64_t before = CudaStandin::calls();
    CudaStandin::SkipCall(skip == 0 ? 0 : before + skip);
    right = scenario({&trainer, table, *consumer, goes_on});
    CudaStandin::SkipCall(0);
    ordering->clear();
    for (const CudaStandin::Ordering& call : CudaStandin::ordering_calls()) {
      if (call.number <= before) continue;
      ordering->push_back({call.number - before, call.name});
    }
  }
  device->reset();
  return !right || !CudaStandin::violations().empty();
}

// Returns whether one of the execution orders detects the missing call.
bool IsDetectedInTable(const WaitScenario& scenario,
                       const DeviceTrainerOptions& options,
                       uint64_t staging_bytes, int64_t skip,
                       std::vector<CudaStandin::Ordering>* ordering) {
  for (const auto order :
       {CudaStandin::Order::kLazy, CudaStandin::Order::kEager,
        CudaStandin::Order::kRandom}) {
    for (const bool goes_on : {true, false}) {
      if (GoesWrongInTable(scenario, options, order, goes_on, staging_bytes,
                           skip, ordering)) {
        return true;
      }
    }
  }
  return false;
}

// Checks that at least `least` calls order something, and that each is needed.
void ExpectEachWaitIsDetected(const WaitScenario& scenario,
                              const DeviceTrainerOptions& options,
                              uint64_t staging_bytes, size_t least) {
  std::vector<CudaStandin::Ordering> all;
  EXPECT_FALSE(IsDetectedInTable(scenario, options, staging_bytes, 0, &all));
  EXPECT_GE(all.size(), least);
  for (const CudaStandin::Ordering& call : all) {
    std::vector<CudaStandin::Ordering> rest;
    EXPECT_TRUE(
        IsDetectedInTable(scenario, options, staging_bytes, call.number, &rest))
        << "call " << call.number << " " << call.name;
  }
}

// Several chunks for each slot.
DeviceTrainerOptions ManyChunks() {
  DeviceTrainerOptions options;
  options.with_ids = false;
  options.rows = 40;
  options.dim = 16'383;
  return options;
}

DeviceTrainerOptions FewRows() {
  DeviceTrainerOptions options;
  options.with_ids = false;
  options.rows = 10;
  return options;
}

TEST(TableWaits, AreDetectedInADeltaSave) {
  ExpectEachWaitIsDetected(SavesChanges, FewRows(), 64 << 20, 13);
}

TEST(TableWaits, AreDetectedInAFullSave) {
  ExpectEachWaitIsDetected(SavesAll, ManyChunks(), 64 << 20, 13);
}

TEST(TableWaits, AreDetectedInASaveThatPassesThrough) {
  ExpectEachWaitIsDetected(SavesAll, ManyChunks(), 0, 18);
}

// For encoded rows the host waits for the gathers instead of a stream, and
// there are fewer chunks.
TEST(TableWaits, AreDetectedInSavesWithALossyCodec) {
  for (const Codec codec : {Codec::kBf16, Codec::kInt8}) {
    DeviceTrainerOptions few = FewRows();
    few.codec = codec;
    ExpectEachWaitIsDetected(SavesChanges, few, 64 << 20, 11);
    DeviceTrainerOptions many = ManyChunks();
    many.codec = codec;
    ExpectEachWaitIsDetected(SavesAll, many, 64 << 20, 7);
    ExpectEachWaitIsDetected(SavesAll, many, 0, 11);
  }
}

TEST(TableWaits, AreDetectedInARestore) {
  ExpectEachWaitIsDetected(Clears, FewRows(), 64 << 20, 3);
  ExpectEachWaitIsDetected(Consumes, FewRows(), 64 << 20, 4);
  ExpectEachWaitIsDetected(Erases, FewRows(), 64 << 20, 4);
}

}  // namespace
}  // namespace ckptdb::testing
