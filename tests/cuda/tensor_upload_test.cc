// SPDX-License-Identifier: Apache-2.0
// Writing tensors to a device: stream order, the ring, digests, and failing
// calls.
#include <cuda_runtime_api.h>

#include <algorithm>
#include <memory>
#include <string>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "schema/status.h"
#include "tests/cuda/device_fixture.h"

namespace ckptdb::testing {
namespace {

using ::testing::HasSubstr;
using Order = CudaStandin::Order;

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
      ASSERT_EQ(cudaDeviceSynchronize(), cudaSuccess);
      EXPECT_TRUE(tensor.Read() == bytes);
    }
  }
}

TEST_P(TensorUploadTest, WaitsForTheEvent) {
  DeviceFixture fixture(GetParam());
  const OnDevice tensor = fixture.Make(1, 100);
  cudaStream_t other = nullptr;
  cudaEvent_t event = nullptr;
  ASSERT_EQ(cudaStreamCreate(&other), cudaSuccess);
  ASSERT_EQ(cudaEventCreateWithFlags(&event, 0), cudaSuccess);
  fixture.Train(tensor, 1, other);
  ASSERT_EQ(cudaEventRecord(event, other), cudaSuccess);
  const std::string bytes = BytesAfter(9, 100);
  ASSERT_OK(Upload(fixture, tensor, bytes, 100, event));
  ASSERT_EQ(cudaDeviceSynchronize(), cudaSuccess);
  EXPECT_EQ(tensor.Read(), bytes);
  EXPECT_EQ(cudaEventDestroy(event), cudaSuccess);
  EXPECT_EQ(cudaStreamDestroy(other), cudaSuccess);
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
    EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss) << status;
    EXPECT_THAT(std::string(status.message()),
                HasSubstr(absl::StrCat("tensor \"w\": bytes ",
                                       (copy - 1) / 2 * kMiB, " to ")));
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
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()),
              HasSubstr("bytes 5 to 11, expected at most its 10"));
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
                         [](const auto& given) {
                           return given.param == Order::kLazy    ? "Lazy"
                                  : given.param == Order::kEager ? "Eager"
                                                                 : "Random";
                         });

}  // namespace
}  // namespace ckptdb::testing
