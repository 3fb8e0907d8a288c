// A function that can stop in its middle and go on later, on a stack of its
// own.
//
//   Fiber fiber;
//   fiber.Start([] { ...; Fiber::Yield(); ...; });
//   fiber.Resume();            // until Yield()
//   fiber.Resume();            // to the end
//   EXPECT_TRUE(fiber.ended());
//
// A fiber that has ended can be started again, on the same stack. Its function
// must not throw. All fibers of a thread are resumed by that thread.
#ifndef CKPTDB_TESTS_SUPPORT_FIBER_H_
#define CKPTDB_TESTS_SUPPORT_FIBER_H_

#include <functional>
#include <memory>

namespace ckptdb::testing {

class Fiber {
 public:
  Fiber();
  Fiber(const Fiber&) = delete;
  Fiber& operator=(const Fiber&) = delete;
  ~Fiber();

  // The last function must have ended. `function` stays until this one has.
  void Start(const std::function<void()>& function);
  // Runs the function until it yields or ends.
  void Resume();
  bool ended() const { return function_ == nullptr; }

  // Returns to the caller of Resume() of the fiber that runs.
  static void Yield();

 private:
  struct Switch;  // what a change of stacks needs

  const std::function<void()>* function_ = nullptr;
  std::unique_ptr<char[]> stack_;
  void* context_;  // of the function while it does not run
  std::unique_ptr<Switch> switch_;
};

}  // namespace ckptdb::testing

#endif  // CKPTDB_TESTS_SUPPORT_FIBER_H_
