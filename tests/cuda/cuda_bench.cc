// How fast tensors of a device come to the host, against one large copy in the
// same run; and on a GPU, how long the trainer's stream waits for a save, and
// by how much its steps are slower beside one. Over the stand-in it shows what
// the ring costs beside the copies that are in it, in CPU time of the process,
// as the machine may have other work.
//
//   cuda_bench [MIB]      Default: 1024 on a GPU, 256 over the stand-in
//
// Prints a table for docs/gpu.md. Exits with 77 if there is no GPU.
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
#include "ckptdb/cuda/cuda_device.h"
#include "ckptdb/cuda/runtime/buffer.h"
#include "ckptdb/cuda/runtime/status.h"
#include "ckptdb/cuda/tensors/packed_batch.h"
#include "ckptdb/schema/status.h"
#ifdef CKPTDB_CUDA_STANDIN
#include "ckptdb/tests/support/cuda_standin.h"
#endif

namespace ckptdb {
namespace {

using internal::CudaStatus;

constexpr int kRuns = 15;
constexpr int kNoGpu = 77;

// Over the stand-in this is CPU time, as a copy of the device is work of the
// process.
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

// The shortest times of each, of runs that take turns: what else a machine does
// makes single runs longer, and not shorter.
struct Times {
  double large = 0;
  double plain = 0;  // over the stand-in: the same chunks, without the ring
  double copied = 0;
  double checked = 0;
  std::vector<double> ratios;  // of each run, of the ring to those chunks
};

void KeepShortest(double time, double* shortest) {
  if (*shortest == 0 || time < *shortest) *shortest = time;
}

void Print(absl::string_view what, double milliseconds, uint64_t bytes,
           double base) {
  std::cout << absl::StrFormat(
      "| %s | %.2f ms | %.1f GB/s | %.3f |\n", what, milliseconds,
      static_cast<double>(bytes) / milliseconds / 1e6, base / milliseconds);
}

// The memory that is copied, and where to.
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
  // Times a large copy, and then packs the tensor, and times its copy and its
  // check.
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
// How long the trainer's stream waits for a save, and how much slower steps of
// copies within the device are while one is copied to the host.
absl::Status MeasureTrainer(const Copies& copies) {
  cudaStream_t stream = nullptr;
  cudaEvent_t begin = nullptr;
  cudaEvent_t end = nullptr;
  CKPTDB_RETURN_IF_ERROR(
      CudaStatus(cudaStreamCreate(&stream), "cudaStreamCreate"));
  CKPTDB_RETURN_IF_ERROR(CudaStatus(cudaEventCreate(&begin), "event"));
  CKPTDB_RETURN_IF_ERROR(CudaStatus(cudaEventCreate(&end), "event"));
  TensorState state = copies.Tensor();
  state.stream = stream;
  const TensorState::Device::Item item = {"t", &state, copies.bytes, 0};
  CKPTDB_ASSIGN_OR_RETURN(const auto other, internal::DeviceBuffer::Allocate(
                                                copies.bytes, "steps"));
  const auto steps = [&](float* milliseconds) -> absl::Status {
    cudaEventRecord(begin, stream);
    for (int i = 0; i < 50; ++i) {
      cudaMemcpyAsync(other.get(), copies.from.get(), copies.bytes,
                      cudaMemcpyDeviceToDevice, stream);
    }
    cudaEventRecord(end, stream);
    CKPTDB_RETURN_IF_ERROR(CudaStatus(cudaEventSynchronize(end), "steps"));
    cudaEventElapsedTime(milliseconds, begin, end);
    return absl::OkStatus();
  };
  float alone = 0;
  CKPTDB_RETURN_IF_ERROR(steps(&alone));
  CKPTDB_RETURN_IF_ERROR(steps(&alone));
  cudaEventRecord(begin, stream);
  CKPTDB_ASSIGN_OR_RETURN(const auto capture,
                          copies.device->SetAside({&item, 1}, copies.to.get()));
  cudaEventRecord(end, stream);
  absl::Status fetched;
  std::thread saving([&] { fetched = capture->Fetch(); });
  float beside = 0;
  const absl::Status stepped = steps(&beside);
  saving.join();
  CKPTDB_RETURN_IF_ERROR(stepped);
  CKPTDB_RETURN_IF_ERROR(fetched);
  std::cout << absl::StrFormat(
      "\nsteps of the trainer beside a save: %.3f times as long (bar: <= "
      "1.05)\n",
      beside / alone);
  // The gather alone, on an idle device.
  cudaEventRecord(begin, stream);
  CKPTDB_ASSIGN_OR_RETURN(const auto again,
                          copies.device->SetAside({&item, 1}, copies.to.get()));
  cudaEventRecord(end, stream);
  CKPTDB_RETURN_IF_ERROR(CudaStatus(cudaEventSynchronize(end), "gather"));
  float blocked = 0;
  cudaEventElapsedTime(&blocked, begin, end);
  std::cout << absl::StrFormat(
      "the trainer's stream waits %.3f ms for %d MiB to be set aside\n",
      blocked, copies.bytes >> 20);
  return again->Fetch();
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

absl::Status Run(CudaDevice* device, uint64_t bytes) {
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
            << " | time | | of one large copy; the ring's bar: >= 0.9 |\n"
            << "|---|---|---|---|\n";
  Print("one large copy", times.large, bytes, times.large);
#ifdef CKPTDB_CUDA_STANDIN
  Print("the same chunks by memcpy", times.plain, bytes, times.large);
#endif
  Print("chunks by the ring", times.copied, bytes, times.large);
  Print("digests on the host", times.checked, bytes, times.large);
#ifdef CKPTDB_CUDA_STANDIN
  std::sort(times.ratios.begin(), times.ratios.end());
  std::cout << absl::StrFormat(
      "\nthe ring takes %.3f times those chunks (median of %d runs)\n",
      times.ratios[times.ratios.size() / 2], kRuns);
#else
  CKPTDB_RETURN_IF_ERROR(MeasureTrainer(copies));
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
  if (argc > 1) mib = std::strtoull(argv[1], nullptr, 10);
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
  const absl::Status status = Run(device->get(), mib << 20);
  if (!status.ok()) std::cerr << status << "\n";
  return status.ok() ? 0 : 1;
}

}  // namespace
}  // namespace ckptdb

int main(int argc, char** argv) { return ckptdb::Main(argc, argv); }
