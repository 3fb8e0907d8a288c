// Text from a store on its way to a terminal or a log.
#ifndef CKPTDB_SCHEMA_PRINTABLE_H_
#define CKPTDB_SCHEMA_PRINTABLE_H_

#include <string>

#include "absl/strings/string_view.h"

namespace ckptdb {

// The text with a backslash as \\, and as \n, \t and \xNN what is not UTF-8 and
// what cannot be seen: control and format characters, separators of lines and
// paragraphs, and those that Unicode has ignored by default, such as U+200B,
// U+202E and U+FEFF. So it neither breaks a table, nor steers a terminal, nor
// looks like another text. Spaces stay.
std::string Printable(absl::string_view text);

// A JSON document with these characters as \uNNNN, which means the same.
std::string PrintableJson(absl::string_view json);

}  // namespace ckptdb

#endif  // CKPTDB_SCHEMA_PRINTABLE_H_
