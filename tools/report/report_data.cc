// SPDX-License-Identifier: Apache-2.0
#include "tools/report/report_data.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "ckptdb/version.h"
#include "schema/status.h"
#include "tools/format.h"
#include "tools/number_diff.h"
#include "tools/progress_line.h"
#include "tools/step_totals.h"
#include "tools/tensor_stats.h"

namespace ckptdb::tool {
namespace {

constexpr size_t kBins = 24;
constexpr size_t kMaxTensors = 60;

std::string StepText(int64_t step) { return absl::StrCat("step ", step); }

// Collects the parts of a report.
class Collector {
 public:
  Collector(Reader* reader, const ReportOptions& options)
      : reader_(reader), options_(options) {}

  absl::StatusOr<Json> Collect() {
    records_ = reader_->Steps();
    const uint64_t all = records_.size();
    if (all > options_.max_steps) {
      records_.erase(records_.begin(),
                     records_.end() - static_cast<int64_t>(options_.max_steps));
    }
    Json json = {{"store", std::filesystem::absolute(reader_->path()).string()},
                 {"uuid", reader_->uuid()},
                 {"made_at", FormatIsoUtc(absl::ToUnixMicros(absl::Now()))},
                 {"library_version", LibraryVersion()},
                 {"all_steps", all}};
    SetUsage(&json);
    json["steps"] = Steps();
    json["slots"] = Slots();
    json["tensors"] = Tensors();
    CKPTDB_ASSIGN_OR_RETURN(json["saves"], Saves());
    for (const std::string& file : reader_->BadFiles()) {
      Find(absl::StrCat("\"", file, "\" is damaged or missing"));
    }
    json["findings"] = findings_;
    return json;
  }

 private:
  void Find(const std::string& finding) { findings_.push_back(finding); }

  // Tables by name: the rows and bytes of their runs in this step.
  static Json TablesOf(const std::vector<StepRecord::Rank>& ranks) {
    std::map<std::string, Totals> tables;
    for (const StepRecord::Rank& rank : ranks) {
      for (const Item& item : rank.items) {
        if (item.kind == Item::Kind::kRows) {
          tables[item.name].Add(item, rank.version);
        }
      }
    }
    Json json = Json::array();
    for (const auto& [name, totals] : tables) {
      json.push_back({{"name", name}});
      json.back().update(ToJson(totals));
    }
    return json;
  }

  Json StepJson(const StepRecord& record) {
    Json json = SummaryJson(record);
    json["chain_length"] = record.chain.size();
    json["parent"] = record.has_parent ? ToJson(record.parent) : Json();
    json["branch"] = record.branches.empty() ? 0 : record.branches.back().first;
    json["saved_reason"] = ReasonJson(SavedReason(record));
    json["rows"] = record.rows;
    json["raw_bytes"] = record.raw_bytes;
    json["exclusive_bytes"] = record.exclusive_bytes;
    json["metrics"] = MetricsJson(record.metrics);
    json["tables"] = Json::array();
    const auto ranks = reader_->FindRanks(record.version.step);
    if (ranks.ok()) {
      json["tables"] = TablesOf(*ranks);
    } else if (!absl::IsNotFound(ranks.status())) {
      Find(absl::StrCat(StepText(record.version.step), ": ",
                        ranks.status().message()));
    }
    if (record.quarantined) {
      Find(absl::StrCat(StepText(record.version.step), " is quarantined"));
    }
    return json;
  }

  Json Steps() {
    Json steps = Json::array();
    for (const StepRecord& record : records_) steps.push_back(StepJson(record));
    return steps;
  }

  // The slots of the newest step's own rows.
  Json Slots() {
    Json json = Json::array();
    if (records_.empty()) return json;
    const auto ranks = reader_->FindRanks(records_.back().version.step);
    if (!ranks.ok()) return json;
    std::map<std::pair<std::string, std::string>, std::pair<uint64_t, Slot>>
        slots;
    for (const StepRecord::Rank& rank : *ranks) {
      for (const Item& item : rank.items) {
        for (const Slot& slot : item.slots) {
          auto& [rows, known] = slots[{item.name, slot.name}];
          rows += item.rows;
          known = slot;
        }
      }
    }
    for (const auto& [name, value] : slots) {
      const auto& [rows, slot] = value;
      json.push_back({{"table", name.first},
                      {"slot", name.second},
                      {"dtype", Str(DTypeName(slot.dtype))},
                      {"elements", slot.elements},
                      {"rows", rows},
                      {"bytes", rows * slot.row_bytes()}});
    }
    return json;
  }

  // Tensors of the newest step that fit in the bytes that may be read.
  static std::vector<std::string> Readable(const StepReader& step,
                                           uint64_t bytes_of_step,
                                           uint64_t* bytes) {
    std::vector<std::string> names;
    for (const StepRecord::Rank& rank : step.ranks()) {
      for (const Item& item : rank.items) {
        const bool taken = item.kind == Item::Kind::kTensor &&
                           item.raw_bytes <= bytes_of_step - *bytes &&
                           names.size() < kMaxTensors;
        if (!taken || std::count(names.begin(), names.end(), item.name) > 0) {
          continue;
        }
        names.push_back(item.name);
        *bytes += item.raw_bytes;
      }
    }
    return names;
  }

