// SPDX-License-Identifier: Apache-2.0
#include "manager/manager_options.h"

#include <functional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "db/base/url_stores.h"
#include "manager/config/json_reader.h"
#include "manager/config/json_text.h"
#include "manager/config/load_json.h"
#include "manager/internal/url_shipping.h"
#include "schema/bytes/annotate.h"
#include "schema/status.h"

namespace ckptdb {
namespace {

using internal::AboutValue;
using internal::Json;
using internal::JsonText;
using internal::ObjectReader;

constexpr char kManager[] = "manager";
// The maximum nesting of policies.
constexpr int kMaxDepth = 32;

absl::Status Error(const std::string& place, const Json& json,
                   absl::string_view what) {
  return AboutValue(
      json, absl::InvalidArgumentError(absl::StrCat(place, ": ", what)));
}

// Returns the policy, or its error at the place of `json`. A policy carries the
// error of its arguments, which is checked here so that the message has a line
// and a column.
template <typename Policy>
absl::StatusOr<Policy> AtPlace(const std::string& place, const Json& json,
                               Policy policy) {
  if (policy.status().ok()) return policy;
  return AboutValue(json, internal::Annotate(policy.status(), place));
}

// Reads policies of one kind.
template <typename Policy>
struct PolicyKind {
  // Policies without a value, by name.
  std::vector<std::pair<std::string, Policy>> named;
  // Reads a policy with one key; `depth` is the nesting of policies so far.
  std::function<absl::StatusOr<Policy>(ObjectReader* reader, int depth)> keyed;
};

template <typename Policy>
absl::StatusOr<Policy> ReadPolicy(const PolicyKind<Policy>& kind,
                                  const std::string& place, const Json& json,
                                  int depth = 0);

// Composes the list in halves, so that a long list does not become a deep
// nesting.
template <typename Policy>
Policy Compose(absl::Span<const Policy> policies, bool any) {
  if (policies.size() == 1) return policies.front();
  const size_t half = policies.size() / 2;
  const Policy left = Compose(policies.subspan(0, half), any);
  const Policy right = Compose(policies.subspan(half), any);
  return any ? left | right : left & right;
}

template <typename Policy>
// Reads the list of "any" or "all". Refuses an empty list, which is neither yes
// nor no.
absl::StatusOr<Policy> ReadPolicies(const PolicyKind<Policy>& kind, bool any,
                                    const std::string& place, const Json& json,
                                    int depth) {
  if (!json.is_array() || json.empty()) {
    return internal::Unexpected(absl::StrCat(place, ": the value"), json,
                                "a list of at least one policy");
  }
  std::vector<Policy> policies;
  for (size_t i = 0; i < json.size(); ++i) {
    CKPTDB_ASSIGN_OR_RETURN(
        policies.emplace_back(),
        ReadPolicy(kind, absl::StrCat(place, "[", i, "]"), json[i], depth));
  }
  return Compose<Policy>(policies, any);
}

template <typename Policy>
// Reads a policy that is just a name, such as "save_initially".
absl::StatusOr<Policy> ReadNamed(const PolicyKind<Policy>& kind,
                                 const std::string& place, const Json& json) {
  std::vector<std::string> names;
  for (const auto& [name, policy] : kind.named) names.push_back(name);
  CKPTDB_ASSIGN_OR_RETURN(
      const size_t at,
      internal::IndexOfName(absl::StrCat(place, ": the value"), json, names));
  return kind.named[at].second;
}

template <typename Policy>
absl::StatusOr<Policy> ReadPolicy(const PolicyKind<Policy>& kind,
                                  const std::string& place, const Json& json,
                                  int depth) {
  if (depth > kMaxDepth) {
    return Error(place, json,
                 absl::StrCat("policies are nested more than ", kMaxDepth,
                              " deep, which is the limit"));
  }
  if (json.is_string()) return ReadNamed(kind, place, json);
  ObjectReader reader(place, json);
  if (json.is_object() && json.size() != 1) {
    return Error(place, json,
                 absl::StrCat("the policy has ", json.size(),
                              " keys; expected one; \"any\" and \"all\" "
                              "combine policies"));
  }
  // Checks these keys first, in policies of both kinds. This also makes them
  // known to the reader, which suggests them for a misspelt key.
  for (const char* const composition : {"any", "all"}) {
    const Json* const found = reader.Find(composition);
    if (found == nullptr) continue;
    const bool any = composition == absl::string_view("any");
    return ReadPolicies(kind, any, reader.PlaceOf(composition), *found,
                        depth + 1);
  }
  if (const Json* found = reader.Find("not")) {
    CKPTDB_ASSIGN_OR_RETURN(
        const Policy negated,
        ReadPolicy(kind, reader.PlaceOf("not"), *found, depth + 1));
    return !negated;
  }
  absl::StatusOr<Policy> read = kind.keyed(&reader, depth + 1);
  // The value's error is more specific than that of the policy made without it.
  CKPTDB_RETURN_IF_ERROR(reader.Finish());
  CKPTDB_RETURN_IF_ERROR(read.status());
  return AtPlace(place, json, *std::move(read));
}

// Makes a policy from the value of a key, if present; not from the default
// value, which most policies reject.
template <typename Argument, typename Policy>
void ReadKeyed(ObjectReader* reader, const char* key, Policy (*make)(Argument),
               Policy* policy) {
  std::remove_cvref_t<Argument> value = {};
  reader->Read(key, &value);
  if (reader->Find(key) != nullptr) *policy = make(value);
}

absl::StatusOr<SavePolicy> ReadSaveKeyed(ObjectReader* reader, int /*depth*/) {
  SavePolicy policy;
  ReadKeyed(reader, "save_every_n_steps", SaveEveryNSteps, &policy);
  ReadKeyed(reader, "save_at_or_after_every_n_steps", SaveAtOrAfterEveryNSteps,
            &policy);
  ReadKeyed(reader, "save_at_steps", SaveAtSteps, &policy);
  ReadKeyed(reader, "save_every_n_seconds", SaveEveryNSeconds, &policy);
  ReadKeyed(reader, "save_continuously", SaveContinuously, &policy);
  return policy;
}

PolicyKind<SavePolicy> SavePolicies() {
  return {{{"save_initially", SaveInitially()},
           {"save_on_preemption", SaveOnPreemption()}},
          ReadSaveKeyed};
}

// Declared here because a "latest_of" policy contains another one.
PolicyKind<KeepPolicy> KeepPolicies();

absl::StatusOr<KeepPolicy> ReadLatestOf(const std::string& place,
                                        const Json& json, int depth) {
  int64_t count = 0;
  ObjectReader reader(place, json);
  reader.Require("count");
  reader.Read("count", &count);
  reader.Require("policy");
  const Json* const policy = reader.Find("policy");
  CKPTDB_RETURN_IF_ERROR(reader.Finish());
  CKPTDB_ASSIGN_OR_RETURN(
      const KeepPolicy kept,
      ReadPolicy(KeepPolicies(), reader.PlaceOf("policy"), *policy, depth));
  return LatestOf(kept, count);
}

absl::StatusOr<KeepPolicy> ReadKeepKeyed(ObjectReader* reader, int depth) {
  if (const Json* found = reader->Find("best_n")) {
    CKPTDB_ASSIGN_OR_RETURN(
        KeepPolicy::BestOptions best,
        internal::ReadBest(reader->PlaceOf("best_n"), *found));
    return BestN(std::move(best));
  }
  if (const Json* found = reader->Find("latest_of")) {
    return ReadLatestOf(reader->PlaceOf("latest_of"), *found, depth);
  }
  KeepPolicy policy;
  ReadKeyed(reader, "latest_n", LatestN, &policy);
  ReadKeyed(reader, "keep_steps", KeepSteps, &policy);
  ReadKeyed(reader, "keep_every_n_steps", KeepEveryNSteps, &policy);
  ReadKeyed(reader, "keep_nearest_to_every_n_steps", KeepNearestToEveryNSteps,
            &policy);
  ReadKeyed(reader, "keep_every_n_seconds", KeepEveryNSeconds, &policy);
  ReadKeyed(reader, "keep_for_n_seconds", KeepForNSeconds, &policy);
  return policy;
}

PolicyKind<KeepPolicy> KeepPolicies() {
  return {{{"keep_all", KeepAll()}}, ReadKeepKeyed};
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
  reader->Read<RetentionOptions::Removal>(
      "removal",
      {{"never", RetentionOptions::Removal::kNever},
       {"ephemeral_only", RetentionOptions::Removal::kEphemeralOnly},
       {"all_non_permanent", RetentionOptions::Removal::kAllNonPermanent}},
      &options->retention.removal);
  internal::ReadBestOf(reader, "best", &options->restore.best);
  reader->Read<ManagerOptions::FirstSave>(
      "first_save",
      {{"unless_restored", ManagerOptions::FirstSave::kUnlessRestored},
       {"always", ManagerOptions::FirstSave::kAlways},
       {"never", ManagerOptions::FirstSave::kNever}},
      &options->save.first_save);
}

void ReadSaving(ObjectReader* reader, ManagerOptions* options) {
  reader->Read("saving", &options->save.enabled);
  reader->Read("deltas", &options->save.deltas);
  reader->Read("audit_deltas", &options->save.audit_deltas);
  reader->Read("audit_replicas", &options->save.audit_replicas);
  reader->Read("base_every", &options->save.base_every);
  reader->Read("max_deltas", &options->save.bounds.max_deltas);
  reader->Read("max_delta_ratio", &options->save.bounds.max_delta_ratio);
  reader->Read<SaveSpec::Abandoned>("abandoned",
                                    {{"keep", SaveSpec::Abandoned::kKeep},
                                     {"remove", SaveSpec::Abandoned::kRemove}},
                                    &options->restore.abandoned);
  reader->Read("user_metadata", &options->save.user_metadata);
  reader->Read("store_metadata", &options->save.store_metadata);
  reader->Read("async", &options->save.async);
  reader->Read("arena_bytes", &options->save.arena_bytes);
  reader->Read("copy_threads", &options->save.copy_threads);
  reader->Read<ManagerOptions::BusyPolicy>(
      "busy",
      {{"wait", ManagerOptions::BusyPolicy::kWait},
       {"skip", ManagerOptions::BusyPolicy::kSkip},
       {"coalesce", ManagerOptions::BusyPolicy::kCoalesce},
       {"fail", ManagerOptions::BusyPolicy::kFail}},
      &options->save.busy);
  reader->Read("tolerated_failures", &options->save.tolerated_failures);
  reader->Read("retry_after_steps", &options->save.retry_after_steps);
  reader->Read("warn_waiting", &options->observers.warn_waiting);
  reader->Read("preemption_grace", &options->save.preemption_grace);
}

// Records an error unless the value of `key` fits.
void Expect(ObjectReader* reader, const char* key, bool fits,
            absl::string_view what) {
  const Json* const found = reader->Find(key);
  if (found == nullptr || fits) return;
  reader->Update(internal::Unexpected(reader->PlaceOf(key), *found, what));
}

void ReadAboveZero(ObjectReader* reader, const char* key,
                   absl::Duration* value) {
  const Json* const found = reader->Find(key);
  Expect(reader, key,
         found != nullptr && found->is_number() && found->get<double>() > 0,
         "a number of seconds above 0");
  reader->Read(key, value);
}

void ReadRemote(ObjectReader* reader, internal::UrlShipping* shipping) {
  ReadAboveZero(reader, "deadline", &shipping->deadline);
  reader->Read("connections", &shipping->connections);
  Expect(reader, "connections", shipping->connections > 0,
         "an integer of at least 1");
  reader->Read("bytes_per_second", &shipping->bytes_per_second);
  reader->Read("take_over", &shipping->take_over);
  ReadAboveZero(reader, "look", &shipping->look);
  ReadAboveZero(reader, "first_retry", &shipping->first_retry);
  ReadAboveZero(reader, "most_retry", &shipping->most_retry);
  RetentionOptions retention;
  ReadPolicyOf(reader, "keep", KeepPolicies(), &retention.keep);
  if (retention.keep.has_value()) shipping->retention = std::move(retention);
  reader->Read("grace", &shipping->grace);
  reader->Read("collect_every", &shipping->collect_every);
}

absl::Status ReadShippingObject(const std::string& place, const Json& json,
                                internal::UrlShipping* shipping,
                                ManagerOptions* options) {
  ObjectReader reader(place, json);
  reader.Require("to");
  reader.Read("to", &shipping->url);
  ReadRemote(&reader, shipping);
  ReadAboveZero(&reader, "warn_lag", &options->ship.warn_lag);
  reader.Read("keep_unshipped", &options->ship.keep_unshipped);
  reader.Read("close_wait", &options->ship.close_wait);
  return reader.Finish();
}

// Reads a URL, or an object with one.
absl::Status ReadShipping(const std::string& place, const Json& json,
                          ManagerOptions* options) {
  internal::UrlShipping shipping;
  if (json.is_string()) {
    shipping.url = json.get<std::string>();
  } else if (!json.is_object()) {
    return internal::Unexpected(absl::StrCat(place, ": the value"), json,
                                "a URL, or an object with one as \"to\"");
  } else {
    CKPTDB_RETURN_IF_ERROR(ReadShippingObject(place, json, &shipping, options));
  }
  if (!internal::IsUrl(shipping.url)) {
    return internal::Unexpected(
        absl::StrCat(place, ": the URL"),
        json.is_string() ? json : json.at("to"),
        "one such as \"s3://bucket/prefix\" or \"file:///folder\"");
  }
  options->ship.to = internal::ShipToUrl(std::move(shipping));
  return absl::OkStatus();
}

void ReadObjectStores(ObjectReader* reader, ManagerOptions* options) {
  reader->Read("fetch_from", &options->restore.fetch_from);
  const Json* const found = reader->Find("ship");
  if (found == nullptr) return;
  reader->Update(ReadShipping(reader->PlaceOf("ship"), *found, options));
}

void ReadRest(ObjectReader* reader, ManagerOptions* options) {
  reader->Read("path", &options->path);
  reader->Read("read_only", &options->read_only);
  reader->Read("poll_every", &options->follow.poll_every);
  internal::ReadEvolve(reader, "evolve", &options->restore.evolve);
  reader->Read("await_store", &options->follow.await_store);
  reader->Read("deadline", &options->ranks.deadline);
  reader->Read("notice_interval", &options->ranks.notice_interval);
  reader->Read<std::optional<ManagerOptions::IoStateResize>>(
      "io_state_resize",
      {{"error", ManagerOptions::IoStateResize::kError},
       {"redistribute", ManagerOptions::IoStateResize::kRedistribute},
       {"owners", ManagerOptions::IoStateResize::kOwners},
       {"reset", ManagerOptions::IoStateResize::kReset},
       {"wrap", ManagerOptions::IoStateResize::kWrap}},
      &options->restore.io_state_resize);
  reader->Read<TableSharding>("sharding",
                              {{"slices", TableSharding::BySlices()},
                               {"modulo", TableSharding::ByModulo()},
                               {"replicated", TableSharding::Replicated()}},
                              &options->ranks.sharding);
  reader->Read<ManagerOptions::ReplicatedSaver>(
      "replicated_saver",
      {{"balanced", ManagerOptions::ReplicatedSaver::kBalanced},
       {"owner", ManagerOptions::ReplicatedSaver::kOwner}},
      &options->ranks.replicated_saver);
  reader->Read("broadcast_replicated", &options->ranks.broadcast_replicated);
  reader->Read("statistics_path", &options->observers.statistics_path);
  reader->Read("background_sweep", &options->store.background_sweep);
  reader->Read("background_fold", &options->store.background_fold);
}

}  // namespace

absl::Status ReadManagerConfig(absl::string_view json,
                               ManagerOptions* options) {
  CKPTDB_ASSIGN_OR_RETURN(const JsonText text, JsonText::Parse(kManager, json));
  // Reads into a copy, so that an error leaves the caller's options unchanged.
  ManagerOptions read = *options;
  ObjectReader reader(kManager, text.json());
  ReadDeciding(&reader, &read);
  ReadSaving(&reader, &read);
  ReadRest(&reader, &read);
  ReadObjectStores(&reader, &read);
  CKPTDB_RETURN_IF_ERROR(text.Locate(reader.Finish()));
  *options = std::move(read);
  return absl::OkStatus();
}

}  // namespace ckptdb
