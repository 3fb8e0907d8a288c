// SPDX-License-Identifier: Apache-2.0
#include "tools/value_checks.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <limits>
#include <string>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

namespace ckptdb::tool {
namespace {

// What is not a number is left to CLI11.
std::string CheckNumber(const std::string& text) {
  double number = 0;
  if (absl::SimpleAtod(text, &number) && !std::isfinite(number)) {
    return absl::StrCat(text, " is not a finite number");
  }
  const absl::string_view digits =
      absl::string_view(text).substr(text.find_first_not_of("+-") == 1 ? 1 : 0);
  const bool whole =
      !digits.empty() &&
      std::all_of(digits.begin(), digits.end(), absl::ascii_isdigit);
  int64_t fits = 0;
  if (!whole || absl::SimpleAtoi(text, &fits)) return "";
  return absl::StrCat(text, " is too large; the limit is ",
                      std::numeric_limits<int64_t>::max());
}

}  // namespace

CLI::Validator AtLeast(double least) {
  return {[least](std::string& text) -> std::string {
            double number = 0;
            if (absl::SimpleAtod(text, &number) && number >= least) return "";
            return absl::StrCat(text, "; expected at least ", least);
          },
          least > 0 ? "POSITIVE" : "NONNEGATIVE"};
}

CLI::Validator MoreThanZero() {
  return {[](std::string& text) -> std::string {
            double number = 0;
            if (absl::SimpleAtod(text, &number) && number > 0) return "";
            return absl::StrCat(text, "; expected a number above 0");
          },
          "POSITIVE"};
}

void CheckNumbers(CLI::App* app) {
  constexpr std::array<absl::string_view, 7> kTypes = {
      "N", "STEP", "RANK", "BYTES", "SECONDS", "H", "X"};
  for (CLI::Option* const option : app->get_options([&](CLI::Option* each) {
         const std::string type = each->get_type_name();
         const absl::string_view name =
             absl::string_view(type).substr(0, type.find(':'));
         return std::find(kTypes.begin(), kTypes.end(), name) != kTypes.end();
       })) {
    option->check(CheckNumber);
  }
}

void RefuseEmptyValues(CLI::App* app) {
  for (CLI::Option* const option :
       app->get_options([](CLI::Option*) { return true; })) {
    if (option->get_expected_max() == 0) continue;  // a flag
    option->check([](const std::string& text) {
      return text.empty() ? "the value is empty" : "";
    });
  }
  for (CLI::App* const group : app->get_subcommands(
           [](CLI::App* each) { return each->get_name().empty(); })) {
    RefuseEmptyValues(group);
  }
}

}  // namespace ckptdb::tool
