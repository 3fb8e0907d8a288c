// SPDX-License-Identifier: Apache-2.0
// Measures how fast tensors of a device are copied to the host, relative to one
// large copy in the same run; on a GPU also how long the trainer's stream waits
// for a save, and how much a save slows down its steps. With the stand-in it
// measures the ring's overhead over its copies, as CPU time of the process,
// because the machine may be busy.
//
//   cuda_bench [MIB]      Default: 1024 on a GPU, 256 with the stand-in; 0:
//   only
//                         opens the device and prints its name
//
// Prints a table for docs/gpu.md, and the missed thresholds. Exits with 1 if
// any are missed, and with 77 if there is no GPU.
#include <cuda_runtime_api.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <iostream>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "cuda/cuda_device.h"
#include "cuda/kernels/row_kernels.h"
#include "cuda/runtime/buffer.h"
#include "cuda/runtime/status.h"
#include "cuda/tensors/packed_batch.h"
#include "schema/status.h"
#include "tests/cuda/bars.h"
#ifdef CKPTDB_CUDA_STANDIN
#include "manager/internal/tensor_device.h"
#include "tests/support/cuda_standin.h"
#endif

namespace ckptdb {
namespace {

using internal::CudaStatus;

constexpr int kRuns = 15;
constexpr int kNoGpu = 77;

// With the stand-in this is CPU time, because the process itself performs the
// copies of the device.
double NowMilliseconds() {
#ifdef CKPTDB_CUDA_STANDIN
  timespec now = {};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) * 1e3 +
         static_cast<double>(now.tv_nsec) / 1e6;
#else
  return std::chrono::duration<double, std::milli>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
#endif
}
double MillisecondsSince(double begin) { return NowMilliseconds() - begin; }

// The shortest times of several runs in turn: other work on the machine only
// makes runs longer.
struct Times {
  double large = 0;
  double plain = 0;  // with the stand-in: the same chunks without the ring
  double copied = 0;
  double checked = 0;
  std::vector<double> ratios;  // of each run: the ring to those chunks
};

void KeepShortest(double time, double* shortest) {
  if (*shortest == 0 || time < *shortest) *shortest = time;
}

double Median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

void Print(absl::string_view what, double milliseconds, uint64_t bytes,
           double base) {
  std::cout << absl::StrFormat(
      "| %s | %.2f ms | %.1f GB/s | %.3f |\n", what, milliseconds,
      static_cast<double>(bytes) / milliseconds / 1e6, base / milliseconds);
}

// The source and the destination of the copies.
struct Copies {
  CudaDevice* device;
  internal::DeviceContext* context;
  internal::DeviceBuffer from;
  internal::PinnedBuffer to;
  uint64_t bytes;

  absl::Status OneLarge() const {
    CKPTDB_RETURN_IF_ERROR(
        internal::CopyToHost(to.get(), from.get(), bytes, context->copies()));
    return context->Synchronize();
  }
  TensorState Tensor() const {
    TensorState state;
    state.dtype = DType::kU8;
    state.shape = {static_cast<int64_t>(bytes)};
    state.data = from.get();
    state.device = device;
    return state;
  }
  // Times a large copy, then packs the tensor, and times its copy and check.
  absl::Status Run(Times* times) const {
    double begin = NowMilliseconds();
    CKPTDB_RETURN_IF_ERROR(OneLarge());
    KeepShortest(MillisecondsSince(begin), &times->large);
#ifdef CKPTDB_CUDA_STANDIN
    begin = NowMilliseconds();
    const uint64_t chunk = context->limits().chunk_bytes;
    for (uint64_t at = 0; at < bytes; at += chunk) {
      std::memcpy(to.get() + at, from.get() + at, std::min(chunk, bytes - at));
    }
    const double plain = MillisecondsSince(begin);
    KeepShortest(plain, &times->plain);
#endif
    const TensorState state = Tensor();
    internal::Packing packing;
    packing.Add({"t", &state, bytes, 0}, 0, bytes, 0);
    CKPTDB_ASSIGN_OR_RETURN(const auto batch, internal::PackedBatch::Begin(
                                                  context, &context->staging(),
                                                  std::move(packing)));
    CKPTDB_RETURN_IF_ERROR(batch->packed().Synchronize());
    begin = NowMilliseconds();
    CKPTDB_RETURN_IF_ERROR(batch->Copy(to.get()));
    const double copied = MillisecondsSince(begin);
    KeepShortest(copied, &times->copied);
#ifdef CKPTDB_CUDA_STANDIN
    times->ratios.push_back(copied / plain);
#endif
    begin = NowMilliseconds();
    CKPTDB_RETURN_IF_ERROR(batch->Check(to.get()));
    KeepShortest(MillisecondsSince(begin), &times->checked);
    return absl::OkStatus();
  }
};

#ifndef CKPTDB_CUDA_STANDIN
// A trainer on a stream, whose steps gather rows of its memory, like an
// embedding lookup.
class Trainer {
 public:
  // Its steps take as long as copying the tensor to the host.
  static constexpr int kSteps = 40;
  static constexpr uint32_t kRowBytes = 256;

