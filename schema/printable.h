// Escapes text from a store for a terminal or a log.
#ifndef CKPTDB_SCHEMA_PRINTABLE_H_
#define CKPTDB_SCHEMA_PRINTABLE_H_

#include <string>

#include "absl/strings/string_view.h"

namespace ckptdb {

// Escapes a backslash as \\, and as \n, \t or \xNN what is not UTF-8 and what
// cannot be seen: control and format characters, separators of lines and
// paragraphs, and characters that Unicode ignores by default, such as U+200B,
// U+202E and U+FEFF. The result does not break a table, steer a terminal or
// look like another text. Spaces stay.
std::string Printable(absl::string_view text);

// Escapes these characters of a JSON document as \uNNNN, which keeps its
// meaning.
std::string PrintableJson(absl::string_view json);

}  // namespace ckptdb

#endif  // CKPTDB_SCHEMA_PRINTABLE_H_
