// SPDX-License-Identifier: Apache-2.0
// Measures on a GPU how fast tensors are copied to the host, relative to one
// large copy in the same run, how long the trainer's stream waits for a save,
// and how much a save slows down its steps; or how fast rows of a table are
// marked, gathered and captured, relative to the device's own copy.
//
//   cuda_bench [MIB]            of a tensor. Default: 1024; 0: only opens the
//                               device and prints its name
//   cuda_bench rows [MILLIONS]  of rows of 256 bytes. Default: 10
//
// Prints a table for docs/gpu.md, and the missed thresholds. Exits with 1 if
// any are missed, and with 77 if there is no GPU.
#include <cuda_runtime_api.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <functional>
#include <iostream>
#include <memory>
#include <numeric>
#include <random>
#include <string>
#include <thread>
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
#include "cuda/tensors/packed_batch.h"
#include "manager/internal/tensor_device.h"
#include "schema/status.h"

namespace ckptdb {
namespace {

using internal::CudaStatus;
using internal::DeviceBuffer;

constexpr int kRuns = 15;
constexpr int kNoGpu = 77;
constexpr uint32_t kRowBytes = 256;

// The least or the most that the benchmark may measure.
class Thresholds {
 public:
  void AtLeast(const char* what, double measured, double bar) {
    if (measured < bar) Miss(what, measured, "at least", bar);
  }
  void AtMost(const char* what, double measured, double bar) {
    if (measured > bar) Miss(what, measured, "at most", bar);
  }
  // Prints the missed thresholds, and returns the benchmark's exit code.
  int ExitCode() const {
    std::cout << missed_;
    return missed_.empty() ? 0 : 1;
  }

 private:
  void Miss(const char* what, double measured, const char* kind, double bar) {
    missed_ +=
        absl::StrFormat("threshold missed: %s is %.3f, expected %s %.3f\n",
                        what, measured, kind, bar);
  }

  std::string missed_;
};

double Median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

// A stream, and the time that its work takes.
class TimedStream {
 public:
  using Work = std::function<absl::Status()>;

  absl::Status Create() {
    CKPTDB_RETURN_IF_ERROR(
        CudaStatus(cudaStreamCreate(&stream_), "cudaStreamCreate"));
    CKPTDB_RETURN_IF_ERROR(CudaStatus(cudaEventCreate(&begin_), "event"));
    return CudaStatus(cudaEventCreate(&end_), "event");
  }
  cudaStream_t get() const { return stream_; }

  // Returns the time in milliseconds of what `queue` queues.
  absl::StatusOr<double> Time(const Work& queue) {
    cudaEventRecord(begin_, stream_);
    CKPTDB_RETURN_IF_ERROR(queue());
    cudaEventRecord(end_, stream_);
    CKPTDB_RETURN_IF_ERROR(CudaStatus(cudaEventSynchronize(end_), "work"));
    float milliseconds = 0;
    CKPTDB_RETURN_IF_ERROR(
        CudaStatus(cudaEventElapsedTime(&milliseconds, begin_, end_), "work"));
    return milliseconds;
  }
  // Returns the median time, without the preparation of each run.
  absl::StatusOr<double> MedianTime(
      const Work& queue,
      const Work& prepare = [] { return absl::OkStatus(); }) {
    std::vector<double> times;
    for (int i = 0; i < kRuns; ++i) {
      CKPTDB_RETURN_IF_ERROR(prepare());
      CKPTDB_RETURN_IF_ERROR(
          CudaStatus(cudaStreamSynchronize(stream_), "stream"));
      CKPTDB_ASSIGN_OR_RETURN(times.emplace_back(), Time(queue));
    }
    return Median(std::move(times));
  }

