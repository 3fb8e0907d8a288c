// SPDX-License-Identifier: Apache-2.0
// The ckptdb command.
#include <fcntl.h>
#include <unistd.h>

#include <csignal>
#include <exception>
#include <iostream>

#include "remote/urls.h"
#include "tools/command_line.h"
#include "tools/interrupt.h"
#include "tools/terminal.h"

namespace {

// A descriptor that the caller has closed would be given to the next file that
// is opened, such as one of a store, and output would be written into it. Here
// it becomes one that can neither be read nor written.
void HoldStandardStreams() {
  for (const int stream : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
    if (fcntl(stream, F_GETFD) < 0) static_cast<void>(open("/", O_PATH));
  }
}

}  // namespace

int main(int argc, char** argv) {
  using ckptdb::tool::ExitCode;
  HoldStandardStreams();
  // Beyond the limit on the size of a file, a write then fails with EFBIG.
  std::signal(SIGXFSZ, SIG_IGN);
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
