// SPDX-License-Identifier: Apache-2.0
// A JSON text and the places of its values; internal to manager/.
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

// The maximum nesting of values. The JSON library prints values recursively.
inline constexpr int kMaxJsonDepth = 2000;

// Returns a value's JSON on one line, in ASCII, for messages.
std::string JsonString(const Json& value);

// Records in an error the value of a JsonText that it is about, unless the
// error has one already.
absl::Status AboutValue(const Json& value, absl::Status error);

// Must not move while errors about its values are created and located.
class JsonText {
 public:
  // Returns InvalidArgument at `place`, with line and column, if the text is
  // not JSON, an object has a duplicate key, or the nesting exceeds
  // kMaxJsonDepth.
  static absl::StatusOr<JsonText> Parse(absl::string_view place,
                                        absl::string_view text);

  const Json& json() const { return json_; }

  // Appends " (line 3, column 7)", the place of the value that an error is
  // about, to its message. Both are counted from 1, columns in bytes. Returns
  // other errors unchanged. Removes the payload of AboutValue.
  absl::Status Locate(const absl::Status& error) const;

 private:
  JsonText(std::string text, Json json)
      : text_(std::move(text)), json_(std::move(json)) {}

  std::string text_;
  Json json_;
};

}  // namespace ckptdb::internal

#endif  // CKPTDB_MANAGER_CONFIG_JSON_TEXT_H_
