// SPDX-License-Identifier: Apache-2.0
// Skips each ordering call in turn, as a bug would: the record of an event, or
// a wait of a stream or of the host. At least one of the device's execution
// orders must detect it, by wrong bytes, a wrong digest, or use of freed
// memory.
#include <cuda_runtime_api.h>
#include <functional>
#include <numeric>
#include <string>
#include <vector>

#include "cuda/device_table.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/cuda/device_fixture.h"
#include "tests/cuda/tables/device_trainer.h"
#include "tests/support/seed.h"

namespace ckptdb::testing {
namespace {

using Ordering = std::vector<CudaStandin::Ordering>;

// Uses a device without call number `skip`, in this order, and returns whether
// the result is correct. If `ahead`, the trainer's work is done before it is
// fetched, and otherwise when it is waited for. Sets *ordering to the ordering
// calls.
using Scenario = std::function<bool(Order order, bool ahead, int64_t skip,
                                    Ordering* ordering)>;

// Returns whether one of the execution orders detects the missing call.
bool IsDetected(const Scenario& scenario, int64_t skip, Ordering* ordering) {
  for (const Order order : {Order::kLazy, Order::kEager, Order::kRandom}) {
    for (const bool ahead : {false, true}) {
      if (!scenario(order, ahead, skip, ordering) ||
          !CudaStandin::violations().empty()) {
        return true;
      }
    }
  }
  return false;
}

// Checks that at least `least` calls order something, and that each missing one
// is detected.
void ExpectEachIsDetected(const Scenario& scenario, size_t least) {
  Ordering all;
  EXPECT_FALSE(IsDetected(scenario, 0, &all));
  EXPECT_GE(all.size(), least);
  for (const CudaStandin::Ordering& call : all) {
    Ordering rest;
    EXPECT_TRUE(IsDetected(scenario, call.number, &rest))
        << "call " << call.number << " " << call.name;
  }
}

bool SaveAll(DeviceFixture* fixture, const std::vector<OnDevice>& tensors,
             bool pinned, bool ahead) {
  DeviceSave save(fixture, pinned);
  for (const OnDevice& tensor : tensors) save.Add(tensor);
  save.Train(1);
  if (!save.SetAside().ok()) return false;
  save.Train(2);
  if (ahead) CudaStandin::Finish(fixture->stream());
  return save.Fetch().ok() && save.AllAfter(1);
}

// A save during training, through the ring.
bool Saves(DeviceFixture* fixture, bool ahead) {
  return SaveAll(fixture, {fixture->Make(4, kMiB), fixture->Make(3, 5, 3)},
                 /*pinned=*/false, ahead);
}

// The same with one copy to pinned memory.
bool SavesDirectly(DeviceFixture* fixture, bool ahead) {
  return SaveAll(fixture, {fixture->Make(1, 1000)}, /*pinned=*/true, ahead);
}

// An abandoned save, after which the trainer frees its tensor.
bool GivesUp(DeviceFixture* fixture, bool /*ahead*/) {
  const OnDevice tensor = fixture->Make(1, 1000);
  {
    DeviceSave save(fixture, /*pinned=*/false);
    save.Add(tensor);
    if (!save.SetAside().ok()) return false;
    save.Drop();
  }
  fixture->Free(tensor);
  return true;
}

bool Uploads(DeviceFixture* fixture, bool /*ahead*/) {
  const OnDevice tensor = fixture->Make(4, kMiB);
  fixture->Train(tensor, 1);
  const TensorState state = fixture->StateOf(tensor);
  const auto upload =
      fixture->device()->BeginUpload("w", state, tensor.bytes());
  const std::string bytes = BytesAfter(5, tensor.bytes());
  if (!upload.ok() || !(*upload)->Write(0, bytes).ok()) return false;
  if (!(*upload)->Finish().ok() || tensor.Read() != bytes) return false;
  CudaStandin::Finish(fixture->stream());
  return tensor.Read() == bytes;
}

Scenario OfTensors(bool (*use)(DeviceFixture*, bool ahead),
                   uint64_t staging_bytes = 64 * kMiB) {
  return [=](Order order, bool ahead, int64_t skip, Ordering* ordering) {
    DeviceFixture fixture(order, SmallRing(staging_bytes));
    fixture.ExpectViolations();
    CudaStandin::SkipCall(skip);
    const bool right = use(&fixture, ahead);
    CudaStandin::SkipCall(0);
    *ordering = CudaStandin::ordering_calls();
    return right;
  };
}

TEST(MissingWaits, AreDetectedInASave) {
  ExpectEachIsDetected(OfTensors(Saves), 15);
}

TEST(MissingWaits, AreDetectedInASaveThatPassesThrough) {
  ExpectEachIsDetected(OfTensors(Saves, 0), 15);
}

TEST(MissingWaits, AreDetectedInADirectCopy) {
  ExpectEachIsDetected(OfTensors(SavesDirectly), 7);
}

// Without its wait the device would read freed memory, which only
// AddressSanitizer notices.
TEST(MissingWaits, AnAbandonedSaveReadsNoFreedTensor) {
  Ordering ordering;
  EXPECT_FALSE(IsDetected(OfTensors(GivesUp), 0, &ordering));
  EXPECT_THAT(ordering,
              ::testing::Contains(::testing::Field(&CudaStandin::Ordering::name,
                                                   "cudaStreamSynchronize")));
}

TEST(MissingWaits, AreDetectedInARestore) {
  ExpectEachIsDetected(OfTensors(Uploads), 10);
}

using WaitRows = DeviceTrainer::Rows;

// A trainer with a new table, and a consumer of its changes.
struct WaitCase {
  DeviceTrainer* trainer;
  DeviceTable* table;
  ChangeTracker::Consumer consumer;
  bool ahead;
};

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
  if (with.ahead) CudaStandin::Finish(trainer->stream());
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
  if (with.ahead) CudaStandin::Finish(with.trainer->stream());
  return (*captured)->Fetch().ok() &&
         with.trainer->RowsOf(**captured) == expected;
}

// A restore's writes come after the trainer's queued work, and are complete
// when the call returns.
bool IsThere(const WaitCase& with, const WaitRows& expected) {
  if (with.ahead) CudaStandin::Finish(with.trainer->stream());
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

// Calls are numbered from the scenario's first.
Scenario OfTable(bool (*use)(const WaitCase&),
                 const DeviceTrainerOptions& options,
                 uint64_t staging_bytes = 64 * kMiB) {
  return [=](Order order, bool ahead, int64_t skip, Ordering* ordering) {
    CudaStandin::Reset({.order = order, .seed = TestSeed()});
    const auto device = CudaDevice::Open(SmallRing(staging_bytes));
    EXPECT_OK(device);
    DeviceTrainer trainer(device->get(), options);
    DeviceTable* const table = trainer.table();
    const auto consumer = table->tracker()->AddConsumer("test");
    EXPECT_OK(table->tracker()->Take(*consumer));
    std::vector<int64_t> all(options.rows);
    std::iota(all.begin(), all.end(), 0);
    EXPECT_OK(trainer.Upsert(all, 0, /*marks=*/false));
    CudaStandin::Finish(trainer.stream());
    // Work that is still queued when the scenario begins.
    EXPECT_OK(trainer.Upsert({5}, 1, /*marks=*/false));
    const int64_t before = CudaStandin::calls();
    CudaStandin::SkipCall(skip == 0 ? 0 : before + skip);
    const bool right = use({&trainer, table, *consumer, ahead});
    CudaStandin::SkipCall(0);
    ordering->clear();
    for (const CudaStandin::Ordering& call : CudaStandin::ordering_calls()) {
      if (call.number <= before) continue;
      ordering->push_back({call.number - before, call.name});
    }
    return right;
  };
}

// Several chunks for each slot.
DeviceTrainerOptions ManyChunks(Codec codec = Codec::kNone) {
  DeviceTrainerOptions options;
  options.with_ids = false;
  options.rows = 40;
  options.dim = 16'383;
  options.codec = codec;
  return options;
}

DeviceTrainerOptions FewRows(Codec codec = Codec::kNone) {
  DeviceTrainerOptions options;
  options.with_ids = false;
  options.rows = 10;
  options.codec = codec;
  return options;
}

TEST(TableWaits, AreDetectedInADeltaSave) {
  ExpectEachIsDetected(OfTable(SavesChanges, FewRows()), 13);
}

TEST(TableWaits, AreDetectedInAFullSave) {
  ExpectEachIsDetected(OfTable(SavesAll, ManyChunks()), 13);
}

TEST(TableWaits, AreDetectedInASaveThatPassesThrough) {
  ExpectEachIsDetected(OfTable(SavesAll, ManyChunks(), 0), 18);
}

// For encoded rows the host waits for the gathers instead of a stream, and
// there are fewer chunks.
TEST(TableWaits, AreDetectedInSavesWithALossyCodec) {
  for (const Codec codec : {Codec::kBf16, Codec::kInt8}) {
    ExpectEachIsDetected(OfTable(SavesChanges, FewRows(codec)), 11);
    ExpectEachIsDetected(OfTable(SavesAll, ManyChunks(codec)), 7);
    ExpectEachIsDetected(OfTable(SavesAll, ManyChunks(codec), 0), 11);
  }
}

TEST(TableWaits, AreDetectedInARestore) {
  ExpectEachIsDetected(OfTable(Clears, FewRows()), 3);
  ExpectEachIsDetected(OfTable(Consumes, FewRows()), 4);
  ExpectEachIsDetected(OfTable(Erases, FewRows()), 4);
}

}  // namespace
}  // namespace ckptdb::testing
