// SPDX-License-Identifier: Apache-2.0
// A row on the command line: a table and an id.
#ifndef CKPTDB_TOOLS_ROW_ARGUMENT_H_
#define CKPTDB_TOOLS_ROW_ARGUMENT_H_

#include <cstdint>
#include <string>

namespace CLI {  // NOLINT(readability-identifier-naming): CLI11's
class App;
}  // namespace CLI

namespace ckptdb::tool {

struct RowArgument {
  std::string table;
  std::string id_text;  // validated when the command line is parsed

  int64_t id() const;
};

// Adds TABLE and ID, both required.
void AddRow(CLI::App* app, RowArgument* row);

}  // namespace ckptdb::tool

#endif  // CKPTDB_TOOLS_ROW_ARGUMENT_H_
