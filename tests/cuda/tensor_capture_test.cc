// SPDX-License-Identifier: Apache-2.0
// Capturing tensors of a device and copying them to the host: stream order, the
// ring, digests, memory, and failing calls. The device runs work as late as
// possible, at once, or at random: "Tests without a GPU" in
// docs/gpu.md.
#include <cuda_runtime_api.h>

#include <cstring>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "schema/status.h"
#include "tests/cuda/device_fixture.h"
#include "tests/cuda/device_save.h"
#include "tests/support/long_run.h"

namespace ckptdb::testing {
namespace {

using ::testing::AnyOf;
using ::testing::HasSubstr;
using Order = CudaStandin::Order;

struct CaptureWay {
  Order order;
  bool pinned;
};

class TensorCaptureTest : public ::testing::TestWithParam<CaptureWay> {
 protected:
  // Tensors of all kinds: with several chunks, small, with gaps between rows,
  // of odd sizes, empty.
  static std::vector<OnDevice> MakeAll(DeviceFixture* fixture) {
    return {fixture->Make(5, kMiB + 3), fixture->Make(1, 1),
            fixture->Make(3, 4),        fixture->Make(700, 48, 16),
            fixture->Make(33, 7, 5),    fixture->Make(0, 8),
            fixture->Make(2, kMiB)};
  }
};

TEST_P(TensorCaptureTest, CapturesTensorsAfterQueuedWork) {
  DeviceFixture fixture(GetParam().order);
  DeviceSave save(&fixture, GetParam().pinned);
  const std::vector<OnDevice> tensors = MakeAll(&fixture);
  for (const OnDevice& tensor : tensors) {
    fixture.Train(tensor, 1);
    save.Add(tensor);
  }
  ASSERT_OK(save.SetAside());
  // Training continues, and ends before anything is fetched.
  for (const OnDevice& tensor : tensors) fixture.Train(tensor, 2);
  ASSERT_EQ(cudaStreamSynchronize(fixture.stream()), cudaSuccess);
  ASSERT_OK(save.Fetch());
  save.ExpectAllAfter(1);
  for (const OnDevice& tensor : tensors) {
    EXPECT_TRUE(tensor.Read() == BytesAfter(2, tensor.bytes()));
  }
}

// The staging memory has room for some tensors, or for none.
TEST_P(TensorCaptureTest, TensorsThatDoNotFitPassThrough) {
  for (const uint64_t staging : {uint64_t{0}, uint64_t{4096}, 3 * kMiB}) {
    SCOPED_TRACE(staging);
    DeviceFixture fixture(GetParam().order, DeviceFixture::SmallRing(staging));
    DeviceSave save(&fixture, GetParam().pinned);
    const std::vector<OnDevice> tensors = MakeAll(&fixture);
    for (const OnDevice& tensor : tensors) {
      fixture.Train(tensor, 1);
      save.Add(tensor);
    }
    const uint64_t before = CudaStandin::device_bytes_used();
    ASSERT_OK(save.SetAside());
    for (const OnDevice& tensor : tensors) fixture.Train(tensor, 2);
    ASSERT_EQ(cudaStreamSynchronize(fixture.stream()), cudaSuccess);
    ASSERT_OK(save.Fetch());
    save.ExpectAllAfter(1);
    // A ring of two chunks, and its list of pieces.
    EXPECT_LE(CudaStandin::device_bytes_used() - before,
              staging + (2 * kMiB + 8192) * 9 / 8);
  }
}

// A save waits for another tensor's stream, and for an event of a third stream.
TEST_P(TensorCaptureTest, WaitsForEachStreamAndEvent) {
  DeviceFixture fixture(GetParam().order);
  DeviceSave save(&fixture, GetParam().pinned);
  cudaStream_t other = nullptr;
  cudaStream_t third = nullptr;
  cudaEvent_t event = nullptr;
  ASSERT_EQ(cudaStreamCreate(&other), cudaSuccess);
  ASSERT_EQ(cudaStreamCreate(&third), cudaSuccess);
  ASSERT_EQ(cudaEventCreateWithFlags(&event, 0), cudaSuccess);
  const OnDevice a = fixture.Make(1, 1000);
  const OnDevice b = fixture.Make(1, 1000);
  save.Add(a);
  save.Add(b);
  save.state(1).stream = other;
  save.state(0).event = event;
  fixture.Train(a, 1, third);
  ASSERT_EQ(cudaEventRecord(event, third), cudaSuccess);
  fixture.Train(b, 1, other);
  ASSERT_OK(save.SetAside());
  fixture.Train(a, 2);
  fixture.Train(b, 2, other);
  ASSERT_EQ(cudaStreamSynchronize(other), cudaSuccess);
  ASSERT_EQ(cudaStreamSynchronize(fixture.stream()), cudaSuccess);
  ASSERT_OK(save.Fetch());
  save.ExpectAllAfter(1);
  EXPECT_EQ(cudaEventDestroy(event), cudaSuccess);
  EXPECT_EQ(cudaStreamDestroy(other), cudaSuccess);
  EXPECT_EQ(cudaStreamDestroy(third), cudaSuccess);
}

TEST_P(TensorCaptureTest, SavesReuseMemory) {
  DeviceFixture fixture(GetParam().order);
  DeviceSave save(&fixture, GetParam().pinned);
  const OnDevice tensor = fixture.Make(5, kMiB);
  save.Add(tensor);
  uint64_t used = 0;
  for (int step = 1; step <= 4; ++step) {
    fixture.Train(tensor, step);
    ASSERT_OK(save.SetAside());
    fixture.Train(tensor, step + 1);
    ASSERT_EQ(cudaStreamSynchronize(fixture.stream()), cudaSuccess);
    ASSERT_OK(save.Fetch());
    save.ExpectAllAfter(step);
    save.Unpin();
    if (step == 1) used = CudaStandin::device_bytes_used();
    EXPECT_EQ(CudaStandin::device_bytes_used(), used);
  }
}

// Two concurrent saves: the second finds no room, but is correct.
TEST_P(TensorCaptureTest, TwoSavesShareADevice) {
  DeviceFixture fixture(GetParam().order, DeviceFixture::SmallRing(3 * kMiB));
  DeviceSave first(&fixture, GetParam().pinned);
  DeviceSave second(&fixture, GetParam().pinned);
  const OnDevice tensor = fixture.Make(2, kMiB);
  first.Add(tensor);
  second.Add(tensor);
  fixture.Train(tensor, 1);
  ASSERT_OK(first.SetAside());
  fixture.Train(tensor, 2);
  ASSERT_OK(second.SetAside());
  fixture.Train(tensor, 3);
  ASSERT_EQ(cudaStreamSynchronize(fixture.stream()), cudaSuccess);
  ASSERT_OK(second.Fetch());
  ASSERT_OK(first.Fetch());
  first.ExpectAllAfter(1);
  second.ExpectAllAfter(2);
}

TEST_P(TensorCaptureTest, AbandonedSaveIsWaitedFor) {
  DeviceFixture fixture(GetParam().order);
  DeviceSave save(&fixture, GetParam().pinned);
  const OnDevice tensor = fixture.Make(3, kMiB);
  save.Add(tensor);
  fixture.Train(tensor, 1);
  ASSERT_OK(save.SetAside());
  save.Drop();
}

// Copies: the list of pieces, the digests, then the chunks.
TEST_P(TensorCaptureTest, ChangedCopyIsDataLossNamingTheTensor) {
  for (const int copy : {3, 4, 5}) {
    SCOPED_TRACE(copy);
    DeviceFixture fixture(GetParam().order);
    DeviceSave save(&fixture, GetParam().pinned);
    const OnDevice small = fixture.Make(1, 64);
    const OnDevice large = fixture.Make(3, kMiB);
    save.Add(small, "small");
    save.Add(large, "large \"one\"");
    fixture.Train(small, 1);
    fixture.Train(large, 1);
    CudaStandin::FlipCopy(copy, 77);
    ASSERT_OK(save.SetAside());
    const absl::Status status = save.Fetch();
    EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss) << status;
    EXPECT_THAT(std::string(status.message()),
                AnyOf(HasSubstr("tensor \"large \\\"one\\\"\": bytes "),
                      HasSubstr("tensor \"small\": bytes 0 to 64")));
    EXPECT_THAT(std::string(status.message()), HasSubstr("digest "));
  }
}

TEST_P(TensorCaptureTest, SmallTensorsArePackedAndCopiedTogether) {
  DeviceFixture fixture(GetParam().order);
  DeviceSave save(&fixture, GetParam().pinned);
  for (int t = 0; t < 300; ++t) {
    const OnDevice tensor = fixture.Make(1, 1 + t * 5);
    fixture.Train(tensor, 1);
    save.Add(tensor);
  }
  const int64_t copies = CudaStandin::copies();
  const int64_t calls = CudaStandin::calls();
  ASSERT_OK(save.SetAside());
  ASSERT_OK(save.Fetch());
  save.ExpectAllAfter(1);
  EXPECT_LE(CudaStandin::copies() - copies, 3);
  EXPECT_LE(CudaStandin::calls() - calls, 60);
}

// Each call fails once: nothing leaks, hangs or is used after it is freed, and
// the next save is correct. Returns false if the save made fewer calls.
void SaveWithFailure(DeviceFixture* fixture, bool pinned, int64_t call,
                     bool* failed) {
  DeviceSave save(fixture, pinned);
  const OnDevice tensor = fixture->Make(3, kMiB + 8);
  const OnDevice apart = fixture->Make(10, 12, 4);
  save.Add(tensor);
  save.Add(apart);
  fixture->Train(tensor, 1);
  fixture->Train(apart, 1);
  const int64_t before = CudaStandin::calls();
  CudaStandin::FailCall(before + call, cudaErrorLaunchFailure);
  absl::Status status = save.SetAside();
  if (status.ok()) status = save.Fetch();
  *failed = CudaStandin::calls() >= before + call;
  CudaStandin::FailCall(0, cudaSuccess);
  if (status.ok()) {
    save.ExpectAllAfter(1);
  } else {
    EXPECT_THAT(std::string(status.message()), HasSubstr("(719)"));
  }
  save.Unpin();
  fixture->Train(tensor, 2);
  fixture->Train(apart, 2);
  ASSERT_OK(save.SetAside());
  ASSERT_OK(save.Fetch());
  save.ExpectAllAfter(2);
}

// One call in so many, from another one in each way; a long run takes all.
TEST_P(TensorCaptureTest, EachCallMayFail) {
  const int64_t stride = IsLongRun() ? 1 : kSanitized ? 6 : 3;
  const int64_t way =
      static_cast<int64_t>(GetParam().order) * 2 + (GetParam().pinned ? 1 : 0);
  const auto first = static_cast<int64_t>(TestSeed() % 6) + way;
  for (const uint64_t staging : {64 * kMiB, uint64_t{0}}) {
    bool failed = true;
    int64_t call = 1 + first % stride;
    for (; failed; call += stride) {
      SCOPED_TRACE(absl::StrCat("call ", call, ", staging ", staging));
      DeviceFixture fixture(GetParam().order,
                            DeviceFixture::SmallRing(staging));
      // Pin is the first call of a save, and is not counted.
      SaveWithFailure(&fixture, GetParam().pinned,
                      call + (GetParam().pinned ? 2 : 0), &failed);
      if (::testing::Test::HasFailure()) return;
    }
    EXPECT_GT(call, 20);
  }
}

TEST_P(TensorCaptureTest, LostDeviceFailsEachSave) {
  DeviceFixture fixture(GetParam().order);
  DeviceSave save(&fixture, /*pinned=*/false);
  const OnDevice tensor = fixture.Make(3, kMiB);
  save.Add(tensor);
  ASSERT_OK(save.SetAside());
  CudaStandin::FailCall(1, cudaErrorLaunchFailure, /*forever=*/true);
  EXPECT_EQ(save.Fetch().code(), absl::StatusCode::kInternal);
  save.Drop();
  EXPECT_EQ(save.SetAside().code(), absl::StatusCode::kInternal);
  CudaStandin::FailCall(0, cudaSuccess);
}

TEST_P(TensorCaptureTest, SavePassesThroughIfMemoryIsShort) {
  DeviceFixture fixture(GetParam().order);
  DeviceSave save(&fixture, GetParam().pinned);
  const OnDevice tensor = fixture.Make(3, kMiB);
  save.Add(tensor);
  fixture.Train(tensor, 1);
  // The trainer uses all memory except a ring.
  void* rest = nullptr;
  const uint64_t free =
      DeviceFixture::kDeviceBytes - CudaStandin::device_bytes_used();
  ASSERT_EQ(cudaMalloc(&rest, free - 5 * kMiB / 2), cudaSuccess);
  ASSERT_OK(save.SetAside());
  ASSERT_OK(save.Fetch());
  save.ExpectAllAfter(1);
  ASSERT_EQ(cudaFree(rest), cudaSuccess);
}

INSTANTIATE_TEST_SUITE_P(Orders, TensorCaptureTest,
                         ::testing::Values(CaptureWay{Order::kLazy, true},
                                           CaptureWay{Order::kLazy, false},
                                           CaptureWay{Order::kEager, true},
                                           CaptureWay{Order::kEager, false},
                                           CaptureWay{Order::kRandom, true},
                                           CaptureWay{Order::kRandom, false}),
                         [](const auto& given) {
                           const char* const order =
                               given.param.order == Order::kLazy    ? "Lazy"
                               : given.param.order == Order::kEager ? "Eager"
                                                                    : "Random";
                           return absl::StrCat(order, given.param.pinned
                                                          ? "Pinned"
                                                          : "Pageable");
                         });

}  // namespace
}  // namespace ckptdb::testing
