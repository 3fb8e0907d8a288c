// SPDX-License-Identifier: Apache-2.0
// Measures how fast rows of a table in GPU memory are marked, gathered and
// captured, relative to the device's own copy in the same run.
//
//   cuda_row_bench [MILLION_ROWS]     of 256 bytes. Default: 10
//
// Prints a table with the thresholds for docs/gpu.md, and the missed ones.
// Exits with 1 if any are missed, and with 77 without a GPU.
#include <cuda_runtime_api.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <functional>
#include <iostream>
#include <memory>
#include <numeric>
#include <random>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_format.h"
#include "cuda/cuda_device.h"
#include "cuda/device_table.h"
#include "cuda/kernels/row_kernels.h"
#include "cuda/runtime/buffer.h"
#include "cuda/runtime/device_context.h"
#include "cuda/runtime/status.h"
#include "manager/internal/tensor_device.h"
#include "schema/status.h"
#include "tests/cuda/bars.h"

namespace ckptdb {
namespace {

using internal::CudaStatus;
using internal::DeviceBuffer;

constexpr int kRuns = 9;
constexpr int kNoGpu = 77;
constexpr uint32_t kRowBytes = 256;

class RowBench {
 public:
  RowBench(CudaDevice* device, uint64_t rows) : device_(device), rows_(rows) {}

  absl::Status Run() {
    CKPTDB_RETURN_IF_ERROR(Prepare());
    CKPTDB_ASSIGN_OR_RETURN(const double copy, MeasureCopy());
    CKPTDB_RETURN_IF_ERROR(MeasureGather(copy));
    CKPTDB_RETURN_IF_ERROR(MeasureMarks());
    return MeasureSave();
  }
  const Thresholds& thresholds() const { return thresholds_; }

 private:
  uint64_t some() const { return rows_ / 100; }

  absl::Status Prepare() {
    CKPTDB_RETURN_IF_ERROR(
        CudaStatus(cudaStreamCreate(&stream_), "cudaStreamCreate"));
    CKPTDB_RETURN_IF_ERROR(CudaStatus(cudaEventCreate(&begin_), "event"));
    CKPTDB_RETURN_IF_ERROR(CudaStatus(cudaEventCreate(&end_), "event"));
    CKPTDB_ASSIGN_OR_RETURN(
        table_, DeviceBuffer::Allocate(rows_ * kRowBytes, "the table"));
    CKPTDB_ASSIGN_OR_RETURN(
        batch_, DeviceBuffer::Allocate(some() * kRowBytes, "the rows"));
    CKPTDB_ASSIGN_OR_RETURN(digest_, DeviceBuffer::Allocate(8, "a digest"));
    std::vector<uint32_t> all(rows_);
    std::iota(all.begin(), all.end(), 0U);
    std::shuffle(all.begin(), all.end(), std::mt19937_64(1));
    all.resize(some());
    std::sort(all.begin(), all.end());
    CKPTDB_ASSIGN_OR_RETURN(list_, DeviceBuffer::Allocate(some() * 4, "list"));
    CKPTDB_RETURN_IF_ERROR(CudaStatus(
        cudaMemcpy(list_.get(), all.data(), some() * 4, cudaMemcpyHostToDevice),
        "cudaMemcpy"));
    CKPTDB_RETURN_IF_ERROR(CudaStatus(
        cudaMemset(table_.get(), 1, rows_ * kRowBytes), "cudaMemset"));
    std::shuffle(all.begin(), all.end(), std::mt19937_64(2));
    const std::vector<int64_t> marked(all.begin(), all.end());
    CKPTDB_ASSIGN_OR_RETURN(marked_,
                            DeviceBuffer::Allocate(some() * 8, "marks"));
    CKPTDB_RETURN_IF_ERROR(
        CudaStatus(cudaMemcpy(marked_.get(), marked.data(), some() * 8,
                              cudaMemcpyHostToDevice),
                   "cudaMemcpy"));
    DeviceTable::Options options;
    options.stream = stream_;
    CKPTDB_ASSIGN_OR_RETURN(
        device_table_,
        DeviceTable::Make(
            device_, rows_,
            {{{"embedding", DType::kF32, kRowBytes / 4}, table_.get()}},
            options));
    CKPTDB_ASSIGN_OR_RETURN(consumer_,
                            device_table_->tracker()->AddConsumer("bench"));
    return device_table_->tracker()->Take(consumer_).status();
  }

  using Work = std::function<absl::Status()>;

  // Returns the median time on the stream, in milliseconds, without the
  // preparation of each run.
  absl::StatusOr<double> Time(
      const Work& queue,
      const Work& prepare = [] { return absl::OkStatus(); }) {
    std::vector<double> times;
    for (int i = 0; i < kRuns; ++i) {
      CKPTDB_RETURN_IF_ERROR(prepare());
      CKPTDB_RETURN_IF_ERROR(
          CudaStatus(cudaStreamSynchronize(stream_), "stream"));
      cudaEventRecord(begin_, stream_);
      CKPTDB_RETURN_IF_ERROR(queue());
      cudaEventRecord(end_, stream_);
      CKPTDB_RETURN_IF_ERROR(CudaStatus(cudaEventSynchronize(end_), "event"));
      float milliseconds = 0;
      cudaEventElapsedTime(&milliseconds, begin_, end_);
      times.push_back(milliseconds);
    }
    std::sort(times.begin(), times.end());
    return times[kRuns / 2];
  }

