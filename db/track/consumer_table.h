// SPDX-License-Identifier: Apache-2.0
// The consumers of a tracker, and the sets that they have taken; internal to
// db/.
#ifndef CKPTDB_DB_TRACK_CONSUMER_TABLE_H_
#define CKPTDB_DB_TRACK_CONSUMER_TABLE_H_

#include <cstdint>
#include <map>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "db/row_tracker.h"

namespace ckptdb::internal {

// Identifies a taken set; it lives as long as its ChangeTracker::Changes.
struct TakenSet {
  const void* tracker = nullptr;
  ChangeTracker::Consumer consumer;
  // The set contains all marks up to this epoch.
  uint64_t epoch = 0;
  bool complete = false;
};

inline std::string NewConsumerReason(absl::string_view name) {
  return absl::StrCat("consumer \"", name,
                      "\" is new and has not seen earlier changes");
}

// Returns InvalidArgument unless `consumer` took `set` from `tracker`.
inline absl::Status CheckTakenBy(const void* tracker,
                                 ChangeTracker::Consumer consumer,
                                 const TakenSet* set) {
  if (set == nullptr || set->tracker != tracker) {
    return absl::InvalidArgumentError(
        absl::StrCat("the set returned for consumer ", consumer.value,
                     " was not taken from this tracker"));
  }
  if (set->consumer == consumer) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("the set returned for consumer ", consumer.value,
                   " was taken by consumer ", set->consumer.value));
}

// Consumer has a member `std::string name`. Ids are not reused.
template <typename Consumer>
class ConsumerTable {
 public:
  // Adds a consumer and returns its id. Returns AlreadyExists if the name is in
  // use.
  absl::StatusOr<ChangeTracker::Consumer> Add(Consumer consumer) {
    if (consumer.name.empty()) {
      return absl::InvalidArgumentError("consumer name is empty");
    }
    for (const auto& [value, other] : consumers_) {
      if (other.name != consumer.name) continue;
      return absl::AlreadyExistsError(absl::StrCat(
          "consumer \"", consumer.name, "\" already exists with id ", value));
    }
    consumers_.emplace(next_, std::move(consumer));
    return ChangeTracker::Consumer{next_++};
  }

  absl::StatusOr<Consumer*> Find(ChangeTracker::Consumer id) {
    const auto it = consumers_.find(id.value);
    if (it != consumers_.end()) return &it->second;
    return absl::NotFoundError(
        absl::StrCat("no consumer ", id.value, " in this tracker"));
  }

  void Erase(ChangeTracker::Consumer id) { consumers_.erase(id.value); }

  std::map<uint32_t, Consumer>& all() { return consumers_; }
  const std::map<uint32_t, Consumer>& all() const { return consumers_; }

 private:
  std::map<uint32_t, Consumer> consumers_;
  uint32_t next_ = 0;
};

}  // namespace ckptdb::internal

#endif  // CKPTDB_DB_TRACK_CONSUMER_TABLE_H_
