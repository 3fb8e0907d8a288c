// SPDX-License-Identifier: Apache-2.0
// Turns Ctrl-C into a request: while an Interrupt lives, SIGINT and SIGTERM
// make asked() true instead of ending the process. A second signal of the same
// kind ends it.
//
//   const Interrupt interrupt;
//   options.cancelled = [] { return Interrupt::asked(); };
//   store->Fold(step, options);
#ifndef CKPTDB_TOOLS_INTERRUPT_H_
#define CKPTDB_TOOLS_INTERRUPT_H_

#include <csignal>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace ckptdb::tool {

class Interrupt {
 public:
  // Only one may exist at a time. An ignored signal remains ignored.
  Interrupt();
  // Restores the previous signal handlers.
  ~Interrupt();
  Interrupt(const Interrupt&) = delete;
  Interrupt& operator=(const Interrupt&) = delete;

  // Returns whether a signal arrived since the last Interrupt was created. Any
  // thread may call it.
  static bool asked();
  // Returns Cancelled if a signal arrived, otherwise OK.
  static absl::Status Check();
  // Returns Cancelled with "interrupted; " and the consequence if `status` is
  // Cancelled, otherwise `status`.
  static absl::Status Describe(const absl::Status& status,
                               absl::string_view consequence);

 private:
  struct sigaction old_int_ = {};
  struct sigaction old_term_ = {};
};

}  // namespace ckptdb::tool

#endif  // CKPTDB_TOOLS_INTERRUPT_H_