  // Steps spread evenly over those listed, the newest among them.
  std::vector<int64_t> SampledSteps() const {
    std::vector<int64_t> steps;
    const uint64_t count =
        std::min<uint64_t>(options_.tensor_steps, records_.size());
    for (uint64_t i = 0; i < count; ++i) {
      const uint64_t back = i * records_.size() / count;
      steps.push_back(records_[records_.size() - 1 - back].version.step);
    }
    return {steps.rbegin(), steps.rend()};
  }

  // Compares a tensor with its values in the step that was read before.
  absl::StatusOr<Json> Drift(const StepReader& step, const Item& spec) const {
    Json json = {{"relative_l2", nullptr}, {"cosine", nullptr}};
    if (previous_ == nullptr) return json;
    const auto before = previous_->FindTensor(spec.name);
    if (!before.ok() || before->shape != spec.shape) return json;
    CKPTDB_ASSIGN_OR_RETURN(
        const NumberDiff diff,
        CompareTensorNumbers(*previous_, *before, step, spec));
    json["relative_l2"] = NumberJson(diff.relative_l2());
    json["cosine"] = NumberJson(diff.cosine());
    return json;
  }

  Json StatsJson(int64_t step, const std::string& name,
                 const TensorStats& stats) {
    if (stats.nan + stats.inf > 0) {
      Find(absl::StrCat(StepText(step), ": tensor ", Printable(name), " has ",
                        stats.nan, " NaN and ", stats.inf, " infinite values"));
    }
    return {{"step", step},
            {"mean", NumberJson(stats.mean)},
            {"std", NumberJson(stats.std)},
            {"min", NumberJson(static_cast<double>(stats.min))},
            {"max", NumberJson(static_cast<double>(stats.max))},
            {"nan", stats.nan},
            {"inf", stats.inf},
            {"histogram", stats.histogram}};
  }

  absl::Status AddTensors(int64_t step, const std::vector<std::string>& names,
                          std::map<std::string, Json>* tensors) {
    CKPTDB_ASSIGN_OR_RETURN(auto opened, reader_->OpenStep(step));
    std::vector<TensorPart> parts;
    for (const std::string& name : names) {
      auto spec = opened->FindTensor(name);
      if (!spec.ok()) continue;
      TensorBox whole = WholeOf(*spec);
      parts.push_back({*std::move(spec), std::move(whole)});
    }
    CKPTDB_ASSIGN_OR_RETURN(const std::vector<TensorStats> stats,
                            MeasureTensors(*opened, parts, kBins, {}));
    for (size_t i = 0; i < parts.size(); ++i) {
      const std::string& name = parts[i].spec.name;
      Json measured = StatsJson(step, name, stats[i]);
      CKPTDB_ASSIGN_OR_RETURN(const Json drift, Drift(*opened, parts[i].spec));
      measured.update(drift);
      (*tensors)[name].push_back(std::move(measured));
    }
    previous_ = std::move(opened);
    return absl::OkStatus();
  }

  Json Tensors() {
    Json json = Json::array();
    const std::vector<int64_t> steps = SampledSteps();
    if (steps.empty()) return json;
    std::vector<std::string> names;
    {
      const auto newest = reader_->OpenStep(steps.back());
      if (!newest.ok()) return json;
      uint64_t bytes = 0;
      names = Readable(**newest, options_.tensor_bytes / steps.size(), &bytes);
    }
    const ProgressLine progress(options_.terminal, "report: reading tensors");
    std::map<std::string, Json> tensors;
    for (const int64_t step : steps) {
      const absl::Status added = AddTensors(step, names, &tensors);
      if (!added.ok() && !absl::IsNotFound(added) && !absl::IsAborted(added)) {
        Find(absl::StrCat(StepText(step), ": ", added.message()));
      }
    }
    for (const std::string& name : names) {
      if (!tensors.contains(name)) continue;
      json.push_back({{"name", name}, {"steps", std::move(tensors[name])}});
    }
    return json;
  }

  void SetUsage(Json* json) {
    const auto usage = reader_->GetUsage();
    if (!usage.ok()) Find(absl::StrCat("usage: ", usage.status().message()));
    (*json)["disk_bytes"] = usage.ok() ? Json(usage->disk_bytes) : Json();
    (*json)["available_bytes"] =
        usage.ok() ? Json(usage->available_bytes) : Json();
  }

  // The lines of a manager's statistics that describe saves.
  absl::StatusOr<Json> Saves() {
    Json saves = Json::array();
    if (options_.statistics_path.empty()) return saves;
    std::ifstream file(options_.statistics_path);
    if (!file) {
      return absl::NotFoundError(
          absl::StrCat("cannot read the statistics \"",
                       Printable(options_.statistics_path), "\""));
    }
    uint64_t invalid = 0;
    for (std::string line; std::getline(file, line);) {
      Json save = Json::parse(line, nullptr, /*allow_exceptions=*/false);
      if (!save.is_object() || !save.contains("event")) {
        ++invalid;
      } else if (save["event"] == "save") {
        saves.push_back(std::move(save));
      }
    }
    if (invalid > 0) {
      Find(absl::StrCat("\"", options_.statistics_path, "\" has ", invalid,
                        " lines that are not statistics"));
    }
    return saves;
  }

  Reader* const reader_;
  const ReportOptions& options_;
  std::vector<StepRecord> records_;
  Json findings_ = Json::array();
  std::unique_ptr<StepReader> previous_;  // whose tensors were read last
};

}  // namespace

absl::StatusOr<Json> ReportData(Reader* reader, const ReportOptions& options) {
  return Collector(reader, options).Collect();
}

}  // namespace ckptdb::tool
