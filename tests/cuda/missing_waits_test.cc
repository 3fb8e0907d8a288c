// SPDX-License-Identifier: Apache-2.0
// Skips each ordering call in turn, as a bug would: the record of an event, or
// a wait of a stream or of the host. At least one of the device's execution
// orders must detect it, by wrong bytes, a wrong digest, or use of freed
// memory.
#include <cuda_runtime_api.h>

#include <functional>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/cuda/device_fixture.h"
#include "tests/cuda/device_save.h"

namespace ckptdb::testing {
namespace {

using Order = CudaStandin::Order;

// Uses a device, and returns whether the result is correct. If `ahead`, the
// trainer's stream runs its work as soon as it is queued, and otherwise when it
// is waited for.
using Scenario = std::function<bool(DeviceFixture* fixture, bool ahead)>;

bool SaveAll(DeviceFixture* fixture, const std::vector<OnDevice>& tensors,
             bool pinned, bool ahead) {
  DeviceSave save(fixture, pinned);
  for (const OnDevice& tensor : tensors) {
    fixture->Train(tensor, 1);
    save.Add(tensor);
  }
  if (!save.SetAside().ok()) return false;
  for (const OnDevice& tensor : tensors) fixture->Train(tensor, 2);
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

// Runs a scenario without call number `skip`. Returns whether the result is
// wrong. Sets *ordering to its ordering calls.
bool GoesWrong(const Scenario& scenario, Order order, bool ahead,
               uint64_t staging_bytes, int64_t skip,
               std::vector<CudaStandin::Ordering>* ordering) {
  bool right = false;
  {
    DeviceFixture fixture(order, DeviceFixture::SmallRing(staging_bytes));
    fixture.ExpectViolations();
    CudaStandin::SkipCall(skip);
    right = scenario(&fixture, ahead);
    CudaStandin::SkipCall(0);
    *ordering = CudaStandin::ordering_calls();
  }
  return !right || !CudaStandin::violations().empty();
}

// Returns whether one of the execution orders detects the missing call.
bool IsDetected(const Scenario& scenario, uint64_t staging_bytes, int64_t skip,
                std::vector<CudaStandin::Ordering>* ordering) {
  for (const Order order : {Order::kLazy, Order::kEager, Order::kRandom}) {
    for (const bool ahead : {false, true}) {
      if (GoesWrong(scenario, order, ahead, staging_bytes, skip, ordering)) {
        return true;
      }
    }
  }
  return false;
}

// Checks that at least `least` calls order something and that each missing one
// is detected.
void ExpectEachIsDetected(const Scenario& scenario, uint64_t staging_bytes,
                          int least) {
  std::vector<CudaStandin::Ordering> all;
  EXPECT_FALSE(IsDetected(scenario, staging_bytes, 0, &all));
  int tried = 0;
  for (const CudaStandin::Ordering& call : all) {
    ++tried;
    std::vector<CudaStandin::Ordering> rest;
    EXPECT_TRUE(IsDetected(scenario, staging_bytes, call.number, &rest))
        << "call " << call.number << " " << call.name;
  }
  EXPECT_GE(tried, least);
}

TEST(MissingWaits, AreDetectedInASave) {
  ExpectEachIsDetected(Saves, 64 * kMiB, 15);
}

TEST(MissingWaits, AreDetectedInASaveThatPassesThrough) {
  ExpectEachIsDetected(Saves, 0, 15);
}

TEST(MissingWaits, AreDetectedInADirectCopy) {
  ExpectEachIsDetected(SavesDirectly, 64 * kMiB, 7);
}

// Without its wait the device would read freed memory, which only
// AddressSanitizer notices.
TEST(MissingWaits, AnAbandonedSaveReadsNoFreedTensor) {
  std::vector<CudaStandin::Ordering> ordering;
  EXPECT_FALSE(IsDetected(GivesUp, 64 * kMiB, 0, &ordering));
  EXPECT_THAT(ordering,
              ::testing::Contains(::testing::Field(&CudaStandin::Ordering::name,
                                                   "cudaStreamSynchronize")));
}

TEST(MissingWaits, AreDetectedInARestore) {
  ExpectEachIsDetected(Uploads, 64 * kMiB, 10);
}

}  // namespace
}  // namespace ckptdb::testing