  static absl::StatusOr<Trainer> Make(const Copies& copies) {
    Trainer trainer(copies);
    CKPTDB_RETURN_IF_ERROR(
        CudaStatus(cudaStreamCreate(&trainer.stream_), "cudaStreamCreate"));
    CKPTDB_RETURN_IF_ERROR(
        CudaStatus(cudaEventCreate(&trainer.begin_), "event"));
    CKPTDB_RETURN_IF_ERROR(CudaStatus(cudaEventCreate(&trainer.end_), "event"));
    CKPTDB_ASSIGN_OR_RETURN(trainer.to_, internal::DeviceBuffer::Allocate(
                                             copies.bytes + 8, "steps"));
    return trainer;
  }

  // Returns how long the steps take, in milliseconds. If `with_save`, begins a
  // save first, which is copied to the host during the steps.
  absl::StatusOr<double> Run(bool with_save) {
    cudaEventRecord(begin_, stream_);
    std::unique_ptr<TensorState::Device::Capture> capture;
    if (with_save) {
      CKPTDB_ASSIGN_OR_RETURN(capture, SetAside());
    }
    absl::Status fetched;
    std::thread saving([&] {
      if (with_save) fetched = capture->Fetch();
    });
    const absl::Status queued = QueueSteps();
    cudaEventRecord(end_, stream_);
    const absl::StatusOr<double> time = Elapsed();
    saving.join();
    CKPTDB_RETURN_IF_ERROR(queued);
    CKPTDB_RETURN_IF_ERROR(fetched);
    return time;
  }
  // Returns how long a save blocks the stream.
  absl::StatusOr<double> BlockedTime() {
    cudaEventRecord(begin_, stream_);
    CKPTDB_ASSIGN_OR_RETURN(const auto capture, SetAside());
    cudaEventRecord(end_, stream_);
    CKPTDB_ASSIGN_OR_RETURN(const double time, Elapsed());
    CKPTDB_RETURN_IF_ERROR(capture->Fetch());
    return time;
  }

 private:
  explicit Trainer(const Copies& copies) : copies_(copies) {}

  absl::StatusOr<std::unique_ptr<TensorState::Device::Capture>> SetAside() {
    state_ = copies_.Tensor();
    state_.stream = stream_;
    const TensorState::Device::Item item = {"t", &state_, copies_.bytes, 0};
    return copies_.device->SetAside({&item, 1}, copies_.to.get());
  }
  absl::Status QueueSteps() const {
    const internal::GatherRowsOfSlot rows = {
        {copies_.from.get(), kRowBytes, kRowBytes},
        nullptr,
        0,
        copies_.bytes / kRowBytes,
        nullptr,
        reinterpret_cast<internal::Lane*>(to_.get()),
        reinterpret_cast<uint64_t*>(to_.get() + copies_.bytes)};
    for (int step = 0; step < kSteps; ++step) {
      CKPTDB_RETURN_IF_ERROR(
          CudaStatus(internal::LaunchGather(rows, stream_), "a step"));
    }
    return absl::OkStatus();
  }
  absl::StatusOr<double> Elapsed() const {
    CKPTDB_RETURN_IF_ERROR(CudaStatus(cudaEventSynchronize(end_), "steps"));
    float milliseconds = 0;
    CKPTDB_RETURN_IF_ERROR(
        CudaStatus(cudaEventElapsedTime(&milliseconds, begin_, end_), "steps"));
    return milliseconds;
  }

