// A stand-in for the CUDA runtime, which is linked in its place: the memory of
// the device is host memory, and what is queued on a stream is done when the
// test wants it to be.
//
//   CudaStandin::Reset({.order = CudaStandin::Order::kLazy});
//   CudaStandin::Queue(stream, "train", [&] { weights[0] = 1; });
//   ASSERT_EQ(cudaStreamSynchronize(stream), cudaSuccess);
//
// What a stream may do at once and what it may put off is the device's choice.
// The two ends are tested: kLazy does nothing before somebody waits for it, and
// then only what was waited for, so that a read without a wait finds old bytes;
// kEager does everything as soon as what it waits for is done, so that a write
// that comes too early destroys bytes that are still needed. kCopiesLast is
// eager but for copies to the host, as behind a slow bus: what writes over
// their source too early destroys it. kRandom does something in between after
// each call.
//
// It refuses, and notes as a violation, what a device would be free to punish:
// copies to memory that is not pinned, or outside of an allocation; memory that
// is freed while work that is queued refers to it; a stream that was destroyed;
// streams and events of another device than the thread's; and what ends the
// capture of a stream into a graph.
//
// A call of a thread that has no context makes one on device 0, as calls of the
// runtime do. The calls of the driver are those that the runtime finds.
//
// Thread-safe. All state is the process's.
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
    // Without devices: 0 is a machine without a driver; else one that is too
    // old.
    int driver_version = 0;
    Order order = Order::kLazy;
    uint64_t seed = 0;  // of kRandom
    // The memory of each device, which counts what cudaMalloc gave.
    uint64_t device_bytes = uint64_t{1} << 34;
  };
  // Memory that a kernel reads or writes.
  using Range = std::pair<const void*, uint64_t>;

  // Begins anew. What an earlier test has left is dropped, and is a violation
  // of that test only if it looks.
  static void Reset(const Options& options);

  // Queues a kernel, as cudaLaunchKernel does.
  static cudaError_t Queue(cudaStream_t stream, const char* name,
                           std::function<void()> work,
                           std::vector<Range> ranges = {});

  // Begins or ends the capture of a stream into a graph, in a mode in which no
  // thread may allocate or free meanwhile.
  static void Capture(cudaStream_t stream, bool begins);

  // The devices on which something has made a context since Reset.
  static std::vector<int> contexts();
  // How many contexts the driver retains, each as often as it does.
  static int64_t retained();

  // Does all that is queued on a stream, as a device may at any time. It is no
  // call of the runtime.
  static void Finish(cudaStream_t stream);

  // The calls of the runtime since Reset, kernels included.
  static int64_t calls();
  // The names of the last calls, for messages of a test.
  static std::string LastCall();
  // The name of the last call that failed as FailCall says.
  static std::string FailedCall();
  // Makes the call of this number, counted like calls() from 1, fail with
  // `error`, and all later ones as well if `forever`. 0: none fails. Calls that
  // free something are counted and do not fail.
  static void FailCall(int64_t number, cudaError_t error, bool forever = false);
  // A call that orders something: a wait of a stream or of the host, or the
  // record of an event.
  struct Ordering {
    int64_t number = 0;  // counted like calls() from 1
    std::string name;
  };
  static std::vector<Ordering> ordering_calls();
  // Makes the call of this number do nothing, and return success, if it orders
  // something. 0: none is skipped.
  static void SkipCall(int64_t number);
  // Flips a bit of the byte `byte` of the copy of this number, from 1, of those
  // between host and device, in its destination. 0: of none.
  static void FlipCopy(int64_t number, uint64_t byte);
  static int64_t copies();
  // The bytes of all copies to the host since Reset.
  static uint64_t bytes_to_host();

  // How often a thread has waited for a stream, an event or the device.
  static int64_t host_waits_of(std::thread::id thread);

  static std::vector<std::string> violations();
  // What the process has not given back.
  static uint64_t device_bytes_used();
  static int64_t allocations();  // also of host memory, streams and events
};

}  // namespace ckptdb::testing

#endif  // CKPTDB_TESTS_SUPPORT_CUDA_STANDIN_H_
