#include "ckptdb/manager/manager_config.h"

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "ckptdb/manager/config/json_reader.h"
#include "ckptdb/manager/config/json_text.h"
#include "ckptdb/schema/annotate.h"
#include "ckptdb/schema/status.h"

namespace ckptdb {
namespace {

using internal::AboutValue;
using internal::Json;
using internal::JsonText;
using internal::ObjectReader;

constexpr char kManager[] = "manager";
// Of policies within policies.
constexpr int kMaxDepth = 32;

absl::Status Error(const std::string& place, const Json& json,
                   absl::string_view what) {
  return AboutValue(
      json, absl::InvalidArgumentError(absl::StrCat(place, ": ", what)));
}

// Adds the place of `json` to the error of a policy made from it.
template <typename Policy>
absl::StatusOr<Policy> AtPlace(const std::string& place, const Json& json,
                               absl::StatusOr<Policy> made) {
  if (made.ok()) return made;
  return AboutValue(json, internal::Annotate(made.status(), place));
}

// What the policies of saving and those of keeping have in common.
template <typename Policy>
struct PolicyKind {
  using Made = absl::StatusOr<Policy>;
  using Compose = Made (*)(std::vector<Policy>);

  std::vector<std::pair<std::string, Policy>> named;
  Compose any = nullptr;
  Compose all = nullptr;
  Made (*negated)(Policy) = nullptr;
  // Makes a policy of one key; `depth` is the nesting of policies so far.
  std::function<Made(ObjectReader* reader, int depth)> leaf;
};

template <typename Policy>
absl::StatusOr<Policy> ReadPolicy(const PolicyKind<Policy>& kind,
                                  const std::string& place, const Json& json,
                                  int depth = 0);

template <typename Policy>
absl::StatusOr<Policy> ReadPolicies(
    const PolicyKind<Policy>& kind,
    typename PolicyKind<Policy>::Compose compose, const std::string& place,
    const Json& json, int depth) {
  if (!json.is_array()) return Error(place, json, "it is no list of policies");
  std::vector<Policy> policies;
  for (size_t i = 0; i < json.size(); ++i) {
    CKPTDB_ASSIGN_OR_RETURN(
        policies.emplace_back(),
        ReadPolicy(kind, absl::StrCat(place, "[", i, "]"), json[i], depth));
  }
  return AtPlace(place, json, compose(std::move(policies)));
}

template <typename Policy>
absl::StatusOr<Policy> ReadNamed(const PolicyKind<Policy>& kind,
                                 const std::string& place, const Json& json) {
  // Read as one of several names, which says what is wrong with another.
  const Json wrapped = {{"policy", json}};
  ObjectReader reader(place, wrapped);
  Policy policy;
  reader.Read("policy", kind.named, &policy);
  CKPTDB_RETURN_IF_ERROR(reader.Finish());
  return policy;
}

template <typename Policy>
absl::StatusOr<Policy> ReadPolicy(const PolicyKind<Policy>& kind,
                                  const std::string& place, const Json& json,
                                  int depth) {
  if (depth > kMaxDepth) {
    return Error(place, json,
                 absl::StrCat("policies are more than ", kMaxDepth, " deep"));
  }
  if (json.is_string()) return ReadNamed(kind, place, json);
  ObjectReader reader(place, json);
  if (json.is_object() && json.size() != 1) {
    return Error(place, json,
                 absl::StrCat("a policy has one key, not ", json.size()));
  }
  if (const Json* found = reader.Find("any")) {
    return ReadPolicies(kind, kind.any, reader.PlaceOf("any"), *found,
                        depth + 1);
  }
  if (const Json* found = reader.Find("all")) {
    return ReadPolicies(kind, kind.all, reader.PlaceOf("all"), *found,
                        depth + 1);
  }
  if (const Json* found = reader.Find("not")) {
    CKPTDB_ASSIGN_OR_RETURN(
        Policy negated,
        ReadPolicy(kind, reader.PlaceOf("not"), *found, depth + 1));
    return kind.negated(std::move(negated));
  }
  absl::StatusOr<Policy> leaf = kind.leaf(&reader, depth + 1);
  // What is wrong with the value, before what a policy of none would be.
  CKPTDB_RETURN_IF_ERROR(reader.Finish());
  return AtPlace(place, json, std::move(leaf));
}

absl::StatusOr<SavePolicyPtr> ReadSaveLeaf(ObjectReader* reader,
                                           int /*depth*/) {
  int64_t every_steps = 0;
  int64_t at_or_after_every_steps = 0;
  std::vector<int64_t> steps;
  double every_seconds = 0;
  double continuous = 0;
  reader->Read("every_steps", &every_steps);
  reader->Read("at_or_after_every_steps", &at_or_after_every_steps);
  reader->Read("steps", &steps);
  reader->Read("every_seconds", &every_seconds);
  reader->Read("continuous", &continuous);
  if (reader->Find("every_steps")) return FixedInterval(every_steps);
  if (reader->Find("at_or_after_every_steps")) {
    return AtOrAfterEveryNSteps(at_or_after_every_steps);
  }
  if (reader->Find("steps")) return SpecificSteps(std::move(steps));
  if (reader->Find("every_seconds")) return EveryNSeconds(every_seconds);
  return Continuous(continuous);
}

PolicyKind<SavePolicyPtr> SavePolicies() {
  return {{{"initial", InitialSave()}, {"preemption", OnPreemption()}},
          AnySave,
          AllSave,
          NotSave,
          ReadSaveLeaf};
}

absl::StatusOr<BestOptions> ReadBest(const std::string& place,
                                     const Json& json) {
  BestOptions best;
  ObjectReader reader(place, json);
  reader.Read("metric", &best.metric);
  reader.Read("count", &best.count);
  reader.Read<Better>("better", {{"max", Better::kMax}, {"min", Better::kMin}},
                      &best.better);
  reader.Read("keep_without_metric", &best.keep_without_metric);
  CKPTDB_RETURN_IF_ERROR(reader.Finish());
  return best;
}

PolicyKind<KeepPolicyPtr> KeepPolicies();

absl::StatusOr<KeepPolicyPtr> ReadLatestOf(const std::string& place,
                                           const Json& json, int depth) {
  int64_t count = 0;
  ObjectReader reader(place, json);
  reader.Read("count", &count);
  const Json* const policy = reader.Find("policy");
  CKPTDB_RETURN_IF_ERROR(reader.Finish());
  if (policy == nullptr) {
    return absl::InvalidArgumentError(
        absl::StrCat(place, ": \"policy\" is missing"));
  }
  CKPTDB_ASSIGN_OR_RETURN(
      KeepPolicyPtr kept,
      ReadPolicy(KeepPolicies(), reader.PlaceOf("policy"), *policy, depth));
  return LatestOf(std::move(kept), count);
}

absl::StatusOr<KeepPolicyPtr> ReadKeepLeaf(ObjectReader* reader, int depth) {
  int64_t latest = 0;
  std::vector<int64_t> steps;
  int64_t every_steps = 0;
  int64_t nearest_to_every_steps = 0;
  double every_seconds = 0;
  double time_to_live = 0;
  reader->Read("latest", &latest);
  reader->Read("steps", &steps);
  reader->Read("every_steps", &every_steps);
  reader->Read("nearest_to_every_steps", &nearest_to_every_steps);
  reader->Read("every_seconds", &every_seconds);
  reader->Read("time_to_live", &time_to_live);
  if (const Json* found = reader->Find("best")) {
    CKPTDB_ASSIGN_OR_RETURN(BestOptions best,
                            ReadBest(reader->PlaceOf("best"), *found));
    return BestN(std::move(best));
  }
  if (const Json* found = reader->Find("latest_of")) {
    return ReadLatestOf(reader->PlaceOf("latest_of"), *found, depth);
  }
  if (reader->Find("latest")) return LatestN(latest);
  if (reader->Find("steps")) return KeepSteps(std::move(steps));
  if (reader->Find("every_steps")) return EveryNSteps(every_steps);
  if (reader->Find("nearest_to_every_steps")) {
    return NearestToEveryNSteps(nearest_to_every_steps);
  }
  if (reader->Find("every_seconds")) return KeepEveryNSeconds(every_seconds);
  return TimeToLive(time_to_live);
}

PolicyKind<KeepPolicyPtr> KeepPolicies() {
  return {{{"all", KeepAll()}}, AnyKeep, AllKeep, NotKeep, ReadKeepLeaf};
}

template <typename Policy>
void ReadPolicyOf(ObjectReader* reader, const char* key,
                  const PolicyKind<Policy>& kind, Policy* policy) {
  const Json* found = reader->Find(key);
  if (found == nullptr) return;
  absl::StatusOr<Policy> read = ReadPolicy(kind, reader->PlaceOf(key), *found);
  reader->Update(read.status());
  if (read.ok()) *policy = *std::move(read);
}

void ReadDeciding(ObjectReader* reader, ManagerOptions* options) {
  ReadPolicyOf(reader, "permanent", SavePolicies(),
               &options->schedule.permanent);
  ReadPolicyOf(reader, "ephemeral", SavePolicies(),
               &options->schedule.ephemeral);
  reader->Read("ephemeral_cooldown_steps",
               &options->schedule.ephemeral_cooldown_steps);
  ReadPolicyOf(reader, "keep", KeepPolicies(), &options->retention.keep);
  reader->Read("keep_ephemeral", &options->retention.keep_ephemeral);
  reader->Read<Removal>("removal",
                        {{"never", Removal::kNever},
                         {"ephemeral_only", Removal::kEphemeralOnly},
                         {"all_non_permanent", Removal::kAllNonPermanent}},
                        &options->retention.removal);
  if (const Json* found = reader->Find("best")) {
    absl::StatusOr<BestOptions> best =
        ReadBest(reader->PlaceOf("best"), *found);
    reader->Update(best.status());
    if (best.ok()) options->best = *std::move(best);
  }
  reader->Read<FirstSave>("first_save",
                          {{"unless_restored", FirstSave::kUnlessRestored},
                           {"always", FirstSave::kAlways},
                           {"never", FirstSave::kNever}},
                          &options->first_save);
}

void ReadSaving(ObjectReader* reader, ManagerOptions* options) {
  reader->Read("saving", &options->saving);
  reader->Read("deltas", &options->deltas);
  reader->Read("audit_deltas", &options->audit_deltas);
  reader->Read("base_every", &options->base_every);
  reader->Read("max_deltas", &options->bounds.max_deltas);
  reader->Read("max_delta_ratio", &options->bounds.max_delta_ratio);
  reader->Read<AbandonedBranch>(
      "abandoned",
      {{"keep", AbandonedBranch::kKeep}, {"remove", AbandonedBranch::kRemove}},
      &options->abandoned);
  reader->Read("user_metadata", &options->user_metadata);
  reader->Read("store_metadata", &options->store_metadata);
  reader->Read("async", &options->async);
  reader->Read("arena_bytes", &options->arena_bytes);
  reader->Read("copy_threads", &options->copy_threads);
  reader->Read<BusyPolicy>("busy",
                           {{"wait", BusyPolicy::kWait},
                            {"skip", BusyPolicy::kSkip},
                            {"coalesce", BusyPolicy::kCoalesce},
                            {"fail", BusyPolicy::kFail}},
                           &options->busy);
  reader->Read("tolerated_failures", &options->tolerated_failures);
  reader->Read("retry_after_steps", &options->retry_after_steps);
  reader->Read("warn_waiting", &options->warn_waiting);
  reader->Read("preemption_grace", &options->preemption_grace);
}

void ReadRest(ObjectReader* reader, ManagerOptions* options) {
  reader->Read("path", &options->path);
  reader->Read("read_only", &options->read_only);
  reader->Read("poll_every", &options->poll_every);
  reader->Read("deadline", &options->deadline);
  reader->Read<std::optional<IoStateResize>>(
      "io_state_resize",
      {{"error", IoStateResize::kError},
       {"redistribute", IoStateResize::kRedistribute},
       {"owners", IoStateResize::kOwners},
       {"reset", IoStateResize::kReset}},
      &options->io_state_resize);
  reader->Read<TableSharding>("sharding",
                              {{"slices", TableSharding::BySlices()},
                               {"modulo", TableSharding::ByModulo()},
                               {"replicated", TableSharding::Replicated()}},
                              &options->sharding);
  reader->Read("statistics_path", &options->statistics_path);
  reader->Read("background_sweep", &options->store.background_sweep);
  reader->Read("background_fold", &options->store.background_fold);
}

}  // namespace

absl::Status ReadManagerConfig(absl::string_view json,
                               ManagerOptions* options) {
  CKPTDB_ASSIGN_OR_RETURN(const JsonText text, JsonText::Parse(kManager, json));
  ManagerOptions read = *options;
  ObjectReader reader(kManager, text.json());
  ReadDeciding(&reader, &read);
  ReadSaving(&reader, &read);
  ReadRest(&reader, &read);
  CKPTDB_RETURN_IF_ERROR(text.Locate(reader.Finish()));
  *options = std::move(read);
  return absl::OkStatus();
}

}  // namespace ckptdb
