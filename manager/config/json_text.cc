#include "ckptdb/manager/config/json_text.h"

#include <algorithm>
#include <cstdint>
#include <optional>

#include "absl/strings/cord.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

namespace ckptdb::internal {
namespace {

constexpr char kValuePayload[] = "ckptdb/json-value";
constexpr absl::string_view kByteOrderMark = "\xef\xbb\xbf";
constexpr char kSpace[] = " \t\r\n";

// Returns a text that tells one value from another.
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

// Finds a value in its text by going through both together.
class ValueFinder {
 public:
  ValueFinder(absl::string_view text, absl::string_view id)
      : text_(text), id_(id) {}

  std::optional<size_t> Find(const Json& root) {
    if (absl::StartsWith(text_, kByteOrderMark)) at_ = kByteOrderMark.size();
    Value(&root);
    return found_;
  }

 private:
  // `json` is null where a later member of the same name has taken its place.
  void Value(const Json* json) {
    SkipSpace();
    if (json != nullptr && IdOf(json) == id_) found_ = at_;
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
    while (EnterNext('}')) {
      const size_t begin = at_;
      SkipString();
      const absl::string_view name = text_.substr(begin, at_ - begin);
      SkipSpace();
      ++at_;  // the colon
      const Json key = Json::parse(name.begin(), name.end());
      const Json* value = nullptr;
      if (json != nullptr && json->is_object()) {
        const auto member = json->find(key.get_ref<const std::string&>());
        if (member != json->end()) value = &*member;
      }
      Value(value);
    }
  }

  void Elements(const Json* json) {
    for (size_t i = 0; EnterNext(']'); ++i) {
      const bool there =
          json != nullptr && json->is_array() && i < json->size();
      Value(there ? &(*json)[i] : nullptr);
    }
  }

  // Moves past what opens an object or an array, or past a comma; returns false
  // at its end.
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

  const absl::string_view text_;  // which is JSON
  const absl::string_view id_;
  size_t at_ = 0;
  std::optional<size_t> found_;  // the last one, which counts
};

}  // namespace

// A reader of values knows a value, not its place in the text. So its address
// travels in a payload of the error, and Locate looks for it.
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
  // The json library throws; nothing of it leaves this file.
  try {
    return JsonText(std::string(text), Json::parse(text.begin(), text.end()));
  } catch (const Json::parse_error& error) {
    // It counts the bytes up to the one that is wrong.
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
  const std::string wanted(*id);
  const std::optional<size_t> at = ValueFinder(text_, wanted).Find(json_);
  if (!at.has_value()) return error;
  return absl::Status(error.code(),
                      absl::StrCat(error.message(), LineAndColumn(text_, *at)));
}

}  // namespace ckptdb::internal
