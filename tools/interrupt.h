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

namespace ckptdb::tool {

class Interrupt {
 public:
  // There may be one at a time. A signal that is ignored stays ignored.
  Interrupt();
  // Restores what the signals did before.
  ~Interrupt();
  Interrupt(const Interrupt&) = delete;
  Interrupt& operator=(const Interrupt&) = delete;

  // Returns, on any thread, whether a signal came since the last Interrupt was
  // made.
  static bool asked();
  // Returns Cancelled then.
  static absl::Status Check();

 private:
  struct sigaction old_int_ = {};
  struct sigaction old_term_ = {};
};

}  // namespace ckptdb::tool

#endif  // CKPTDB_TOOLS_INTERRUPT_H_