 private:
  cudaStream_t stream_ = nullptr;
  cudaEvent_t begin_ = nullptr;
  cudaEvent_t end_ = nullptr;
};

double NowMilliseconds() {
  return std::chrono::duration<double, std::milli>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

// The shortest times of several runs in turn: other work on the machine only
// makes runs longer.
struct Times {
  double large = 0;
  double copied = 0;
  double checked = 0;
};

void KeepShortest(double begin, double* shortest) {
  const double time = NowMilliseconds() - begin;
  if (*shortest == 0 || time < *shortest) *shortest = time;
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
  DeviceBuffer from;
  internal::PinnedBuffer to;
  uint64_t bytes;

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
    CKPTDB_RETURN_IF_ERROR(
        internal::CopyToHost(to.get(), from.get(), bytes, context->copies()));
    CKPTDB_RETURN_IF_ERROR(context->Synchronize());
    KeepShortest(begin, &times->large);
    const TensorState state = Tensor();
    internal::Packing packing;
    packing.Add({"t", &state, bytes, 0}, 0, bytes, 0);
    CKPTDB_ASSIGN_OR_RETURN(const auto batch, internal::PackedBatch::Begin(
                                                  context, &context->staging(),
                                                  std::move(packing)));
    CKPTDB_RETURN_IF_ERROR(batch->packed().Synchronize());
    begin = NowMilliseconds();
    CKPTDB_RETURN_IF_ERROR(batch->Copy(to.get()));
    KeepShortest(begin, &times->copied);
    begin = NowMilliseconds();
    CKPTDB_RETURN_IF_ERROR(batch->Check(to.get()));
    KeepShortest(begin, &times->checked);
    return absl::OkStatus();
  }
};

// A trainer on a stream, whose steps gather rows of its memory, like an
// embedding lookup.
class Trainer {
 public:
  // Its steps take as long as copying the tensor to the host.
  static constexpr int kSteps = 40;

  explicit Trainer(const Copies& copies) : copies_(copies) {}
  absl::Status Prepare() {
    CKPTDB_RETURN_IF_ERROR(stream_.Create());
    CKPTDB_ASSIGN_OR_RETURN(to_,
                            DeviceBuffer::Allocate(copies_.bytes + 8, "steps"));
    return absl::OkStatus();
  }

  // Returns how long the steps take, in milliseconds. If `with_save`, begins a
  // save first, which is copied to the host during the steps.
  absl::StatusOr<double> Run(bool with_save) {
    std::thread saving;
    absl::Status fetched;
    const auto time = stream_.Time([&]() -> absl::Status {
      if (with_save) {
        CKPTDB_RETURN_IF_ERROR(SetAside());
        saving = std::thread([&] { fetched = capture_->Fetch(); });
      }
      return QueueSteps();
    });
    if (saving.joinable()) saving.join();
    CKPTDB_RETURN_IF_ERROR(fetched);
    return time;
  }
  // Returns how long a save blocks the stream.
  absl::StatusOr<double> BlockedTime() {
    CKPTDB_ASSIGN_OR_RETURN(const double time,
                            stream_.Time([&] { return SetAside(); }));
    CKPTDB_RETURN_IF_ERROR(capture_->Fetch());
    return time;
  }

 private:
  absl::Status SetAside() {
    state_ = copies_.Tensor();
    state_.stream = stream_.get();
    const TensorState::Device::Item item = {"t", &state_, copies_.bytes, 0};
    CKPTDB_ASSIGN_OR_RETURN(
        capture_, copies_.device->SetAside({&item, 1}, copies_.to.get()));
    return absl::OkStatus();
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
          CudaStatus(internal::LaunchGather(rows, stream_.get()), "a step"));
    }
    return absl::OkStatus();
  }

  const Copies& copies_;
  TimedStream stream_;
  DeviceBuffer to_;
  TensorState state_;
  std::unique_ptr<TensorState::Device::Capture> capture_;
};

