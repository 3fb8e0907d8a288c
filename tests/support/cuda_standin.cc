// SPDX-License-Identifier: Apache-2.0
#include "tests/support/cuda_standin.h"

#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "tests/support/cuda_standin_state.h"

namespace ckptdb::testing {

using standin::Locked;
using standin::State;
using standin::Stream;

void CudaStandin::Reset(const Options& options) {
  standin::contexts.clear();
  standin::capture_mode = cudaStreamCaptureModeGlobal;
  standin::last_error = cudaSuccess;
  State::Get().Reset(options);
}

cudaError_t CudaStandin::Queue(cudaStream_t stream, const char* name,
                               std::function<void()> work,
                               std::vector<Range> ranges) {
  const Locked state;
  cudaError_t error = state->Enter(name);
  const int device = state->UseContext();
  const std::shared_ptr<Stream> on = state->Find(stream);
  if (stream != nullptr && on != nullptr && on->device != device) {
    state->Violate(absl::StrCat("a kernel of cuda:", device,
                                " on a stream of cuda:", on->device));
  }
  if (error == cudaSuccess) {
    error = state->Push(stream,
                        {name, std::move(work), std::move(ranges), nullptr, 0});
  }
  return error;
}

void CudaStandin::Capture(cudaStream_t stream, bool begins) {
  const Locked state;
  const std::shared_ptr<Stream> found = state->Find(stream);
  if (found != nullptr) found->captured = begins;
}

std::vector<int> CudaStandin::contexts() {
  const Locked state;
  return {state->contexts_.begin(), state->contexts_.end()};
}

int64_t CudaStandin::retained() {
  const Locked state;
  int64_t all = 0;
  for (const auto& [device, count] : state->retained_) all += count;
  return all;
}

int64_t CudaStandin::calls() { return Locked()->calls_; }

std::string CudaStandin::LastCall() { return Locked()->last_call_; }

std::string CudaStandin::FailedCall() { return Locked()->failed_call_; }

void CudaStandin::FailCall(int64_t number, cudaError_t error, bool forever) {
  const Locked state;
  state->fail_call_ = number;
  state->fail_error_ = error;
  state->fail_forever_ = forever;
}

void CudaStandin::Finish(cudaStream_t stream) {
  const Locked state;
  const std::shared_ptr<Stream> found = state->Find(stream);
  if (found != nullptr) state->RunTo(found.get(), found->queued);
}

void CudaStandin::SkipCall(int64_t number) { Locked()->skip_call_ = number; }

std::vector<CudaStandin::Ordering> CudaStandin::ordering_calls() {
  return Locked()->ordering_;
}

void CudaStandin::FlipCopy(int64_t number, uint64_t byte) {
  const Locked state;
  state->flip_copy_ = number == 0 ? 0 : state->copies_ + number;
  state->flip_byte_ = byte;
}

int64_t CudaStandin::copies() { return Locked()->copies_; }

uint64_t CudaStandin::bytes_to_host() { return Locked()->bytes_to_host_; }

int64_t CudaStandin::host_waits_of(std::thread::id thread) {
  return Locked()->host_waits_[thread];
}

std::vector<std::string> CudaStandin::violations() {
  return Locked()->violations_;
}

uint64_t CudaStandin::device_bytes_used() { return Locked()->device_used_; }

int64_t CudaStandin::allocations() {
  const Locked state;
  int64_t streams = 0;
  for (const auto& [handle, stream] : state->streams_) {
    if (!stream->destroyed) ++streams;
  }
  return static_cast<int64_t>(state->memory_.size() + state->events_.size()) +
         streams;
}

}  // namespace ckptdb::testing
