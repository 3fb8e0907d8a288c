// SPDX-License-Identifier: Apache-2.0
#include "manager/config/json_text.h"

#include <algorithm>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>

#include "absl/strings/cord.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

namespace ckptdb::internal {
namespace {

constexpr char kValuePayload[] = "ckptdb/json-value";
constexpr absl::string_view kByteOrderMark = "\xef\xbb\xbf";
constexpr char kSpace[] = " \t\r\n";

// Returns a text that identifies a value.
std::string IdOf(const Json* value) {
  return absl::StrCat(absl::Hex(reinterpret_cast<uintptr_t>(value)));
}

// Returns the place of the byte at `at`: " (line 3, column 7)".
std::string LineAndColumn(absl::string_view text, size_t at) {
  const absl::string_view before = text.substr(0, at);
  const size_t line_begin = before.rfind('\n') + 1;  // npos + 1 is 0
  return absl::StrCat(" (line ",
                      std::count(before.begin(), before.end(), '\n') + 1,
                      ", column ", before.size() - line_begin + 1, ")");
}

// Counts brackets outside of strings, whether or not the text is valid JSON.
bool IsTooDeep(absl::string_view text) {
  int depth = 0;
  bool in_string = false;
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (in_string) {
      if (c == '\\') ++i;
      in_string = c != '"';
    } else if (c == '"') {
      in_string = true;
    } else if (c == '{' || c == '[') {
      if (++depth > kMaxJsonDepth) return true;
    } else if (c == '}' || c == ']') {
      --depth;
    }
  }
  return false;
}

// A key that occurs twice in an object, and the positions of both.
struct DuplicateKey {
  std::string key;
  size_t first;
  size_t second;
};

// Walks once through a text that is valid JSON.
class TextWalk {
 public:
  explicit TextWalk(absl::string_view text) : text_(text) {
    if (absl::StartsWith(text_, kByteOrderMark)) at_ = kByteOrderMark.size();
  }

  std::optional<DuplicateKey> FindDuplicate() {
    Value(nullptr);
    return duplicate_;
  }

  // Finds the value with this id. `root` was parsed from the text, which has no
  // duplicate keys.
  std::optional<size_t> FindValue(const Json& root, absl::string_view id) {
    id_ = std::string(id);
    Value(&root);
    return value_;
  }

 private:
  // Walks over a value. `json` was parsed from it, or is null.
  void Value(const Json* json) {
    SkipSpace();
    if (json != nullptr && IdOf(json) == id_) value_ = at_;
    switch (text_[at_]) {
      case '{':
        return Members(json);
      case '[':
        return Elements(json);
      case '"':
        return SkipString();
      default:
        at_ = std::min(text_.find_first_of(",]} \t\r\n", at_), text_.size());
    }
  }

  void Members(const Json* json) {
    std::map<std::string, size_t> keys;
    while (EnterNext('}')) {
      const size_t begin = at_;
      const std::string key = Key();
      const auto [before, is_new] = keys.emplace(key, begin);
      if (!is_new && !duplicate_.has_value()) {
        duplicate_ = {key, before->second, begin};
      }
      Value(json == nullptr ? nullptr : &json->at(key));
    }
  }

  // Moves past a key and its colon, and returns the key.
  std::string Key() {
    const size_t begin = at_;
    SkipString();
    const absl::string_view key = text_.substr(begin, at_ - begin);
    SkipSpace();
    ++at_;
    return Json::parse(key.begin(), key.end()).get<std::string>();
  }

  void Elements(const Json* json) {
    for (size_t i = 0; EnterNext(']'); ++i) {
      Value(json == nullptr ? nullptr : &json->at(i));
    }
  }

  // Moves past an opening bracket or a comma; returns false at the end of the
  // object or array.
  bool EnterNext(char end) {
    SkipSpace();
    const bool ends = text_[at_++] == end;
    if (ends) return false;
    SkipSpace();
    if (text_[at_] != end) return true;
    ++at_;  // it is empty
    return false;
  }

  void SkipString() {
    for (++at_; text_[at_] != '"'; ++at_) {
      if (text_[at_] == '\\') ++at_;
    }
    ++at_;
  }
  void SkipSpace() {
    at_ = std::min(text_.find_first_not_of(kSpace, at_), text_.size());
  }

  const absl::string_view text_;
  std::string id_;
  size_t at_ = 0;
  std::optional<size_t> value_;
  std::optional<DuplicateKey> duplicate_;
};

}  // namespace

// Readers know a value but not its place in the text, so a payload of the error
// carries the value's address, which Locate looks for.
absl::Status AboutValue(const Json& value, absl::Status error) {
  if (!error.ok() && !error.GetPayload(kValuePayload).has_value()) {
    error.SetPayload(kValuePayload, absl::Cord(IdOf(&value)));
  }
  return error;
}

std::string JsonString(const Json& value) {
  return value.dump(-1, ' ', true, Json::error_handler_t::replace);
}

absl::StatusOr<JsonText> JsonText::Parse(absl::string_view place,
                                         absl::string_view text) {
  if (IsTooDeep(text)) {
    return absl::InvalidArgumentError(
        absl::StrCat(place, ": values are nested more than ", kMaxJsonDepth,
                     " deep, which is the limit"));
  }
  // The JSON library throws; no exception leaves this file.
  try {
    Json json = Json::parse(text.begin(), text.end());
    const auto duplicate = TextWalk(text).FindDuplicate();
    if (!duplicate.has_value()) {
      return JsonText(std::string(text), std::move(json));
    }
    return absl::InvalidArgumentError(absl::StrCat(
        place, ": duplicate key ", JsonString(duplicate->key), ", first given",
        LineAndColumn(text, duplicate->first), "; give each key once",
        LineAndColumn(text, duplicate->second)));
  } catch (const Json::parse_error& error) {
    // error.byte counts the bytes up to and including the wrong one.
    const size_t at = std::max<size_t>(error.byte, 1) - 1;
    return absl::InvalidArgumentError(
        absl::StrCat(place, ": invalid JSON", LineAndColumn(text, at)));
  } catch (const Json::exception&) {
    return absl::InvalidArgumentError(absl::StrCat(
        place,
        ": invalid JSON: a number is out of range; expected one that "
        "fits a double"));
  }
}

absl::Status JsonText::Locate(const absl::Status& error) const {
  const absl::optional<absl::Cord> id = error.GetPayload(kValuePayload);
  if (!id.has_value()) return error;
  const std::optional<size_t> at =
      TextWalk(text_).FindValue(json_, std::string(*id));
  return absl::Status(
      error.code(),
      absl::StrCat(error.message(), at ? LineAndColumn(text_, *at) : ""));
}

}  // namespace ckptdb::internal