  const Copies& copies_;
  cudaStream_t stream_ = nullptr;
  cudaEvent_t begin_ = nullptr;
  cudaEvent_t end_ = nullptr;
  internal::DeviceBuffer to_;
  TensorState state_;
};

// Measures how long a save blocks the trainer's stream and how much it slows
// down the steps: medians of several runs in turn.
absl::Status MeasureTrainer(const Copies& copies, Thresholds* thresholds) {
  CKPTDB_ASSIGN_OR_RETURN(Trainer trainer, Trainer::Make(copies));
  CKPTDB_RETURN_IF_ERROR(trainer.Run(/*with_save=*/true).status());
  std::vector<double> slower;
  std::vector<double> blocked_times;
  for (int i = 0; i < kRuns; ++i) {
    CKPTDB_ASSIGN_OR_RETURN(const double alone, trainer.Run(false));
    CKPTDB_ASSIGN_OR_RETURN(const double beside, trainer.Run(true));
    CKPTDB_ASSIGN_OR_RETURN(const double blocked, trainer.BlockedTime());
    slower.push_back(beside / alone);
    blocked_times.push_back(blocked);
  }
  const double ratio = Median(std::move(slower));
  std::cout << absl::StrFormat(
      "\n%d steps of the trainer with a save: %.3f times as long as without "
      "one (threshold: <= 1.05)\nthe trainer's stream is blocked %.3f ms while "
      "%d MiB are captured\n",
      Trainer::kSteps, ratio, Median(std::move(blocked_times)),
      copies.bytes >> 20);
  thresholds->AtMost("a step with a save, of one without,", ratio, 1.05);
  return absl::OkStatus();
}

absl::Status PrintDevice() {
  cudaDeviceProp properties = {};
  CKPTDB_RETURN_IF_ERROR(CudaStatus(cudaGetDeviceProperties(&properties, 0),
                                    "cudaGetDeviceProperties"));
  std::cout << properties.name << ", compute capability " << properties.major
            << "." << properties.minor << "\n\n";
  return absl::OkStatus();
}
#endif

absl::Status Run(CudaDevice* device, uint64_t bytes, Thresholds* thresholds) {
  CKPTDB_ASSIGN_OR_RETURN(
      auto from, internal::DeviceBuffer::Allocate(bytes, "the tensor"));
  CKPTDB_ASSIGN_OR_RETURN(
      auto to, internal::PinnedBuffer::Allocate(bytes + 64, "the host"));
  std::fill_n(to.get(), bytes, '\x5a');
  const Copies copies = {device, device->context(), std::move(from),
                         std::move(to), bytes};
  CKPTDB_RETURN_IF_ERROR(internal::CopyToDevice(
      copies.from.get(), copies.to.get(), bytes, copies.context->copies()));
  CKPTDB_RETURN_IF_ERROR(copies.context->Synchronize());
  Times times;
  for (int i = 0; i < kRuns; ++i) CKPTDB_RETURN_IF_ERROR(copies.Run(&times));
  std::cout << "| " << (bytes >> 20) << " MiB, shortest of " << kRuns
            << " | time | | relative to one large copy; threshold of the ring: "
               ">= 0.9 |\n"
            << "|---|---|---|---|\n";
  Print("one large copy", times.large, bytes, times.large);
#ifdef CKPTDB_CUDA_STANDIN
  Print("the same chunks by memcpy", times.plain, bytes, times.large);
#endif
  Print("chunks by the ring", times.copied, bytes, times.large);
  Print("digests on the host", times.checked, bytes, times.large);
#ifdef CKPTDB_CUDA_STANDIN
  const double ratio = Median(std::move(times.ratios));
  std::cout << absl::StrFormat(
      "\nthe ring takes %.3f times those chunks (median of %d runs; threshold: "
      "<= "
      "1.05)\n",
      ratio, kRuns);
  thresholds->AtMost("the ring, of the chunks by memcpy,", ratio, 1.05);
#else
  thresholds->AtLeast("the ring, of one large copy,",
                      times.large / times.copied, 0.9);
  CKPTDB_RETURN_IF_ERROR(MeasureTrainer(copies, thresholds));
#endif
  return absl::OkStatus();
}

int Main(int argc, char** argv) {
#ifdef CKPTDB_CUDA_STANDIN
  testing::CudaStandin::Reset({.order = testing::CudaStandin::Order::kLazy});
  uint64_t mib = 256;
#else
  uint64_t mib = 1024;
#endif
  if (argc > 1) {
    char* end = nullptr;
    mib = std::strtoull(argv[1], &end, 10);
    if (end == argv[1] || *end != '\0') {
      std::cerr << "MIB is \"" << argv[1] << "\", expected a whole number\n";
      return 2;
    }
  }
  CudaDevice::Options options;
  options.staging_bytes = (mib + 2) << 20;
  const auto device = CudaDevice::Open(options);
  if (!device.ok()) {
    std::cerr << device.status() << "\n";
    return 1;
  }
  if ((*device)->context() == nullptr) return kNoGpu;
#ifndef CKPTDB_CUDA_STANDIN
  PrintDevice().IgnoreError();
#endif
  if (mib == 0) return 0;
  Thresholds thresholds;
  const absl::Status status = Run(device->get(), mib << 20, &thresholds);
  if (status.ok()) return thresholds.ExitCode();
  std::cerr << status << "\n";
  return 1;
}

}  // namespace
}  // namespace ckptdb

int main(int argc, char** argv) { return ckptdb::Main(argc, argv); }
