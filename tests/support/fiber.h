// SPDX-License-Identifier: Apache-2.0
// A function that can pause and continue later, on its own stack.
//
//   Fiber fiber;
//   fiber.Start([] { ...; Fiber::Yield(); ...; });
//   fiber.Resume();            // until Yield()
//   fiber.Resume();            // to the end
//   EXPECT_TRUE(fiber.ended());
//
// A fiber that has ended can be started again on the same stack. Its function
// must not throw. A thread must resume all its fibers itself.
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

  // The previous function must have ended. `function` must outlive the run.
  void Start(const std::function<void()>& function);
  // Runs the function until it yields or ends.
  void Resume();
  bool ended() const { return function_ == nullptr; }

  // Returns from the Resume() of the running fiber.
  static void Yield();

 private:
  struct Switch;  // the data of a stack switch

  const std::function<void()>* function_ = nullptr;
  std::unique_ptr<char[]> stack_;
  void* context_;  // of the paused function
  std::unique_ptr<Switch> switch_;
};

}  // namespace ckptdb::testing

#endif  // CKPTDB_TESTS_SUPPORT_FIBER_H_
