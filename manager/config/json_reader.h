// SPDX-License-Identifier: Apache-2.0
// Reads the values of a JSON object by key; internal to manager/.
//
//   ObjectReader reader("options", json);
//   reader.Read("count", &count);
//   reader.Read("name", &name);
//   CKPTDB_RETURN_IF_ERROR(reader.Finish());
//
// A missing key leaves its value unchanged, unless it is required. Finish
// returns the first error: InvalidArgument with the place, the key and the
// value, which JsonText::Locate finds.
#ifndef CKPTDB_MANAGER_CONFIG_JSON_READER_H_
#define CKPTDB_MANAGER_CONFIG_JSON_READER_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "manager/config/json_text.h"

namespace ckptdb::internal {

// Returns InvalidArgument about `value`: "SUBJECT is VALUE; expected WHAT".
absl::Status Unexpected(absl::string_view subject, const Json& value,
                        absl::string_view what);

// Returns the index in `names` of the value, or an Unexpected error that names
// the nearest.
absl::StatusOr<size_t> IndexOfName(absl::string_view subject, const Json& value,
                                   const std::vector<std::string>& names);

class ObjectReader {
 public:
  // `json` outlives the reader.
  ObjectReader(std::string place, const Json& json);

  // Makes Finish return an error if `key` is missing. The key must be read as
  // well.
  void Require(const char* key) { required_.emplace_back(key); }

  void Read(const char* key, std::string* value);
  void Read(const char* key, bool* value);
  void Read(const char* key, int* value);
  // Integers must be from 0 to 2^63 - 1. A null leaves an optional unchanged.
  void Read(const char* key, int64_t* value);
  void Read(const char* key, uint64_t* value);
  void Read(const char* key, std::optional<int64_t>* value);
  void Read(const char* key, double* value);
  // Reads seconds, at least 0.
  void Read(const char* key, absl::Duration* value);
  void Read(const char* key, std::vector<std::string>* values);
  void Read(const char* key, std::vector<int64_t>* values);
  void Read(const char* key, std::map<std::string, std::string>* values);

  // Reads one of several names.
  template <typename Value>
  void Read(const char* key,
            const std::vector<std::pair<std::string, Value>>& names,
            Value* value) {
    std::vector<std::string> all;
    for (const auto& [name, meant] : names) all.push_back(name);
    const std::optional<size_t> found = FindName(key, all);
    if (found.has_value()) *value = names[*found].second;
  }

  // Returns the value of a key, of any type; null if it is missing.
  const Json* Find(const char* key);
  // Returns the place of a key's value: "options.count".
  std::string PlaceOf(absl::string_view key) const;
  // Records an error in a value that the caller has read.
  void Update(const absl::Status& status) { status_.Update(status); }

  // Returns the first error. A key that was not read is an error, and so is a
  // missing required key.
  absl::Status Finish();

 private:
  const Json* Find(const char* key, Json::value_t type, const char* what);
  std::optional<size_t> FindName(const char* key,
                                 const std::vector<std::string>& names);
  std::optional<int64_t> FindCount(const char* key);
  std::string SubjectOf(const char* key) const;
  void Fail(const char* key, const Json& value, absl::string_view what);

  const std::string place_;
  const Json& json_;
  std::vector<std::string> known_;
  std::vector<std::string> required_;
  absl::Status status_;
};

}  // namespace ckptdb::internal

#endif  // CKPTDB_MANAGER_CONFIG_JSON_READER_H_
