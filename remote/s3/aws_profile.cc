// SPDX-License-Identifier: Apache-2.0
#include "remote/s3/aws_profile.h"

#include <cstdlib>
#include <fstream>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"

namespace ckptdb::internal::s3 {

namespace {

std::string FileOfProfiles(const char* variable, const char* name) {
  std::string given = EnvironmentOf(variable);
  if (!given.empty()) return given;
  return absl::StrCat(EnvironmentOf("HOME"), "/.aws/", name);
}

// Returns the profile that a line begins, "" if it begins none: "[a]", or
// "[profile a]".
std::string ProfileOfLine(absl::string_view line) {
  if (!absl::ConsumePrefix(&line, "[")) return "";
  line = absl::StripAsciiWhitespace(line.substr(0, line.find(']')));
  if (absl::ConsumePrefix(&line, "profile ")) {
    line = absl::StripAsciiWhitespace(line);
  }
  return std::string(line);
}

// Adds the values of the profile in a file. Returns whether it is there.
bool AddValues(const std::string& path, AwsProfile* profile) {
  std::ifstream file(path);
  bool found = false;
  bool within = false;
  for (std::string line; std::getline(file, line);) {
    // An indented line belongs to a group of settings, such as "s3 =".
    if (line.empty() || absl::ascii_isspace(line[0])) continue;
    if (line[0] == '#' || line[0] == ';') continue;
    if (line[0] == '[') {
      within = ProfileOfLine(line) == profile->name;
      found = found || within;
      continue;
    }
    const size_t equals = line.find('=');
    if (!within || equals == std::string::npos) continue;
    const absl::string_view view = line;
    profile->values[absl::AsciiStrToLower(
        absl::StripAsciiWhitespace(view.substr(0, equals)))] =
        std::string(absl::StripAsciiWhitespace(view.substr(equals + 1)));
  }
  return found;
}

}  // namespace

std::string EnvironmentOf(const char* name) {
  const char* const value = std::getenv(name);
  return value == nullptr ? "" : value;
}

std::string AwsProfile::Value(const std::string& key) const {
  const auto value = values.find(key);
  return value == values.end() ? "" : value->second;
}

absl::StatusOr<AwsProfile> ReadAwsProfile() {
  const std::string named = EnvironmentOf("AWS_PROFILE");
  AwsProfile profile = {.name = named.empty() ? "default" : named};
  const std::string config = FileOfProfiles("AWS_CONFIG_FILE", "config");
  const std::string credentials =
      FileOfProfiles("AWS_SHARED_CREDENTIALS_FILE", "credentials");
  const bool in_config = AddValues(config, &profile);
  const bool in_credentials = AddValues(credentials, &profile);
  if (!named.empty() && !in_config && !in_credentials) {
    return absl::FailedPreconditionError(absl::StrCat(
        "AWS_PROFILE is \"", named, "\", but neither ", config, " nor ",
        credentials, " contains this profile; add it, or unset AWS_PROFILE"));
  }
  return profile;
}

}  // namespace ckptdb::internal::s3
