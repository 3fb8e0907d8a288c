#include "ckptdb/tools/row_argument.h"

#include "CLI/App.hpp"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"

namespace ckptdb::tool {
namespace {

// Returns what is wrong with the text, or an empty text, as CLI11 expects it.
std::string Complaint(const std::string& text) {
  int64_t id = 0;
  if (absl::SimpleAtoi(text, &id)) return "";
  return absl::StrCat("invalid id \"", text, "\"; expected -2^63 to 2^63 - 1");
}

}  // namespace

int64_t RowArgument::id() const {
  int64_t id = 0;
  return absl::SimpleAtoi(id_text, &id) ? id : 0;
}

void AddRow(CLI::App* app, RowArgument* row) {
  app->add_option("TABLE", row->table, "a table")->type_name("")->required();
  app->add_option("ID", row->id_text, "the id of a row")
      ->type_name("")
      ->check(Complaint)
      ->required();
}

}  // namespace ckptdb::tool