  absl::StatusOr<double> MeasureCopy() {
    return Time([&] {
      return CudaStatus(
          cudaMemcpyAsync(batch_.get(), table_.get(), some() * kRowBytes,
                          cudaMemcpyDeviceToDevice, stream_),
          "copy");
    });
  }

  absl::Status MeasureGather(double copy) {
    const internal::GatherRowsOfSlot rows = {
        {table_.get(), kRowBytes, kRowBytes},
        reinterpret_cast<const uint32_t*>(list_.get()),
        0,
        some(),
        nullptr,
        reinterpret_cast<internal::Lane*>(batch_.get()),
        reinterpret_cast<uint64_t*>(digest_.get())};
    CKPTDB_ASSIGN_OR_RETURN(
        const double gather, Time([&] {
          return CudaStatus(internal::LaunchGather(rows, stream_), "gather");
        }));
    std::cout << absl::StrFormat(
        "| gather of %d of %d rows of %d bytes | %.3f ms | %.2f of the "
        "device's copy of as many bytes, %.3f ms | >= 0.5 |\n",
        some(), rows_, kRowBytes, gather, copy / gather, copy);
    thresholds_.AtLeast("the gather, of the device's copy,", copy / gather,
                        0.5);
    return absl::OkStatus();
  }

  absl::Status MeasureMarks() {
    const auto mark = [&] {
      return device_table_->MarkUpserted(
          reinterpret_cast<const int64_t*>(marked_.get()), some());
    };
    // A row that is marked already is only read.
    const auto clear = [&] {
      return device_table_->tracker()->Take(consumer_).status();
    };
    CKPTDB_ASSIGN_OR_RETURN(const double marks, Time(mark, clear));
    const double nanoseconds = marks * 1e6 / static_cast<double>(some());
    std::cout << absl::StrFormat(
        "| mark %d rows, in any order | %.3f ms | %.3f ns a row | <= 1 ns |\n",
        some(), marks, nanoseconds);
    thresholds_.AtMost("a mark, in ns,", nanoseconds, 1);
    return absl::OkStatus();
  }

  // Measured from the last work before a save to the first work after it.
  absl::Status MeasureSave() {
    std::unique_ptr<TableState::Captured> captured;
    ChangeTracker::Changes changes;
    const auto save = [&]() -> absl::Status {
      captured.reset();
      CKPTDB_RETURN_IF_ERROR(device_table_->MarkUpserted(
          reinterpret_cast<const int64_t*>(marked_.get()), some()));
      CKPTDB_ASSIGN_OR_RETURN(changes,
                              device_table_->tracker()->Take(consumer_));
      const absl::Span<const int64_t> ids = changes.upserted;
      CKPTDB_ASSIGN_OR_RETURN(captured, device_table_->Capture(&ids));
      return absl::OkStatus();
    };
    CKPTDB_ASSIGN_OR_RETURN(const double blocked, Time(save));
    std::cout << absl::StrFormat(
        "| the trainer's stream is blocked by a save of 1 %% of %.1f GiB | "
        "%.3f "
        "ms | | <= 2 ms |\n",
        static_cast<double>(rows_) * kRowBytes / (1 << 30), blocked);
    thresholds_.AtMost("the time that a save blocks the stream, in ms,",
                       blocked, 2);
    return captured->Fetch();
  }

  CudaDevice* const device_;
  const uint64_t rows_;
  cudaStream_t stream_ = nullptr;
  cudaEvent_t begin_ = nullptr;
  cudaEvent_t end_ = nullptr;
  DeviceBuffer table_;
  DeviceBuffer batch_;
  DeviceBuffer digest_;
  DeviceBuffer list_;
  DeviceBuffer marked_;
  std::unique_ptr<DeviceTable> device_table_;
  ChangeTracker::Consumer consumer_;
  Thresholds thresholds_;
};

int RowBenchMain(int argc, char** argv) {
  uint64_t millions = 10;
  if (argc > 1) millions = std::strtoull(argv[1], nullptr, 10);
  CudaDevice::Options options;
  options.staging_bytes = uint64_t{1} << 30;
  const auto device = CudaDevice::Open(options);
  if (!device.ok()) {
    std::cerr << device.status() << "\n";
    return 1;
  }
  if ((*device)->context() == nullptr) return kNoGpu;
  std::cout << "| rows of a table | time | | threshold |\n|---|---|---|---|\n";
  RowBench bench(device->get(), std::max<uint64_t>(millions, 1) * 1'000'000);
  const absl::Status status = bench.Run();
  if (status.ok()) return bench.thresholds().ExitCode();
  std::cerr << status << "\n";
  return 1;
}

}  // namespace
}  // namespace ckptdb

int main(int argc, char** argv) { return ckptdb::RowBenchMain(argc, argv); }
