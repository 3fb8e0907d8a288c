// SPDX-License-Identifier: Apache-2.0
#include "tools/row_argument.h"

#include "CLI/App.hpp"
#include "absl/strings/str_cat.h"
#include "tools/id_list.h"

namespace ckptdb::tool {
namespace {

// Returns the problem with the text, or "" if it is valid, as CLI11 expects.
std::string IdError(const std::string& text) {
  int64_t id = 0;
  if (ParseId(text, &id)) return "";
  return absl::StrCat("invalid id \"", text,
                      "\"; expected -2^63 to 2^64 - 1; above 2^63 - 1 it "
                      "denotes the negative id with the same bits");
}

}  // namespace

int64_t RowArgument::id() const {
  int64_t id = 0;
  return ParseId(id_text, &id) ? id : 0;
}

void AddRow(CLI::App* app, RowArgument* row) {
  app->add_option("TABLE", row->table, "a table")->type_name("")->required();
  app->add_option("ID", row->id_text, "the id of a row")
      ->type_name("")
      ->check(IdError)
      ->required();
}

}  // namespace ckptdb::tool