// Measures how long a save blocks the trainer's stream and how much it slows
// down the steps: medians of several runs in turn.
absl::Status MeasureTrainer(const Copies& copies, Thresholds* thresholds) {
  Trainer trainer(copies);
  CKPTDB_RETURN_IF_ERROR(trainer.Prepare());
  CKPTDB_RETURN_IF_ERROR(trainer.Run(/*with_save=*/true).status());
  std::vector<double> slower;
  std::vector<double> blocked;
  for (int i = 0; i < kRuns; ++i) {
    CKPTDB_ASSIGN_OR_RETURN(const double alone, trainer.Run(false));
    CKPTDB_ASSIGN_OR_RETURN(const double beside, trainer.Run(true));
    slower.push_back(beside / alone);
    CKPTDB_ASSIGN_OR_RETURN(blocked.emplace_back(), trainer.BlockedTime());
  }
  const double ratio = Median(std::move(slower));
  std::cout << absl::StrFormat(
      "\n%d steps of the trainer with a save: %.3f times as long as without "
      "one (threshold: <= 1.05)\nthe trainer's stream is blocked %.3f ms while "
      "%d MiB are captured\n",
      Trainer::kSteps, ratio, Median(std::move(blocked)), copies.bytes >> 20);
  thresholds->AtMost("a step with a save, of one without,", ratio, 1.05);
  return absl::OkStatus();
}

absl::Status MeasureTensors(CudaDevice* device, uint64_t bytes,
                            Thresholds* thresholds) {
  CKPTDB_ASSIGN_OR_RETURN(auto from,
                          DeviceBuffer::Allocate(bytes, "the tensor"));
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
  Print("chunks by the ring", times.copied, bytes, times.large);
  Print("digests on the host", times.checked, bytes, times.large);
  thresholds->AtLeast("the ring, of one large copy,",
                      times.large / times.copied, 0.9);
  return MeasureTrainer(copies, thresholds);
}

class RowBench {
 public:
  RowBench(CudaDevice* device, uint64_t rows, Thresholds* thresholds)
      : device_(device), rows_(rows), thresholds_(*thresholds) {}

  absl::Status Run() {
    CKPTDB_RETURN_IF_ERROR(Prepare());
    CKPTDB_RETURN_IF_ERROR(MeasureGather());
    CKPTDB_RETURN_IF_ERROR(MeasureMarks());
    return MeasureSave();
  }

 private:
  uint64_t some() const { return rows_ / 100; }

  absl::Status Prepare() {
    CKPTDB_RETURN_IF_ERROR(stream_.Create());
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
    CKPTDB_RETURN_IF_ERROR(Send(all, &list_));
    CKPTDB_RETURN_IF_ERROR(CudaStatus(
        cudaMemset(table_.get(), 1, rows_ * kRowBytes), "cudaMemset"));
    std::shuffle(all.begin(), all.end(), std::mt19937_64(2));
    CKPTDB_RETURN_IF_ERROR(
        Send(std::vector<int64_t>(all.begin(), all.end()), &marked_));
    DeviceTable::Options options;
    options.stream = stream_.get();
    CKPTDB_ASSIGN_OR_RETURN(
        device_table_,
        DeviceTable::Make(
            device_, rows_,
            {{{"embedding", DType::kF32, kRowBytes / 4}, table_.get()}},
            options));
    CKPTDB_ASSIGN_OR_RETURN(consumer_,
                            device_table_->tracker()->AddConsumer("bench"));
    return Take();
  }
  template <typename T>
  static absl::Status Send(const std::vector<T>& values, DeviceBuffer* to) {
    const uint64_t bytes = values.size() * sizeof(T);
    CKPTDB_ASSIGN_OR_RETURN(*to, DeviceBuffer::Allocate(bytes, "a list"));
    return CudaStatus(
        cudaMemcpy(to->get(), values.data(), bytes, cudaMemcpyHostToDevice),
        "cudaMemcpy");
  }
  absl::Status Mark() {
    return device_table_->MarkUpserted(
        reinterpret_cast<const int64_t*>(marked_.get()), some());
  }
  absl::Status Take() {
    CKPTDB_ASSIGN_OR_RETURN(changes_,
                            device_table_->tracker()->Take(consumer_));
    return absl::OkStatus();
  }

