// SPDX-License-Identifier: Apache-2.0
// ckptdb metrics: adds metrics to a step, or posts them to the process that has
// the store open.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "CLI/App.hpp"
#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "schema/status.h"
#include "tools/command.h"
#include "tools/format.h"
#include "tools/json.h"
#include "tools/step_argument.h"
#include "tools/step_change.h"

namespace ckptdb::tool {
namespace {

constexpr char kForm[] = "NAME=VALUE";

// A name may contain "=", a value cannot.
bool ParseMetric(const std::string& text, std::string* name, double* value) {
  const size_t equals = text.rfind('=');
  if (equals == std::string::npos || equals == 0) return false;
  *name = text.substr(0, equals);
  const std::string number = text.substr(equals + 1);
  if (!absl::SimpleAtod(number, value)) return false;
  // Overflow is an error; infinity must be written as such.
  return std::isfinite(*value) ||
         !std::any_of(number.begin(), number.end(), [](char c) {
           return absl::ascii_isdigit(static_cast<unsigned char>(c));
         });
}

std::string CheckMetric(const std::string& text) {
  std::string name;
  double value = 0;
  if (ParseMetric(text, &name, &value)) return "";
  return absl::StrCat("invalid metric \"", text, "\"; expected ", kForm,
                      " with a nonempty name and a 64-bit number");
}

constexpr char kMetricsNotes[] =
    "Replaces metrics of the same name. While another process has\n"
    "the store open, the metrics are posted, and that process adds\n"
    "them with its next save.\n";

class MetricsCommand : public Command {
 public:
  MetricsCommand()
      : Command(
            {.name = "metrics",
             .summary = "Add metrics to a step, even while its trainer runs",
             .notes = kMetricsNotes,
             .examples =
                 "  ckptdb metrics 1000 auc=0.731 --store /checkpoints/ctr\n"
                 "  ckptdb metrics latest auc=0.731 loss=0.42 -s "
                 "/checkpoints/ctr\n"}) {}
  void AddArguments(CLI::App* app) override {
    AddStep(app, &step_);
    app->add_option("metrics", metrics_, "metrics, each as NAME=VALUE")
        ->required()
        ->type_name(kForm)
        ->check(CheckMetric);
  }
  absl::Status Run(const Context& context) override;

 private:
  absl::StatusOr<Metrics> Parse() const;

  std::string step_;
  std::vector<std::string> metrics_;
};

// Duplicate names are an error, because it is unclear which value was meant.
absl::StatusOr<Metrics> MetricsCommand::Parse() const {
  Metrics metrics;
  for (const std::string& text : metrics_) {
    std::string name;
    double value = 0;
    if (!ParseMetric(text, &name, &value)) {
      return absl::InvalidArgumentError(CheckMetric(text));
    }
    if (!metrics.emplace(name, value).second) {
      return absl::InvalidArgumentError(absl::StrCat(
          "duplicate metric \"", name, "\"; give each metric once"));
    }
  }
  return metrics;
}

absl::Status MetricsCommand::Run(const Context& context) {
  CKPTDB_ASSIGN_OR_RETURN(const Metrics metrics, Parse());
  // A trainer that has the store open applies posts before its retention
  // decides.
  CKPTDB_ASSIGN_OR_RETURN(
      const ChangedSteps changed,
      ChangeSteps(context, {step_},
                  {.apply =
                       [&](Store* store, int64_t step) {
                         return store->AddMetrics(step, metrics);
                       },
                   .post =
                       [&](Reader* reader, int64_t step) {
                         return reader->PostMetrics(step, metrics);
                       }}));
  const int64_t step = changed.steps.front();
  const bool posted = changed.posted;
  if (context.json) {
    const Json document = {{"store", context.store},
                           {"step", step},
                           {"posted", posted},
                           {"metrics", MetricsJson(metrics)}};
    PrintJson(document, context.out);
    return absl::OkStatus();
  }
  for (const auto& [name, value] : metrics) {
    *context.out << (posted ? "posted " : "added ") << Printable(name) << " "
                 << absl::StrCat(value) << (posted ? " for " : " to ")
                 << "step " << step << '\n';
  }
  if (posted) {
    *context.out << "another process has the store open and will add them with "
                    "its next save\n";
  }
  return absl::OkStatus();
}

}  // namespace

std::unique_ptr<Command> NewMetrics() {
  return std::make_unique<MetricsCommand>();
}

}  // namespace ckptdb::tool
