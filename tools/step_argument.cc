#include "ckptdb/tools/step_argument.h"

#include "CLI/App.hpp"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"

namespace ckptdb::tool {
namespace {

bool ParseStep(const std::string& text, int64_t* step) {
  for (char c : text) {
    if (c < '0' || '9' < c) return false;
  }
  return absl::SimpleAtoi(text, step);
}

// CLI11 takes a text as what is wrong, an empty one as nothing is.
std::string StepComplaint(const std::string& text) {
  return std::string(CheckStepText(text).message());
}

template <typename T>
CLI::Option* Add(CLI::App* app, T* steps, const char* meaning,
                 const std::string& name = "STEP") {
  return app->add_option(name, *steps, meaning)
      ->type_name("")
      ->check(StepComplaint);
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
  app->add_option("--step", *step, "of this step; default: latest")
      ->type_name("STEP")
      ->check(StepComplaint);
}

void AddFromOption(CLI::App* app, std::string* step) {
  app->add_option("--from", *step,
                  "by what changed since this step, where increments lead")
      ->type_name("STEP")
      ->check(StepComplaint);
}

void AddSteps(CLI::App* app, std::vector<std::string>* steps) {
  Add(app, steps, "steps, or \"latest\"")->required();
}

absl::Status CheckStepText(const std::string& text) {
  int64_t step = 0;
  if (text == "latest" || ParseStep(text, &step)) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      "\"", text, "\" is neither a step, 0 to 2^63 - 1, nor \"latest\""));
}

int64_t StepNumber(const std::string& text) {
  int64_t step = -1;
  ParseStep(text, &step);
  return step;
}

}  // namespace ckptdb::tool