  absl::Status MeasureGather() {
    CKPTDB_ASSIGN_OR_RETURN(const double copy, stream_.MedianTime([&] {
      return CudaStatus(
          cudaMemcpyAsync(batch_.get(), table_.get(), some() * kRowBytes,
                          cudaMemcpyDeviceToDevice, stream_.get()),
          "copy");
    }));
    const internal::GatherRowsOfSlot rows = {
        {table_.get(), kRowBytes, kRowBytes},
        reinterpret_cast<const uint32_t*>(list_.get()),
        0,
        some(),
        nullptr,
        reinterpret_cast<internal::Lane*>(batch_.get()),
        reinterpret_cast<uint64_t*>(digest_.get())};
    CKPTDB_ASSIGN_OR_RETURN(const double gather, stream_.MedianTime([&] {
      return CudaStatus(internal::LaunchGather(rows, stream_.get()), "gather");
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
    // A row that is marked already is only read.
    CKPTDB_ASSIGN_OR_RETURN(
        const double marks,
        stream_.MedianTime([&] { return Mark(); }, [&] { return Take(); }));
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
    CKPTDB_ASSIGN_OR_RETURN(
        const double blocked, stream_.MedianTime([&]() -> absl::Status {
          captured.reset();
          CKPTDB_RETURN_IF_ERROR(Mark());
          CKPTDB_RETURN_IF_ERROR(Take());
          const absl::Span<const int64_t> ids = changes_.upserted;
          CKPTDB_ASSIGN_OR_RETURN(captured, device_table_->Capture(&ids));
          return absl::OkStatus();
        }));
    std::cout << absl::StrFormat(
        "| the trainer's stream is blocked by a save of 1 %% of %.1f GiB | "
        "%.3f ms | | <= 2 ms |\n",
        static_cast<double>(rows_) * kRowBytes / (1 << 30), blocked);
    thresholds_.AtMost("the time that a save blocks the stream, in ms,",
                       blocked, 2);
    return captured->Fetch();
  }

  CudaDevice* const device_;
  const uint64_t rows_;
  Thresholds& thresholds_;
  TimedStream stream_;
  DeviceBuffer table_;
  DeviceBuffer batch_;
  DeviceBuffer digest_;
  DeviceBuffer list_;
  DeviceBuffer marked_;
  std::unique_ptr<DeviceTable> device_table_;
  ChangeTracker::Consumer consumer_;
  ChangeTracker::Changes changes_;
};

absl::Status PrintDevice() {
  cudaDeviceProp properties = {};
  CKPTDB_RETURN_IF_ERROR(CudaStatus(cudaGetDeviceProperties(&properties, 0),
                                    "cudaGetDeviceProperties"));
  std::cout << properties.name << ", compute capability " << properties.major
            << "." << properties.minor << "\n\n";
  return absl::OkStatus();
}

int Main(int argc, char** argv) {
  const bool rows = argc > 1 && argv[1] == std::string("rows");
  uint64_t amount = rows ? 10 : 1024;
  if (const char* const given = argv[rows ? 2 : 1]; given != nullptr) {
    char* end = nullptr;
    amount = std::strtoull(given, &end, 10);
    if (end == given || *end != '\0') {
      std::cerr << "\"" << given << "\" is not a whole number\n";
      return 2;
    }
  }
  CudaDevice::Options options;
  options.staging_bytes = rows ? uint64_t{1} << 30 : (amount + 2) << 20;
  const auto device = CudaDevice::Open(options);
  if (!device.ok()) {
    std::cerr << device.status() << "\n";
    return 1;
  }
  if ((*device)->context() == nullptr) return kNoGpu;
  PrintDevice().IgnoreError();
  if (amount == 0) return 0;
  if (rows) {
    std::cout << "| rows of a table | time | | threshold |\n"
              << "|---|---|---|---|\n";
  }
  Thresholds thresholds;
  const absl::Status status =
      rows ? RowBench(device->get(), amount * 1'000'000, &thresholds).Run()
           : MeasureTensors(device->get(), amount << 20, &thresholds);
  if (status.ok()) return thresholds.ExitCode();
  std::cerr << status << "\n";
  return 1;
}

}  // namespace
}  // namespace ckptdb

int main(int argc, char** argv) { return ckptdb::Main(argc, argv); }
