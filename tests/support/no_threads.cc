// SPDX-License-Identifier: Apache-2.0
#include "tests/support/no_threads.h"

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)

namespace ckptdb::testing {

NoThreads::NoThreads(int /*first*/) {}
NoThreads::~NoThreads() = default;

}  // namespace ckptdb::testing

#else

#include <dlfcn.h>
#include <pthread.h>

#include <atomic>
#include <cerrno>
#include <limits>
#include <memory>

namespace ckptdb::testing {
namespace {

constexpr int kAll = std::numeric_limits<int>::max();

std::atomic<int> threads_left = kAll;

bool TakeThread() {
  int left = threads_left;
  while (left != kAll) {
    if (left == 0) return false;
    if (threads_left.compare_exchange_weak(left, left - 1)) return true;
  }
  return true;
}

void GiveThread() {
  int left = threads_left;
  while (left != kAll && !threads_left.compare_exchange_weak(left, left + 1)) {
  }
}

struct Body {
  void* (*run)(void*);
  void* argument;
};

void* RunBody(void* argument) {
  const std::unique_ptr<Body> body(static_cast<Body*>(argument));
  void* const result = body->run(body->argument);
  GiveThread();
  return result;
}

}  // namespace

NoThreads::NoThreads(int first) { threads_left = first; }
NoThreads::~NoThreads() { threads_left = kAll; }

}  // namespace ckptdb::testing

// Replaces the C library's pthread_create in all libraries of the program.
extern "C" int pthread_create(pthread_t* thread, const pthread_attr_t* options,
                              void* (*run)(void*), void* argument) {
  using Create =
      int (*)(pthread_t*, const pthread_attr_t*, void* (*)(void*), void*);
  static const auto kCreate =
      reinterpret_cast<Create>(dlsym(RTLD_NEXT, "pthread_create"));
  if (!ckptdb::testing::TakeThread()) return EAGAIN;
  auto body = std::make_unique<ckptdb::testing::Body>();
  *body = {run, argument};
  const int error =
      kCreate(thread, options, ckptdb::testing::RunBody, body.get());
  if (error == 0) {
    body.release();
  } else {
    ckptdb::testing::GiveThread();
  }
  return error;
}

#endif
