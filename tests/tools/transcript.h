// SPDX-License-Identifier: Apache-2.0
// Outputs of the command that are kept in files, and compared with what it
// prints now. What differs from run to run, such as times, sizes on disk and
// identities, is normalized in one place: here.
#ifndef CKPTDB_TESTS_TOOLS_TRANSCRIPT_H_
#define CKPTDB_TESTS_TOOLS_TRANSCRIPT_H_

#include <string>

namespace ckptdb::testing {

// Replaces times, durations, sizes, the library's version and identities by
// words, and runs of spaces by two, because they depend on the width of
// columns. A JSON document keeps its form. Texts that are normalized already do
// not change.
std::string Normalized(const std::string& text);

// Returns whether the environment variable CKPTDB_WRITE_GOLDEN asks to write
// the files anew.
bool WritesGolden();

// Runs a line of a shell, in which "ckptdb" is the built command and the
// current folder is `folder`, and returns what it prints, errors included.
std::string RunInShell(const std::string& line, const std::string& folder);

}  // namespace ckptdb::testing

#endif  // CKPTDB_TESTS_TOOLS_TRANSCRIPT_H_
