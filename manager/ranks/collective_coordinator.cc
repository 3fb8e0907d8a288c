// SPDX-License-Identifier: Apache-2.0
// A coordinator over the trainer's collectives.
//
// All ranks take part in each turn. It begins with an all-gather of whether
// each rank has messages. Then rank 0 broadcasts its messages to all, and an
// all-to-all carries the others, if there are any. A rank takes part while one
// of its threads waits, so a turn waits for the slowest rank.
//
// Coordinator::AllGather sends no messages, because a turn would wait: it calls
// the trainer's own all-gather on another process group, if it has one.
#include <map>
#include <set>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "db/base/call_guard.h"
#include "db/base/mutex.h"
#include "manager/coordinator.h"
#include "manager/ranks/all_gathers.h"
#include "manager/ranks/message_codec.h"
#include "manager/ranks/rank_calls.h"
#include "manager/ranks/watchdog.h"
#include "schema/bytes/annotate.h"
#include "schema/status.h"

namespace ckptdb {
namespace {

using internal::CallGuarded;
using internal::MessageReader;
using internal::MessageWriter;

// What a rank gathers at the beginning of a turn. The number reveals ranks that
// are out of step, for example because the trainer uses the group elsewhere.
struct Turn {
  uint64_t number = 0;  // counts the turns of a rank
  uint8_t to_all = 0;   // rank 0 has something to broadcast
  uint8_t to_some = 0;
};
constexpr size_t kTurnBytes = sizeof(uint64_t) + 2;

std::string Encode(const Turn& turn) {
  std::string bytes;
  MessageWriter(&bytes).Put(turn.number, turn.to_all, turn.to_some);
  return bytes;
}

Turn DecodeTurn(absl::string_view bytes) {
  Turn turn;
  MessageReader(bytes).Get(&turn.number, &turn.to_all, &turn.to_some);
  return turn;
}

// Returns Internal if the bytes are not messages: the trainer's functions have
// mixed them up or truncated them.
absl::Status Unpack(uint32_t rank, absl::string_view packed,
                    std::vector<Coordinator::Transport::Message>* messages) {
  MessageReader reader(packed);
  while (!reader.rest().empty()) {
    absl::string_view message;
    if (!reader.Get(&message) || message.empty()) {
      return absl::InternalError(
          absl::StrCat("the collectives returned bytes for rank ", rank,
                       " that it did not send; they must return each rank's "
                       "bytes unchanged"));
    }
    messages->push_back({rank, std::make_shared<const std::string>(message)});
  }
  return absl::OkStatus();
}

// The trainer's functions, none of which is called after one has failed. Used
// by two threads: one takes turns, and the training thread gathers.
class TrainersGroup {
 public:
  explicit TrainersGroup(Coordinator::Collectives collectives)
      : functions(std::move(collectives)) {}

  // Calls `call`, in which functions wait, and aborts it at `give_up`.
  template <typename Result>
  absl::StatusOr<Result> Run(
      absl::Time give_up, internal::Watchdog* watchdog,
      const std::function<absl::StatusOr<Result>()>& call) {
    CKPTDB_RETURN_IF_ERROR(failure());
    CKPTDB_RETURN_IF_ERROR(watchdog->Arm(give_up));
    absl::StatusOr<Result> result = call();
    const bool late = watchdog->Disarm();
    // The watchdog has aborted the group, so the call is late even if the
    // functions succeeded just before.
    if (!late && result.ok()) return result;
    const absl::Status why =
        late ? Late(result.status()) : NameRank(result.status());
    Fail(why);
    // The other ranks are in a collective that this rank will not enter, and
    // would wait until their deadlines.
    if (!late) Abort(why);
    return why;
  }

  void AbortLate() const { functions.abort(NameRank(kLate)); }
  absl::Status failure() const {
    const internal::MutexLock lock(&mutex_);
    return failure_;
  }

  const Coordinator::Collectives functions;

 private:
  void Fail(const absl::Status& why) {
    const internal::MutexLock lock(&mutex_);
    failure_.Update(why);
  }
  void Abort(const absl::Status& why) const {
    CallGuarded("Coordinator::Collectives::abort", [&] {
      functions.abort(why);
    }).IgnoreError();
  }

  // Adds the rank, unless a function has named it.
  absl::Status NameRank(const absl::Status& status) const {
    if (absl::StartsWith(status.message(), "rank ")) return status;
    return internal::Annotate(status, absl::StrCat("rank ", functions.rank));
  }

  // The error of a call that the watchdog has ended.
  absl::Status Late(const absl::Status& status) const {
    if (status.ok()) return NameRank(kLate);
    return NameRank(internal::Reword(
        status, absl::StatusCode::kDeadlineExceeded, status.message()));
  }

  inline static const absl::Status kLate = absl::DeadlineExceededError(
      "a collective was aborted because not all ranks joined it in time");

