// SPDX-License-Identifier: Apache-2.0
#include "manager/config/json_reader.h"

#include <algorithm>
#include <limits>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "db/base/nearest_name.h"
#include "schema/status.h"

namespace ckptdb::internal {
namespace {

// Returns nothing unless the value is an integer from 0 to 2^63 - 1. The JSON
// library parses integers as unsigned, unless they are negative; integers set
// by code may be signed.
std::optional<int64_t> CountIn(const Json& json) {
  constexpr auto kMax =
      static_cast<uint64_t>(std::numeric_limits<int64_t>::max());
  if (json.is_number_unsigned() && json.get<uint64_t>() <= kMax) {
    return json.get<int64_t>();
  }
  const bool counts = json.is_number_integer() && !json.is_number_unsigned() &&
                      json.get<int64_t>() >= 0;
  return counts ? std::optional<int64_t>(json.get<int64_t>()) : std::nullopt;
}

}  // namespace

absl::Status Unexpected(absl::string_view subject, const Json& value,
                        absl::string_view what) {
  return AboutValue(
      value, absl::InvalidArgumentError(absl::StrCat(
                 subject, " is ", JsonString(value), "; expected ", what)));
}

absl::StatusOr<size_t> IndexOfName(absl::string_view subject, const Json& value,
                                   const std::vector<std::string>& names) {
  if (!value.is_string()) return Unexpected(subject, value, "a string");
  const auto name = value.get<std::string>();
  const auto at = std::find(names.begin(), names.end(), name);
  if (at != names.end()) return static_cast<size_t>(at - names.begin());
  return Unexpected(
      subject, value,
      absl::StrCat("one of ", absl::StrJoin(names, ", "), "; did you mean \"",
                   Nearest(name, names), "\"?"));
}

ObjectReader::ObjectReader(std::string place, const Json& json)
    : place_(std::move(place)), json_(json) {
  if (json_.is_object()) return;
  status_ = Unexpected(absl::StrCat(place_, ": the value"), json_, "an object");
}

void ObjectReader::Read(const char* key, std::string* value) {
  const Json* found = Find(key, Json::value_t::string, "a string");
  if (found != nullptr) *value = found->get<std::string>();
}

void ObjectReader::Read(const char* key, bool* value) {
  const Json* found = Find(key, Json::value_t::boolean, "a boolean");
  if (found != nullptr) *value = found->get<bool>();
}

void ObjectReader::Read(const char* key, int* value) {
  // Checks the range of int here, as FindCount allows 63 bits.
  const std::optional<int64_t> count = FindCount(key);
  if (!count.has_value()) return;
  if (*count <= std::numeric_limits<int>::max()) {
    *value = static_cast<int>(*count);
  } else {
    Fail(key, *Find(key), "a number, 0 to 2^31 - 1");
  }
}

void ObjectReader::Read(const char* key, int64_t* value) {
  *value = FindCount(key).value_or(*value);
}

void ObjectReader::Read(const char* key, uint64_t* value) {
  const std::optional<int64_t> count = FindCount(key);
  if (count.has_value()) *value = static_cast<uint64_t>(*count);
}

void ObjectReader::Read(const char* key, std::optional<int64_t>* value) {
  const Json* found = Find(key);
  if (found == nullptr || found->is_null()) return;
  if (const std::optional<int64_t> count = FindCount(key)) *value = count;
}

void ObjectReader::Read(const char* key, double* value) {
  const Json* found = Find(key);
  if (found == nullptr) return;
  if (!found->is_number()) return Fail(key, *found, "a number");
  *value = found->get<double>();
}

void ObjectReader::Read(const char* key, absl::Duration* value) {
  const Json* found = Find(key);
  if (found == nullptr) return;
  if (!found->is_number() || found->get<double>() < 0) {
    return Fail(key, *found, "a number of seconds, at least 0");
  }
  *value = absl::Seconds(found->get<double>());
}

void ObjectReader::Read(const char* key, std::vector<std::string>* values) {
  constexpr char kWhat[] = "a list of strings";
  const Json* found = Find(key, Json::value_t::array, kWhat);
  if (found == nullptr) return;
  values->clear();
  for (const Json& each : *found) {
    if (!each.is_string()) return Fail(key, *found, kWhat);
    values->push_back(each.get<std::string>());
  }
}

void ObjectReader::Read(const char* key, std::vector<int64_t>* values) {
  constexpr char kWhat[] = "a list of numbers, 0 to 2^63 - 1";
  const Json* found = Find(key, Json::value_t::array, kWhat);
  if (found == nullptr) return;
  values->clear();
  for (const Json& each : *found) {
    const std::optional<int64_t> count = CountIn(each);
    if (!count.has_value()) return Fail(key, *found, kWhat);
    values->push_back(*count);
  }
}

void ObjectReader::Read(const char* key,
                        std::map<std::string, std::string>* values) {
  constexpr char kWhat[] = "an object of strings";
  const Json* found = Find(key, Json::value_t::object, kWhat);
  if (found == nullptr) return;
  // Unlike a list, which replaces the previous value, an object adds to it.
  for (const auto& [name, value] : found->items()) {
    if (!value.is_string()) return Fail(key, *found, kWhat);
    (*values)[name] = value.get<std::string>();
  }
}

const Json* ObjectReader::Find(const char* key) {
  // Notes missing keys as well: a misspelt key may have meant one of them.
  known_.emplace_back(key);
  if (!json_.is_object()) return nullptr;
  const auto found = json_.find(key);
  return found == json_.end() ? nullptr : &*found;
}

std::string ObjectReader::PlaceOf(absl::string_view key) const {
  return absl::StrCat(place_, ".", key);
}

// A key that was not read is an error, because a misspelt option must not be
// ignored.
absl::Status ObjectReader::Finish() {
  if (!json_.is_object()) return status_;
  for (const auto& [key, value] : json_.items()) {
    if (std::find(known_.begin(), known_.end(), key) != known_.end()) continue;
    status_.Update(AboutValue(
        value, absl::InvalidArgumentError(absl::StrCat(
                   place_, ": unknown key \"", key, "\"; did you mean \"",
                   Nearest(key, known_), "\"?"))));
  }
  for (const std::string& key : required_) {
    if (json_.contains(key)) continue;
    status_.Update(AboutValue(json_, absl::InvalidArgumentError(absl::StrCat(
                                         place_, ": the key \"", key,
                                         "\" is missing; it has no default"))));
  }
  return status_;
}

const Json* ObjectReader::Find(const char* key, Json::value_t type,
                               const char* what) {
  const Json* found = Find(key);
  if (found == nullptr || found->type() == type) return found;
  Fail(key, *found, what);
  return nullptr;
}

std::optional<size_t> ObjectReader::FindName(
    const char* key, const std::vector<std::string>& names) {
  const Json* found = Find(key);
  if (found == nullptr) return std::nullopt;
  const absl::StatusOr<size_t> at = IndexOfName(SubjectOf(key), *found, names);
  status_.Update(at.status());
  return at.ok() ? std::optional<size_t>(*at) : std::nullopt;
}

std::optional<int64_t> ObjectReader::FindCount(const char* key) {
  const Json* found = Find(key);
  if (found == nullptr) return std::nullopt;
  const std::optional<int64_t> count = CountIn(*found);
  if (!count.has_value()) Fail(key, *found, "a number, 0 to 2^63 - 1");
  return count;
}

std::string ObjectReader::SubjectOf(const char* key) const {
  return absl::StrCat(place_, ": \"", key, "\"");
}

void ObjectReader::Fail(const char* key, const Json& value,
                        absl::string_view what) {
  status_.Update(Unexpected(SubjectOf(key), value, what));
}

}  // namespace ckptdb::internal
