// SPDX-License-Identifier: Apache-2.0
// The ckptdb command.
#include <unistd.h>

#include <exception>
#include <iostream>

#include "remote/urls.h"
#include "tools/command_line.h"
#include "tools/interrupt.h"
#include "tools/terminal.h"

int main(int argc, char** argv) {
  using ckptdb::tool::ExitCode;
  std::ostream* terminal = isatty(STDERR_FILENO) == 1 ? &std::cerr : nullptr;
  ckptdb::tool::SetTerminalStyle(ckptdb::tool::StandardOutputStyle());
  ckptdb::UrlOptions urls;
  urls.remote.cancelled = [] { return ckptdb::tool::Interrupt::asked(); };
  ckptdb::EnableUrls(urls);
  try {
    ckptdb::tool::Pager pager;
    return static_cast<int>(ckptdb::tool::RunCommandLine(
        argc, argv, {&std::cout, &std::cerr, terminal, [&pager] {
                       return pager.Start();
                     }}));
  } catch (const std::exception& error) {
    // The library does not throw, so this can only be out of memory.
    std::cerr << "ckptdb: " << error.what() << '\n';
    return static_cast<int>(ExitCode::kFailed);
  }
}
