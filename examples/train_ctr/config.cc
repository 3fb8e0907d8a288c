// SPDX-License-Identifier: Apache-2.0
#include "train_ctr/config.h"

#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"

namespace train_ctr {
namespace {

// Returns the JSON, discarded if it is not valid. *duplicate is a key that an
// object has twice, if there is one: the parser keeps only its last value.
nlohmann::json Parse(const std::string& text,
                     std::optional<std::string>* duplicate) {
  using Event = nlohmann::json::parse_event_t;
  std::vector<std::set<std::string>> keys;
  const auto note = [&](int, Event event, const nlohmann::json& parsed) {
    if (event == Event::object_start) keys.emplace_back();
    if (event == Event::object_end) keys.pop_back();
    if (event != Event::key) return true;
    const auto key = parsed.get<std::string>();
    if (!keys.back().insert(key).second) *duplicate = key;
    return true;
  };
  return nlohmann::json::parse(text, note, /*allow_exceptions=*/false);
}

}  // namespace

absl::StatusOr<Config> ReadConfig(const std::string& path) {
  std::ifstream file(path);
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  if (!file) {
    return absl::InvalidArgumentError(
        absl::StrCat("--config \"", path, "\" cannot be read"));
  }
  std::optional<std::string> duplicate;
  nlohmann::json json = Parse(text, &duplicate);
  if (!json.is_object()) {
    return absl::InvalidArgumentError(
        absl::StrCat("--config \"", path, "\" is no JSON object"));
  }
  if (duplicate.has_value()) {
    return absl::InvalidArgumentError(
        absl::StrCat("--config \"", path, "\": duplicate key \"", *duplicate,
                     "\"; give each key once"));
  }
  Config config;
  config.manager = text;  // so that errors name its lines
  if (json.contains("load")) {
    config.load = json["load"].dump();
    json.erase("load");
    config.manager = json.dump();
  }
  return config;
}

}  // namespace train_ctr
