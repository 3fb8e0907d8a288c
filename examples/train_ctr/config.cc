#include "train_ctr/config.h"

#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"

namespace train_ctr {

absl::StatusOr<Config> ReadConfig(const std::string& path) {
  std::ifstream file(path);
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  if (!file) {
    return absl::InvalidArgumentError(
        absl::StrCat("--config \"", path, "\" cannot be read"));
  }
  auto json = nlohmann::json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!json.is_object()) {
    return absl::InvalidArgumentError(
        absl::StrCat("--config \"", path, "\" is no JSON object"));
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
