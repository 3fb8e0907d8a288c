// Ctrl-C as a wish: while an Interrupt lives, SIGINT and SIGTERM make asked()
// true instead of ending the process. The second of the same kind ends it.
//
//   const Interrupt interrupt;
//   options.cancelled = [] { return Interrupt::asked(); };
//   store->Fold(step, options);
#ifndef CKPTDB_TOOLS_INTERRUPT_H_
#define CKPTDB_TOOLS_INTERRUPT_H_

#include <csignal>

namespace ckptdb::tool {

class Interrupt {
 public:
  // One at a time. A signal that is ignored stays ignored.
  Interrupt();
  // What the signals did before they do again.
  ~Interrupt();
  Interrupt(const Interrupt&) = delete;
  Interrupt& operator=(const Interrupt&) = delete;

  // From any thread: since the last one was made.
  static bool asked();

 private:
  struct sigaction old_int_ = {};
  struct sigaction old_term_ = {};
};

}  // namespace ckptdb::tool

#endif  // CKPTDB_TOOLS_INTERRUPT_H_