  mutable internal::Mutex mutex_;
  absl::Status failure_ ABSL_GUARDED_BY(mutex_);
};

absl::Status CheckCount(const Coordinator::Collectives& group,
                        absl::string_view function, size_t count) {
  if (count == group.world_size) return absl::OkStatus();
  return absl::InternalError(absl::StrCat(
      "Coordinator::Collectives::", function, " returned ", count,
      " values, expected one from each of the ", group.world_size, " ranks"));
}

// All messages of a turn have arrived when it ends, so none is ever unsent.
class CollectiveTransport : public Coordinator::Transport {
 public:
  explicit CollectiveTransport(std::shared_ptr<TrainersGroup> group)
      : group_(std::move(group)),
        functions_(group_->functions),
        watchdog_([this] { group_->AbortLate(); }) {}

  uint32_t rank() const override { return functions_.rank; }
  uint32_t world_size() const override { return functions_.world_size; }
  size_t unsent() const override { return 0; }

  absl::StatusOr<std::vector<Message>> Exchange(std::vector<Message> outgoing,
                                                absl::Time give_up) override {
    if (world_size() == 1) return std::vector<Message>();
    return group_->Run<std::vector<Message>>(
        give_up, &watchdog_, [&] { return TakeTurn(outgoing); });
  }

 private:
  // The all-gather shows all ranks whether a broadcast and an all-to-all
  // follow, so they call the same collectives in the same order.
  absl::StatusOr<std::vector<Message>> TakeTurn(
      const std::vector<Message>& outgoing) {
    std::string to_all;
    std::vector<std::string> to_some(world_size());
    Turn own;
    own.number = turns_++;
    PackAll(outgoing, &to_all, &to_some);
    own.to_all = to_all.empty() ? 0 : 1;
    for (const std::string& packed : to_some) {
      if (!packed.empty()) own.to_some = 1;
    }
    CKPTDB_ASSIGN_OR_RETURN(const Turn all, BeginTurn(own));
    std::vector<Message> incoming;
    if (all.to_all != 0) {
      CKPTDB_ASSIGN_OR_RETURN(
          const std::string packed,
          CallGuarded("Coordinator::Collectives::broadcast",
                      [&] { return functions_.broadcast(std::move(to_all)); }));
      if (packed.empty()) {
        return absl::InternalError(
            "Coordinator::Collectives::broadcast returned nothing, expected "
            "the value that rank 0 sent");
      }
      if (rank() != kOwnerRank) {
        CKPTDB_RETURN_IF_ERROR(Unpack(kOwnerRank, packed, &incoming));
      }
    }
    if (all.to_some != 0) {
      CKPTDB_RETURN_IF_ERROR(SendToSome(std::move(to_some), &incoming));
    }
    return incoming;
  }

  // Packs a message of rank 0 to all others once.
  void PackAll(const std::vector<Message>& outgoing, std::string* to_all,
               std::vector<std::string>* to_some) const {
    std::map<const std::string*, uint32_t> receivers;
    for (const Message& message : outgoing) ++receivers[message.bytes.get()];
    std::set<const std::string*> packed;
    for (const Message& message : outgoing) {
      const std::string* const bytes = message.bytes.get();
      if (rank() != kOwnerRank || receivers[bytes] + 1 < world_size()) {
        MessageWriter(&(*to_some)[message.rank]).Put(*bytes);
      } else if (packed.insert(bytes).second) {
        MessageWriter(to_all).Put(*bytes);
      }
    }
  }

  // Returns whether any rank has messages.
  absl::StatusOr<Turn> BeginTurn(const Turn& own) {
    CKPTDB_ASSIGN_OR_RETURN(
        const std::vector<std::string> turns,
        CallGuarded("Coordinator::Collectives::all_gather",
                    [&] { return functions_.all_gather(Encode(own)); }));
    CKPTDB_RETURN_IF_ERROR(CheckCount(functions_, "all_gather", turns.size()));
    Turn all = own;
    // Another call on the trainer's group could be taken for a turn, so the
    // bytes are checked.
    for (uint32_t r = 0; r < turns.size(); ++r) {
      if (turns[r].size() != kTurnBytes) {
        return absl::InternalError(absl::StrCat(
            "the all-gather returned ", turns[r].size(), " bytes for rank ", r,
            ", expected ", kTurnBytes, "; no other call may use the group"));
      }
      const Turn turn = DecodeTurn(turns[r]);
      if (turn.number != own.number) {
        return absl::AbortedError(
            absl::StrCat("the ranks' collective calls are out of step: rank ",
                         rank(), " is at turn ", own.number, ", rank ", r,
                         " at turn ", turn.number));
      }
      all.to_all |= turn.to_all;
      all.to_some |= turn.to_some;
    }
    return all;
  }

  absl::Status SendToSome(std::vector<std::string> to_some,
                          std::vector<Message>* incoming) {
    CKPTDB_ASSIGN_OR_RETURN(
        const std::vector<std::string> packed,
        CallGuarded("Coordinator::Collectives::all_to_all",
                    [&] { return functions_.all_to_all(std::move(to_some)); }));
    CKPTDB_RETURN_IF_ERROR(CheckCount(functions_, "all_to_all", packed.size()));
    for (uint32_t r = 0; r < packed.size(); ++r) {
      CKPTDB_RETURN_IF_ERROR(Unpack(r, packed[r], incoming));
    }
    return absl::OkStatus();
  }

