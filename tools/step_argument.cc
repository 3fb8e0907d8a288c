// SPDX-License-Identifier: Apache-2.0
#include "tools/step_argument.h"

#include "CLI/App.hpp"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"

namespace ckptdb::tool {
namespace {

// Accepts only digits: SimpleAtoi would also accept spaces and a sign.
bool ParseStep(const std::string& text, int64_t* step) {
  for (char c : text) {
    if (c < '0' || '9' < c) return false;
  }
  return absl::SimpleAtoi(text, step);
}

// Returns the problem with the text, or "" if it is valid, as CLI11 expects.
std::string StepTextError(const std::string& text) {
  return std::string(CheckStepText(text).message());
}

template <typename T>
CLI::Option* Add(CLI::App* app, T* steps, const char* meaning,
                 const std::string& name = "STEP") {
  return app->add_option(name, *steps, meaning)
      ->type_name("")
      ->check(StepTextError);
}

}  // namespace

void AddStep(CLI::App* app, std::string* step) {
  Add(app, step, "a step, or \"latest\"")->required();
}

void AddNamedStep(CLI::App* app, const std::string& name, std::string* step) {
  Add(app, step, "a step, or \"latest\"", name)->required();
}

void AddOptionalStep(CLI::App* app, std::string* step) {
  Add(app, step, "a step, or \"latest\"");
}

void AddStepOption(CLI::App* app, std::string* step) {
  app->add_option("--step", *step, "the step to read; default: latest")
      ->type_name("STEP")
      ->check(StepTextError);
}

void AddFromOption(CLI::App* app, std::string* step) {
  app->add_option("--from", *step, "plan an incremental restore from this step")
      ->type_name("STEP")
      ->check(StepTextError);
}

void AddSteps(CLI::App* app, std::vector<std::string>* steps) {
  Add(app, steps, "steps, or \"latest\"")->required();
}

absl::Status CheckStepText(const std::string& text) {
  int64_t step = 0;
  if (text == "latest" || ParseStep(text, &step)) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      "invalid step \"", text, "\"; expected 0 to 2^63 - 1, or \"latest\""));
}

int64_t StepNumber(const std::string& text) {
  int64_t step = -1;
  ParseStep(text, &step);
  return step;
}

}  // namespace ckptdb::tool
