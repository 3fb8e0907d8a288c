// A JSON text, and where in it each value is; internal to manager/.
//
//   CKPTDB_ASSIGN_OR_RETURN(const JsonText text, JsonText::Parse("o", json));
//   return text.Locate(ReadOptions(text.json(), &options));
#ifndef CKPTDB_MANAGER_CONFIG_JSON_TEXT_H_
#define CKPTDB_MANAGER_CONFIG_JSON_TEXT_H_

#include <nlohmann/json.hpp>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace ckptdb::internal {

using Json = nlohmann::json;

// The deepest nesting of values. The JSON library recurses when it prints one.
inline constexpr int kMaxJsonDepth = 2000;

// Returns the JSON of a value in one line, as ASCII: for messages.
std::string JsonString(const Json& value);

// Notes in an error which value of a JsonText it is about, unless a value is
// noted already.
absl::Status AboutValue(const Json& value, absl::Status error);

// An object of this class must not move while errors of its values are made and
// located.
class JsonText {
 public:
  // Returns InvalidArgument at `place`, with line and column, if it is not JSON
  // or an object has a key twice, and if it is more than kMaxJsonDepth deep.
  static absl::StatusOr<JsonText> Parse(absl::string_view place,
                                        absl::string_view text);

  const Json& json() const { return json_; }

  // Appends the place of the value that an error is about to its words:
  // " (line 3, column 7)". Both count from 1, columns in bytes. An error that
  // is about no value stays as it is. The note of AboutValue is removed.
  absl::Status Locate(const absl::Status& error) const;

 private:
  JsonText(std::string text, Json json)
      : text_(std::move(text)), json_(std::move(json)) {}

  std::string text_;
  Json json_;
};

}  // namespace ckptdb::internal

#endif  // CKPTDB_MANAGER_CONFIG_JSON_TEXT_H_
