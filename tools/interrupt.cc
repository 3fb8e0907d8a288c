// SPDX-License-Identifier: Apache-2.0
#include "tools/interrupt.h"

#include <atomic>

#include "absl/strings/str_cat.h"

namespace ckptdb::tool {
namespace {

std::atomic<bool> is_asked = false;
static_assert(std::atomic<bool>::is_always_lock_free);

// All that a signal handler may do; commands poll it between units of work.
void Ask(int /*signal*/) { is_asked = true; }

void Catch(int signal, struct sigaction* old) {
  sigaction(signal, nullptr, old);
  // A signal that was ignored when the command started, as under nohup, remains
  // ignored.
  if (old->sa_handler == SIG_IGN) return;
  struct sigaction action = {};
  action.sa_handler = Ask;
  // The next signal has its default effect.
  action.sa_flags = static_cast<int>(SA_RESETHAND | SA_RESTART);
  sigemptyset(&action.sa_mask);
  sigaction(signal, &action, nullptr);
}

}  // namespace

Interrupt::Interrupt() {
  is_asked = false;
  Catch(SIGINT, &old_int_);
  Catch(SIGTERM, &old_term_);
}

Interrupt::~Interrupt() {
  sigaction(SIGINT, &old_int_, nullptr);
  sigaction(SIGTERM, &old_term_, nullptr);
}

bool Interrupt::asked() { return is_asked; }

absl::Status Interrupt::Check() {
  return is_asked ? absl::CancelledError("interrupted") : absl::OkStatus();
}

absl::Status Interrupt::Describe(const absl::Status& status,
                                 absl::string_view consequence) {
  if (!absl::IsCancelled(status)) return status;
  return absl::CancelledError(absl::StrCat("interrupted; ", consequence));
}

}  // namespace ckptdb::tool
