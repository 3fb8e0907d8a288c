// SPDX-License-Identifier: Apache-2.0
// Describes the terminal on standard output, and runs the pager.
#ifndef CKPTDB_TOOLS_TERMINAL_H_
#define CKPTDB_TOOLS_TERMINAL_H_

#include <sys/types.h>

#include <cstddef>

namespace ckptdb::tool {

struct TerminalStyle {
  size_t columns = 0;        // lines of tables are cut there; 0: nowhere
  bool bold_titles = false;  // titles of tables
};

// The style of all tables, by default for a file. Set before any thread
// starts.
void SetTerminalStyle(const TerminalStyle& style);
const TerminalStyle& GetTerminalStyle();

// Returns the style for standard output: the default unless it is a
// terminal. Titles are bold unless NO_COLOR is set or TERM is "dumb".
TerminalStyle StandardOutputStyle();

// Shows standard output page by page, if it is a terminal: while a Pager lives,
// what is written to it goes through the command in PAGER, by default "less
// -FRX". An empty PAGER or "cat" turns it off. A PAGER that cannot be run is
// reported on standard error, and the output is shown without it.
class Pager {
 public:
  Pager() = default;
  // Waits until the user has left the pager.
  ~Pager();
  Pager(const Pager&) = delete;
  Pager& operator=(const Pager&) = delete;

  // Returns false where there is no terminal or no pager. Writing fails once
  // the user has left the pager; SIGPIPE is ignored from then on.
  bool Start();

 private:
  pid_t child_ = -1;
};

}  // namespace ckptdb::tool

#endif  // CKPTDB_TOOLS_TERMINAL_H_
