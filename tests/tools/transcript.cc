// SPDX-License-Identifier: Apache-2.0
#include "tests/tools/transcript.h"

#include <array>
#include <cstdio>
#include <cstdlib>
#include <regex>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "nlohmann/json.hpp"
#include "tests/tools/run_tool.h"

namespace ckptdb::testing {
namespace {

using Document = nlohmann::ordered_json;

std::string NormalizedText(std::string text) {
  static const auto* const kRules = [] {
    constexpr std::array<std::pair<const char*, const char*>, 11> kPatterns = {{
        {"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", "<uuid>"},
        {"\\b[0-9a-f]{16}\\b", "<digest>"},
        {"\\d{4}-\\d\\d-\\d\\d[ T]\\d\\d:\\d\\d:\\d\\d(\\.\\d+Z)?", "<time>"},
        {"\\b\\d{8}T\\d{6}Z(\\.\\d+)?", "<backup>"},
        {"\\b\\d+ files\\b", "<n> files"},
        {"\\b\\d+(\\.\\d+)? ([KMGT]i)?B\\b(/s)?", "<bytes>"},
        {"\\b\\d+(\\.\\d+)? (us|ms|s|min|h|d)\\b", "<duration>"},
        {"\\bckptdb \\d+\\.\\d+\\.\\d+\\b", "ckptdb <version>"},
        {"\\blibrary( version)?( +)\\d+\\.\\d+\\.\\d+", "library <version>"},
        {"(▁|▂|▃|▄|▅|▆|▇|█)+", "<trend>"},
        {"  +", "  "},
    }};
    auto* rules = new std::vector<std::pair<std::regex, std::string>>;
    for (const auto& [pattern, word] : kPatterns) {
      rules->emplace_back(std::regex(pattern, std::regex::optimize), word);
    }
    return rules;
  }();
  for (const auto& [pattern, word] : *kRules) {
    text = std::regex_replace(text, pattern, word);
  }
  return text;
}

// Whether the values of this field differ from run to run.
bool Varies(const std::string& name) {
  for (const char* end : {"_micros", "_bytes", "_per_second", "library_version",
                          "uuid", "file_system", "source"}) {
    if (absl::EndsWith(name, end)) return true;
  }
  return name == "bytes" || name == "hosts" || name == "files" ||
         name == "at" || name == "digest";
}

void Normalize(const std::string& name, Document* value) {
  if (value->is_structured()) {
    for (auto& [key, each] : value->items()) {
      Normalize(value->is_object() ? key : name, &each);
    }
  } else if (value->is_string()) {
    *value = NormalizedText(value->get<std::string>());
    if (Varies(name)) *value = "<" + name + ">";
  } else if (value->is_number() && Varies(name)) {
    *value = 0;
  }
}

}  // namespace

std::string Normalized(const std::string& text) {
  Document document = Document::parse(text, nullptr, false);
  if (!document.is_structured()) return NormalizedText(text);
  Normalize("", &document);
  return document.dump(2) + "\n";
}

bool WritesGolden() { return std::getenv("CKPTDB_WRITE_GOLDEN") != nullptr; }

std::string RunInShell(const std::string& line, const std::string& folder) {
  const std::string command =
      absl::StrCat("ckptdb() { ", ToolPath(), " \"$@\"; }; cd ", folder,
                   " && { ", line, "\n} 2>&1");
  std::string out;
  FILE* const pipe = popen(command.c_str(), "r");
  if (pipe == nullptr) return out;
  std::array<char, 4096> part = {};
  size_t bytes = 0;
  while ((bytes = fread(part.data(), 1, part.size(), pipe)) > 0) {
    out.append(part.data(), bytes);
  }
  pclose(pipe);
  return out;
}

}  // namespace ckptdb::testing
