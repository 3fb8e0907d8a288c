// Each call that orders something is left out in turn, as a mistake would leave
// it out: the record of an event, a wait of a stream or of the host. One of the
// orders in which a device may work finds it, by bytes that are wrong, a digest
// that is, or memory that is used when it is gone.
#include <cuda_runtime_api.h>

#include <functional>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "ckptdb/tests/cuda/device_fixture.h"
#include "ckptdb/tests/cuda/device_save.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace ckptdb::testing {
namespace {

using Order = CudaStandin::Order;

// Does something with a device, and returns whether it went as it must. The
// trainer's stream is done with its work as soon as that is queued, if
// `ahead`; else when it is waited for.
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

// A save beside the training, by way of the ring.
bool Saves(DeviceFixture* fixture, bool ahead) {
  return SaveAll(fixture, {fixture->Make(4, kMiB), fixture->Make(3, 5, 3)},
                 /*pinned=*/false, ahead);
}

// The same with one copy, to memory that is pinned.
bool SavesDirectly(DeviceFixture* fixture, bool ahead) {
  return SaveAll(fixture, {fixture->Make(1, 1000)}, /*pinned=*/true, ahead);
}

// A save that is given up, after which the trainer frees its tensor.
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

// Runs a scenario without its call of the number `skip`. Returns whether it
// went wrong. Sets *ordering to its calls that order something.
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

// Returns whether one of the orders notices that a call is left out.
bool Noticed(const Scenario& scenario, uint64_t staging_bytes, int64_t skip,
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

// At least so many calls order something.
void ExpectEachIsNoticed(const Scenario& scenario, uint64_t staging_bytes,
                         int least) {
  std::vector<CudaStandin::Ordering> all;
  EXPECT_FALSE(Noticed(scenario, staging_bytes, 0, &all));
  int tried = 0;
  for (const CudaStandin::Ordering& call : all) {
    ++tried;
    std::vector<CudaStandin::Ordering> rest;
    EXPECT_TRUE(Noticed(scenario, staging_bytes, call.number, &rest))
        << "call " << call.number << " " << call.name;
  }
  EXPECT_GE(tried, least);
}

TEST(MissingWaits, AreDetectedInASave) {
  ExpectEachIsNoticed(Saves, 64 * kMiB, 15);
}

TEST(MissingWaits, AreDetectedInASaveThatPassesThrough) {
  ExpectEachIsNoticed(Saves, 0, 15);
}

TEST(MissingWaits, AreDetectedInADirectCopy) {
  ExpectEachIsNoticed(SavesDirectly, 64 * kMiB, 7);
}

// Without its wait the device would read memory that is freed, which only
// AddressSanitizer notices.
TEST(MissingWaits, AnAbandonedSaveReadsNoFreedTensor) {
  std::vector<CudaStandin::Ordering> ordering;
  EXPECT_FALSE(Noticed(GivesUp, 64 * kMiB, 0, &ordering));
  EXPECT_THAT(ordering,
              ::testing::Contains(::testing::Field(&CudaStandin::Ordering::name,
                                                   "cudaStreamSynchronize")));
}

TEST(MissingWaits, AreDetectedInARestore) {
  ExpectEachIsNoticed(Uploads, 64 * kMiB, 10);
}

}  // namespace
}  // namespace ckptdb::testing