  const std::shared_ptr<TrainersGroup> group_;
  const Coordinator::Collectives& functions_;
  internal::Watchdog watchdog_;
  uint64_t turns_ = 0;
};

// An all-gather of the trainer, in which each value has the tag of its call.
class CollectiveAllGather : public Coordinator::AllGather {
 public:
  CollectiveAllGather(std::shared_ptr<TrainersGroup> group,
                      internal::Watchdog* watchdog, absl::string_view tag,
                      absl::string_view value)
      : group_(std::move(group)), watchdog_(watchdog), tag_(tag) {
    std::string own;
    MessageWriter(&own).Put(tag, value);
    failed_ = group_->failure();
    if (!failed_.ok()) return;
    failed_ = CallGuarded("Coordinator::Collectives::start_all_gather", [&] {
      wait_ = group_->functions.start_all_gather(std::move(own));
    });
  }

  absl::StatusOr<std::vector<std::string>> Finish(
      absl::Duration deadline) override {
    return group_->Run<std::vector<std::string>>(
        absl::Now() + deadline, watchdog_, [&] { return TakeValues(); });
  }

 private:
  absl::StatusOr<std::vector<std::string>> TakeValues() {
    CKPTDB_RETURN_IF_ERROR(failed_);
    if (wait_ == nullptr) {
      return absl::InternalError(
          "Coordinator::Collectives::start_all_gather returned null, expected "
          "a function that waits for all ranks");
    }
    CKPTDB_ASSIGN_OR_RETURN(
        std::vector<std::string> values,
        CallGuarded("Coordinator::Collectives::start_all_gather", wait_));
    CKPTDB_RETURN_IF_ERROR(
        CheckCount(group_->functions, "start_all_gather", values.size()));
    for (uint32_t rank = 0; rank < values.size(); ++rank) {
      CKPTDB_RETURN_IF_ERROR(RemoveTag(rank, &values[rank]));
    }
    return values;
  }

  absl::Status RemoveTag(uint32_t rank, std::string* value) const {
    std::string tag;
    std::string rest;
    MessageReader reader(*value);
    if (!reader.Get(&tag, &rest) || !reader.rest().empty()) {
      return absl::InternalError(absl::StrCat(
          "the all-gather returned ", value->size(), " bytes for rank ", rank,
          " that it did not send; no other call may use its group"));
    }
    if (tag != tag_) {
      const uint32_t own = group_->functions.rank;
      return internal::RanksDisagree(own, tag_, rank, tag);
    }
    *value = std::move(rest);
    return absl::OkStatus();
  }

  const std::shared_ptr<TrainersGroup> group_;
  internal::Watchdog* const watchdog_;
  const std::string tag_;
  absl::Status failed_;
  std::function<absl::StatusOr<std::vector<std::string>>()> wait_;
};

class CollectiveAllGathers : public internal::AllGathers {
 public:
  explicit CollectiveAllGathers(std::shared_ptr<TrainersGroup> group)
      : group_(std::move(group)), watchdog_([this] { group_->AbortLate(); }) {}

  std::unique_ptr<Coordinator::AllGather> Start(Coordinator* ranks,
                                                absl::string_view tag,
                                                std::string value) override {
    if (group_->functions.start_all_gather == nullptr) {
      return ranks->Coordinator::StartAllGather(tag, std::move(value));
    }
    return std::make_unique<CollectiveAllGather>(group_, &watchdog_, tag,
                                                 value);
  }

 private:
  const std::shared_ptr<TrainersGroup> group_;
  internal::Watchdog watchdog_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<Coordinator>> CollectiveCoordinator(
    Coordinator::Collectives collectives) {
  if (collectives.rank >= collectives.world_size) {
    return absl::InvalidArgumentError(absl::StrCat(
        "CollectiveCoordinator: the rank is ", collectives.rank,
        ", expected one below the world size, ", collectives.world_size));
  }
  const std::pair<absl::string_view, bool> given[] = {
      {"all_gather", collectives.all_gather != nullptr},
      {"broadcast", collectives.broadcast != nullptr},
      {"all_to_all", collectives.all_to_all != nullptr},
      {"abort", collectives.abort != nullptr}};
  for (const auto& [name, is_set] : given) {
    if (is_set) continue;
    return absl::InvalidArgumentError(
        absl::StrCat("CollectiveCoordinator: ", name,
                     " is null; set all functions of "
                     "Coordinator::Collectives but start_all_gather"));
  }
  const auto group = std::make_shared<TrainersGroup>(std::move(collectives));
  return internal::MessageCoordinatorWith(
      std::make_unique<CollectiveTransport>(group),
      std::make_shared<CollectiveAllGathers>(group));
}

}  // namespace ckptdb
