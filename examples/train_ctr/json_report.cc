// SPDX-License-Identifier: Apache-2.0
#include "train_ctr/json_report.h"

#include <cstdint>
#include <fstream>
#include <nlohmann/json.hpp>
#include <optional>

#include "absl/strings/str_cat.h"

namespace train_ctr {
namespace {

using Json = nlohmann::ordered_json;

Json ToJson(const std::optional<int64_t>& step) {
  return step ? Json(*step) : Json(nullptr);
}

Json ToJson(const SaveReport& save) {
  Json json = {{"step", save.step},
               {"kind", save.kind},
               {"bytes", save.bytes},
               {"rows_upserted", save.rows_upserted},
               {"rows_erased", save.rows_erased},
               {"blocking_ms", save.blocking_ms},
               {"save_ms", save.save_ms},
               {"commit_ms", save.commit_ms}};
  if (!save.base_reason.empty()) json["base_reason"] = save.base_reason;
  return json;
}

Json ToJson(const JobReport& report) {
  Json json = {{"step", report.step},
               {"loss", report.evaluation.loss},
               {"auc", report.evaluation.auc},
               {"evaluation_resumed_after", report.evaluation.resumed_after},
               {"preempted", report.preempted},
               {"digest", report.digest},
               {"rows", report.rows},
               {"epoch", report.epoch},
               {"resumed_from", ToJson(report.resumed_from)},
               {"saves", Json::array()}};
  for (const SaveReport& save : report.saves) {
    json["saves"].push_back(ToJson(save));
  }
  return json;
}

Json ToJson(const FollowedStep& followed) {
  Json json = {{"from", ToJson(followed.from)},
               {"to", followed.to},
               {"kind", followed.incremental ? "changes" : "full"},
               {"rows_upserted", followed.change.rows_upserted},
               {"rows_erased", followed.change.rows_erased},
               {"whole_tables", followed.change.whole_tables},
               {"tensors", followed.change.tensors},
               {"ms", followed.ms}};
  if (!followed.incremental) json["reason"] = followed.whole_reason;
  return json;
}

Json ToJson(const FollowReport& report) {
  Json json = {{"step", ToJson(report.step)},
               {"digest", report.digest},
               {"rows", report.rows},
               {"restores", Json::array()}};
  for (const FollowedStep& followed : report.restores) {
    json["restores"].push_back(ToJson(followed));
  }
  return json;
}

absl::Status Write(const Json& json, const std::string& path) {
  std::ofstream file(path, std::ios::trunc);
  file << json.dump(2) << '\n';
  file.close();
  if (file) return absl::OkStatus();
  return absl::InternalError(absl::StrCat("cannot write ", path));
}

}  // namespace

absl::Status CheckJsonPath(const std::string& path) {
  if (std::ofstream(path, std::ios::app)) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("--json \"", path, "\" cannot be written"));
}

absl::Status WriteJson(const JobReport& report, const std::string& path) {
  return Write(ToJson(report), path);
}

absl::Status WriteJson(const FollowReport& report, const std::string& path) {
  return Write(ToJson(report), path);
}

}  // namespace train_ctr
