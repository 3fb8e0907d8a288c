// SPDX-License-Identifier: Apache-2.0
// Copying tensors of a device to the host and back: stream order, the ring,
// digests, memory, and failing calls. The device runs work as late as possible,
// at once, or at random: "Tests without a GPU" in docs/gpu.md.
#include <cuda_runtime_api.h>

#include <algorithm>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "schema/status.h"
#include "tests/cuda/device_fixture.h"
#include "tests/support/long_run.h"

namespace ckptdb::testing {
namespace {

using ::testing::AllOf;
using ::testing::AnyOf;
using ::testing::HasSubstr;

class TensorCaptureTest
    : public ::testing::TestWithParam<std::tuple<Order, bool>> {
 protected:
  Order order() const { return std::get<0>(GetParam()); }
  bool pinned() const { return std::get<1>(GetParam()); }
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
  DeviceFixture fixture(order());
  DeviceSave save(&fixture, pinned());
  const std::vector<OnDevice> tensors = MakeAll(&fixture);
  for (const OnDevice& tensor : tensors) save.Add(tensor);
  save.SaveDuringTraining(1);
  for (const OnDevice& tensor : tensors) {
    EXPECT_TRUE(tensor.Read() == BytesAfter(2, tensor.bytes()));
  }
}

// The staging memory has room for some tensors, or for none.
TEST_P(TensorCaptureTest, TensorsThatDoNotFitPassThrough) {
  for (const uint64_t staging : {uint64_t{0}, uint64_t{4096}, 3 * kMiB}) {
    SCOPED_TRACE(staging);
    DeviceFixture fixture(order(), SmallRing(staging));
    DeviceSave save(&fixture, pinned());
    for (const OnDevice& tensor : MakeAll(&fixture)) save.Add(tensor);
    const uint64_t before = CudaStandin::device_bytes_used();
    save.SaveDuringTraining(1);
    // A ring of two chunks, and its list of pieces.
    EXPECT_LE(CudaStandin::device_bytes_used() - before,
              staging + (2 * kMiB + 8192) * 9 / 8);
  }
}

// A save waits for another tensor's stream, and for an event of a third stream.
TEST_P(TensorCaptureTest, WaitsForEachStreamAndEvent) {
  DeviceFixture fixture(order());
  DeviceSave save(&fixture, pinned());
  cudaStream_t other = nullptr;
  cudaStream_t third = nullptr;
  cudaEvent_t event = nullptr;
  ASSERT_CUDA(cudaStreamCreate(&other));
  ASSERT_CUDA(cudaStreamCreate(&third));
  ASSERT_CUDA(cudaEventCreateWithFlags(&event, 0));
  const OnDevice a = fixture.Make(1, 1000);
  const OnDevice b = fixture.Make(1, 1000);
  save.Add(a);
  save.Add(b);
  save.state(1).stream = other;
  save.state(0).event = event;
  fixture.Train(a, 1, third);
  ASSERT_CUDA(cudaEventRecord(event, third));
  fixture.Train(b, 1, other);
  ASSERT_OK(save.SetAside());
  fixture.Train(a, 2);
  fixture.Train(b, 2, other);
  ASSERT_CUDA(cudaStreamSynchronize(other));
  ASSERT_CUDA(cudaStreamSynchronize(fixture.stream()));
  ASSERT_OK(save.Fetch());
  save.ExpectAllAfter(1);
  EXPECT_CUDA(cudaEventDestroy(event));
  EXPECT_CUDA(cudaStreamDestroy(other));
  EXPECT_CUDA(cudaStreamDestroy(third));
}

TEST_P(TensorCaptureTest, SavesReuseMemory) {
  DeviceFixture fixture(order());
  DeviceSave save(&fixture, pinned());
  save.Add(fixture.Make(5, kMiB));
  uint64_t used = 0;
  for (int step = 1; step <= 4; ++step) {
    save.SaveDuringTraining(step);
    save.Unpin();
    if (step == 1) used = CudaStandin::device_bytes_used();
    EXPECT_EQ(CudaStandin::device_bytes_used(), used);
  }
}

// Two concurrent saves: the second finds no room, but is correct.
TEST_P(TensorCaptureTest, TwoSavesShareADevice) {
  DeviceFixture fixture(order(), SmallRing(3 * kMiB));
  DeviceSave first(&fixture, pinned());
  DeviceSave second(&fixture, pinned());
  const OnDevice tensor = fixture.Make(2, kMiB);
  first.Add(tensor);
  second.Add(tensor);
  fixture.Train(tensor, 1);
  ASSERT_OK(first.SetAside());
  fixture.Train(tensor, 2);
  ASSERT_OK(second.SetAside());
  fixture.Train(tensor, 3);
  ASSERT_CUDA(cudaStreamSynchronize(fixture.stream()));
  ASSERT_OK(second.Fetch());
  ASSERT_OK(first.Fetch());
  first.ExpectAllAfter(1);
  second.ExpectAllAfter(2);
}

// Copies: the list of pieces, the digests, then the chunks.
TEST_P(TensorCaptureTest, ChangedCopyIsDataLossNamingTheTensor) {
  for (const int copy : {3, 4, 5}) {
    SCOPED_TRACE(copy);
    DeviceFixture fixture(order());
    DeviceSave save(&fixture, pinned());
    save.Add(fixture.Make(1, 64), "small");
    save.Add(fixture.Make(3, kMiB), "large \"one\"");
    save.Train(1);
    CudaStandin::FlipCopy(copy, 77);
    ASSERT_OK(save.SetAside());
    EXPECT_THAT(
        save.Fetch(),
        StatusIs(absl::StatusCode::kDataLoss,
                 AllOf(AnyOf(HasSubstr("tensor \"large \\\"one\\\"\": bytes "),
                             HasSubstr("tensor \"small\": bytes 0 to 64")),
                       HasSubstr("digest "))));
  }
}

TEST_P(TensorCaptureTest, SmallTensorsArePackedAndCopiedTogether) {
  DeviceFixture fixture(order());
  DeviceSave save(&fixture, pinned());
  for (int t = 0; t < 300; ++t) save.Add(fixture.Make(1, 1 + t * 5));
  save.Train(1);
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
  save.Add(fixture->Make(3, kMiB + 8));
  save.Add(fixture->Make(10, 12, 4));
  save.Train(1);
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
  save.SaveDuringTraining(2);
}

// One call in so many, from another one in each way; a long run takes all.
TEST_P(TensorCaptureTest, EachCallMayFail) {
  const int64_t stride = IsLongRun() ? 1 : kSanitized ? 6 : 3;
  const int64_t way = static_cast<int64_t>(order()) * 2 + (pinned() ? 1 : 0);
  const auto first = static_cast<int64_t>(TestSeed() % 6) + way;
  for (const uint64_t staging : {64 * kMiB, uint64_t{0}}) {
    bool failed = true;
    int64_t call = 1 + first % stride;
    for (; failed; call += stride) {
      SCOPED_TRACE(absl::StrCat("call ", call, ", staging ", staging));
      DeviceFixture fixture(order(), SmallRing(staging));
      // Pin is the first call of a save, and is not counted.
      SaveWithFailure(&fixture, pinned(), call + (pinned() ? 2 : 0), &failed);
      if (::testing::Test::HasFailure()) return;
    }
    EXPECT_GT(call, 20);
  }
}

TEST_P(TensorCaptureTest, LostDeviceFailsEachSave) {
  DeviceFixture fixture(order());
  DeviceSave save(&fixture, /*pinned=*/false);
  save.Add(fixture.Make(3, kMiB));
  ASSERT_OK(save.SetAside());
  CudaStandin::FailCall(1, cudaErrorLaunchFailure, /*forever=*/true);
  EXPECT_EQ(save.Fetch().code(), absl::StatusCode::kInternal);
  save.Drop();
  EXPECT_EQ(save.SetAside().code(), absl::StatusCode::kInternal);
  CudaStandin::FailCall(0, cudaSuccess);
}

TEST_P(TensorCaptureTest, SavePassesThroughIfMemoryIsShort) {
  DeviceFixture fixture(order());
  DeviceSave save(&fixture, pinned());
  save.Add(fixture.Make(3, kMiB));
  save.Train(1);
  // The trainer uses all memory except a ring.
  void* rest = nullptr;
  const uint64_t free =
      DeviceFixture::kDeviceBytes - CudaStandin::device_bytes_used();
  ASSERT_CUDA(cudaMalloc(&rest, free - 5 * kMiB / 2));
  ASSERT_OK(save.SetAside());
  ASSERT_OK(save.Fetch());
  save.ExpectAllAfter(1);
  ASSERT_CUDA(cudaFree(rest));
}

INSTANTIATE_TEST_SUITE_P(Orders, TensorCaptureTest,
                         ::testing::Combine(::testing::Values(Order::kLazy,
                                                              Order::kEager,
                                                              Order::kRandom),
                                            ::testing::Bool()),
                         [](const auto& given) {
                           return OrderName(std::get<0>(given.param)) +
                                  (std::get<1>(given.param) ? "Pinned"
                                                            : "Pageable");
                         });

// Uploads parts of `part` bytes from a buffer that is then overwritten.
absl::Status Upload(const DeviceFixture& fixture, const OnDevice& tensor,
                    const std::string& bytes, uint64_t part,
                    void* event = nullptr) {
  TensorState state = fixture.StateOf(tensor);
  state.event = event;
  CKPTDB_ASSIGN_OR_RETURN(const auto upload, fixture.device()->BeginUpload(
                                                 "w", state, tensor.bytes()));
  for (uint64_t at = 0; at < bytes.size(); at += part) {
    std::string some = bytes.substr(at, part);
    CKPTDB_RETURN_IF_ERROR(upload->Write(at, some));
    std::fill(some.begin(), some.end(), '\x11');
  }
  return upload->Finish();
}

class TensorUploadTest : public ::testing::TestWithParam<Order> {};

TEST_P(TensorUploadTest, WritesTensorsAfterQueuedWork) {
  DeviceFixture fixture(GetParam());
  for (const OnDevice& tensor :
       {fixture.Make(5, kMiB + 3), fixture.Make(1, 1), fixture.Make(3, 4),
        fixture.Make(700, 48, 16), fixture.Make(33, 7, 5),
        fixture.Make(2, kMiB)}) {
    for (const uint64_t part : {uint64_t{17}, 3 * kMiB / 2, 100 * kMiB}) {
      if (tensor.bytes() / part > 10000) continue;
      SCOPED_TRACE(absl::StrCat(tensor.bytes(), " bytes in parts of ", part));
      fixture.Train(tensor, 1);  // still queued when the restore begins
      const std::string bytes = BytesAfter(9, tensor.bytes());
      ASSERT_OK(Upload(fixture, tensor, bytes, part));
      EXPECT_TRUE(tensor.Read() == bytes);
      ASSERT_CUDA(cudaDeviceSynchronize());
      EXPECT_TRUE(tensor.Read() == bytes);
    }
  }
}

TEST_P(TensorUploadTest, WaitsForTheEvent) {
  DeviceFixture fixture(GetParam());
  const OnDevice tensor = fixture.Make(1, 100);
  cudaStream_t other = nullptr;
  cudaEvent_t event = nullptr;
  ASSERT_CUDA(cudaStreamCreate(&other));
  ASSERT_CUDA(cudaEventCreateWithFlags(&event, 0));
  fixture.Train(tensor, 1, other);
  ASSERT_CUDA(cudaEventRecord(event, other));
  const std::string bytes = BytesAfter(9, 100);
  ASSERT_OK(Upload(fixture, tensor, bytes, 100, event));
  ASSERT_CUDA(cudaDeviceSynchronize());
  EXPECT_EQ(tensor.Read(), bytes);
  EXPECT_CUDA(cudaEventDestroy(event));
  EXPECT_CUDA(cudaStreamDestroy(other));
}

// The gaps between rows are not written.
TEST_P(TensorUploadTest, BytesBetweenRowsAreUnchanged) {
  DeviceFixture fixture(GetParam());
  const OnDevice tensor = fixture.Make(50, 6, 3);
  std::fill(tensor.memory, tensor.memory + 50 * 9, '\x22');
  ASSERT_OK(Upload(fixture, tensor, BytesAfter(1, 300), 300));
  for (int row = 0; row < 50; ++row) {
    EXPECT_EQ(std::string(tensor.memory + row * 9 + 6, 3), "\x22\x22\x22");
  }
}

TEST_P(TensorUploadTest, ChangedCopyIsDataLossNamingTheTensor) {
  for (const int copy : {1, 3, 5}) {  // each chunk: a copy there, and one back
    SCOPED_TRACE(copy);
    DeviceFixture fixture(GetParam());
    const OnDevice tensor = fixture.Make(4, kMiB);
    CudaStandin::FlipCopy(copy, 99);
    const absl::Status status =
        Upload(fixture, tensor, BytesAfter(1, 4 * kMiB), kMiB);
    EXPECT_THAT(status, StatusIs(absl::StatusCode::kDataLoss,
                                 HasSubstr(absl::StrCat("tensor \"w\": bytes ",
                                                        (copy - 1) / 2 * kMiB,
                                                        " to "))));
  }
}

TEST_P(TensorUploadTest, RejectsBytesBeyondTheTensor) {
  DeviceFixture fixture(GetParam());
  const OnDevice tensor = fixture.Make(1, 10);
  ASSERT_OK_AND_ASSIGN(
      const auto upload,
      fixture.device()->BeginUpload("w", fixture.StateOf(tensor), 10));
  EXPECT_OK(upload->Write(0, std::string(10, 'a')));
  const absl::Status status = upload->Write(5, std::string(6, 'b'));
  EXPECT_THAT(status,
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("bytes 5 to 11, expected at most its 10")));
  ASSERT_OK(upload->Finish());
  EXPECT_EQ(tensor.Read(), std::string(10, 'a'));
}

TEST_P(TensorUploadTest, EachCallMayFail) {
  bool failed = true;
  int64_t call = 1;
  for (; failed; ++call) {
    SCOPED_TRACE(call);
    DeviceFixture fixture(GetParam());
    const OnDevice tensor = fixture.Make(4, kMiB);
    const std::string bytes = BytesAfter(3, 4 * kMiB);
    const int64_t before = CudaStandin::calls();
    CudaStandin::FailCall(before + call, cudaErrorLaunchFailure);
    const absl::Status status = Upload(fixture, tensor, bytes, 3 * kMiB / 2);
    failed = CudaStandin::calls() >= before + call;
    CudaStandin::FailCall(0, cudaSuccess);
    if (status.ok()) {
      EXPECT_TRUE(tensor.Read() == bytes);
    } else {
      EXPECT_THAT(std::string(status.message()), HasSubstr("(719)"));
    }
    ASSERT_OK(Upload(fixture, tensor, bytes, kMiB));
    EXPECT_TRUE(tensor.Read() == bytes);
    if (::testing::Test::HasFailure()) return;
  }
  EXPECT_GT(call, 20);
}

INSTANTIATE_TEST_SUITE_P(Orders, TensorUploadTest,
                         ::testing::Values(Order::kLazy, Order::kEager,
                                           Order::kRandom),
                         NameOf);

}  // namespace
}  // namespace ckptdb::testing
