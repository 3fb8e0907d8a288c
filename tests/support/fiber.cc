// SPDX-License-Identifier: Apache-2.0
#include "tests/support/fiber.h"

#include <boost/context/detail/fcontext.hpp>
#include <cstddef>

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/common_interface_defs.h>
#elif defined(__SANITIZE_THREAD__)
#include <sanitizer/tsan_interface.h>
#endif

namespace ckptdb::testing {
namespace {

using boost::context::detail::fcontext_t;
using boost::context::detail::jump_fcontext;
using boost::context::detail::make_fcontext;
using boost::context::detail::transfer_t;

// Only touched pages take memory.
constexpr size_t kStackBytes = size_t{128} << 10;

thread_local Fiber* running = nullptr;

// AddressSanitizer must be told which stack is in use.
void BeforeSwitch([[maybe_unused]] void** leaves,
                  [[maybe_unused]] const void* stack,
                  [[maybe_unused]] size_t bytes) {
#if defined(__SANITIZE_ADDRESS__)
  __sanitizer_start_switch_fiber(leaves, stack, bytes);
#endif
}
void AfterSwitch([[maybe_unused]] void* enters,
                 [[maybe_unused]] const void** stack,
                 [[maybe_unused]] size_t* bytes) {
#if defined(__SANITIZE_ADDRESS__)
  __sanitizer_finish_switch_fiber(enters, stack, bytes);
#endif
}

// ThreadSanitizer has to be told of each fiber, and of each switch.
void* NewTsanFiber() {
#if defined(__SANITIZE_THREAD__)
  return __tsan_create_fiber(0);
#else
  return nullptr;
#endif
}
void DeleteTsanFiber([[maybe_unused]] void* fiber) {
#if defined(__SANITIZE_THREAD__)
  __tsan_destroy_fiber(fiber);
#endif
}
void* CurrentTsanFiber() {
#if defined(__SANITIZE_THREAD__)
  return __tsan_get_current_fiber();
#else
  return nullptr;
#endif
}
void SwitchTsanFiber([[maybe_unused]] void* to) {
#if defined(__SANITIZE_THREAD__)
  __tsan_switch_to_fiber(to, 0);
#endif
}

}  // namespace

struct Fiber::Switch {
  void* const tsan_fiber = NewTsanFiber();
  void* tsan_resumer = nullptr;
  fcontext_t resumer = nullptr;
  // AddressSanitizer needs the state of the side that was left, and the
  // resumer's stack.
  void* resumer_state = nullptr;
  void* fiber_state = nullptr;
  const void* resumer_stack = nullptr;
  size_t resumer_bytes = 0;

  // Runs on a new stack, and calls one function after another.
  static void Main(transfer_t from) {
    auto* const fiber = static_cast<Fiber*>(from.data);
    fiber->switch_->resumer = from.fctx;
    fiber->switch_->Entered();
    for (;;) {
      (*fiber->function_)();
      fiber->function_ = nullptr;
      fiber->switch_->Leave();
    }
  }

  // Both are called on the fiber's stack.
  void Entered() { AfterSwitch(fiber_state, &resumer_stack, &resumer_bytes); }
  void Leave() {
    BeforeSwitch(&fiber_state, resumer_stack, resumer_bytes);
    SwitchTsanFiber(tsan_resumer);
    resumer = jump_fcontext(resumer, nullptr).fctx;
    Entered();
  }
};

Fiber::Fiber()
    : stack_(std::make_unique_for_overwrite<char[]>(kStackBytes)),
      context_(make_fcontext(stack_.get() + kStackBytes, kStackBytes,
                             &Switch::Main)),
      switch_(std::make_unique<Switch>()) {}

Fiber::~Fiber() { DeleteTsanFiber(switch_->tsan_fiber); }

void Fiber::Start(const std::function<void()>& function) {
  function_ = &function;
}

void Fiber::Resume() {
  running = this;
  BeforeSwitch(&switch_->resumer_state, stack_.get(), kStackBytes);
  switch_->tsan_resumer = CurrentTsanFiber();
  SwitchTsanFiber(switch_->tsan_fiber);
  context_ = jump_fcontext(context_, this).fctx;
  AfterSwitch(switch_->resumer_state, nullptr, nullptr);
  running = nullptr;
}

void Fiber::Yield() { running->switch_->Leave(); }

}  // namespace ckptdb::testing
