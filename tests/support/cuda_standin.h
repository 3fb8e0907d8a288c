// SPDX-License-Identifier: Apache-2.0
// A stand-in for the CUDA runtime, linked in its place: device memory is host
// memory, and queued work runs when the test chooses.
//
//   CudaStandin::Reset({.order = CudaStandin::Order::kLazy});
//   CudaStandin::Queue(stream, "train", [&] { weights[0] = 1; });
//   ASSERT_EQ(cudaStreamSynchronize(stream), cudaSuccess);
//
// The device chooses which of a stream's work runs at once and which later. The
// two extremes are tested: kLazy runs nothing until somebody waits, and then
// only the awaited work, so a read without a wait finds old bytes; kEager runs
// everything as soon as its dependencies are done, so a write that comes too
// early destroys bytes that are still needed. kCopiesLast is eager except for
// copies to the host, as with a slow bus: overwriting their source too early
// destroys it. kRandom runs a random amount after each call.
//
// It rejects, and reports as a violation, what is undefined on a device: copies
// to unpinned memory or outside an allocation; freeing memory that queued work
// uses; using a destroyed stream; using streams and events of another device
// than the thread's; and calls that invalidate the capture of a stream into a
// graph.
//
// A call from a thread without a context creates one on device 0, as the
// runtime does. Only the driver calls that are looked up through the runtime
// exist.
//
// Thread-safe. All state is global to the process.
#ifndef CKPTDB_TESTS_SUPPORT_CUDA_STANDIN_H_
#define CKPTDB_TESTS_SUPPORT_CUDA_STANDIN_H_

#include <cuda_runtime_api.h>

#include <cstdint>
#include <functional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace ckptdb::testing {

class CudaStandin {
 public:
  enum class Order { kLazy, kEager, kCopiesLast, kRandom };
  struct Options {
    int devices = 1;
    // If there are no devices: 0 simulates a machine without a driver, any
    // other value one that is too old.
    int driver_version = 0;
    Order order = Order::kLazy;
    uint64_t seed = 0;  // for kRandom
    // The memory of each device, from which cudaMalloc allocates.
    uint64_t device_bytes = uint64_t{1} << 34;
  };
  // Memory that a kernel reads or writes.
  using Range = std::pair<const void*, uint64_t>;

  // Resets everything. Leftovers of an earlier test are dropped without a
  // violation.
  static void Reset(const Options& options);

  // Queues a kernel, as cudaLaunchKernel does.
  static cudaError_t Queue(cudaStream_t stream, const char* name,
                           std::function<void()> work,
                           std::vector<Range> ranges = {});

  // Begins or ends the capture of a stream into a graph, in a mode in which no
  // thread may allocate or free.
  static void Capture(cudaStream_t stream, bool begins);

  // Returns the devices on which a context was created since Reset.
  static std::vector<int> contexts();
  // Returns how many references to contexts the driver holds.
  static int64_t retained();

  // Runs all work queued on a stream, as a device may at any time. This is not
  // a runtime call.
  static void Finish(cudaStream_t stream);

  // Returns the number of runtime calls since Reset, including kernels.
  static int64_t calls();
  // Returns the names of the last calls, for test messages.
  static std::string LastCall();
  // Returns the name of the last call that FailCall made fail.
  static std::string FailedCall();
  // Makes call number `number`, counted like calls() from 1, fail with `error`,
  // and all later ones too if `forever`. 0: no call fails. Calls that free
  // something are counted but do not fail.
  static void FailCall(int64_t number, cudaError_t error, bool forever = false);
  // An ordering call: a wait of a stream or of the host, or the record of an
  // event.
  struct Ordering {
    int64_t number = 0;  // counted like calls() from 1
    std::string name;
  };
  static std::vector<Ordering> ordering_calls();
  // Makes call number `number` do nothing and return success, if it is an
  // ordering call. 0: skips none.
  static void SkipCall(int64_t number);
  // Flips a bit in byte `byte` of the destination of copy number `number`
  // between host and device, from 1. 0: flips none.
  static void FlipCopy(int64_t number, uint64_t byte);
  static int64_t copies();
  // Returns the bytes of all copies to the host since Reset.
  static uint64_t bytes_to_host();

  // Returns how often a thread has waited for a stream, an event or the device.
  static int64_t host_waits_of(std::thread::id thread);

  static std::vector<std::string> violations();
  // Resources that the process has not freed.
  static uint64_t device_bytes_used();
  static int64_t allocations();  // including host memory, streams and events
};

}  // namespace ckptdb::testing

#endif  // CKPTDB_TESTS_SUPPORT_CUDA_STANDIN_H_
