// SPDX-License-Identifier: Apache-2.0
// A coordinator over the trainer's collectives.
//
// All ranks take part in each turn. It begins with an all-gather of whether
// each rank has messages. Then rank 0 broadcasts its messages to all, and an
// all-to-all carries the others, if there are any. A rank takes part while one
// of its threads waits, so a turn waits for the slowest rank.
#include <map>
#include <set>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "db/base/call_guard.h"
#include "manager/coordinator.h"
#include "manager/ranks/message_codec.h"
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

// All messages of a turn have arrived when it is over, so none is ever unsent.
class CollectiveTransport : public Coordinator::Transport {
 public:
  explicit CollectiveTransport(Coordinator::Collectives collectives)
      : group_(std::move(collectives)),
        watchdog_([this] { group_.abort(NameRank(kLate)); }) {}

  uint32_t rank() const override { return group_.rank; }
  uint32_t world_size() const override { return group_.world_size; }
  size_t unsent() const override { return 0; }

  absl::StatusOr<std::vector<Message>> Exchange(std::vector<Message> outgoing,
                                                absl::Time give_up) override {
    if (group_.world_size == 1) return std::vector<Message>();
    CKPTDB_RETURN_IF_ERROR(watchdog_.Arm(give_up));
    absl::StatusOr<std::vector<Message>> incoming = TakeTurn(outgoing);
    const bool late = watchdog_.Disarm();
    // The watchdog has aborted the group, so the turn is late even if the
    // functions succeeded just before.
    if (late) return Late(incoming.status());
    if (incoming.ok()) return incoming;
    const absl::Status why = NameRank(incoming.status());
    // The other ranks are in a collective that this rank will not enter, and
    // would wait until their deadlines.
    CallGuarded("Coordinator::Collectives::abort", [&] {
      group_.abort(why);
    }).IgnoreError();
    return why;
  }

 private:
  // Adds the rank, unless a function has named it.
  absl::Status NameRank(const absl::Status& status) const {
    if (absl::StartsWith(status.message(), "rank ")) return status;
    return internal::Annotate(status, absl::StrCat("rank ", rank()));
  }

  // The error of a turn that the watchdog has ended.
  absl::Status Late(const absl::Status& status) const {
    if (status.ok()) return NameRank(kLate);
    return NameRank(internal::Reword(
        status, absl::StatusCode::kDeadlineExceeded, status.message()));
  }

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
                      [&] { return group_.broadcast(std::move(to_all)); }));
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
                    [&] { return group_.all_gather(Encode(own)); }));
    CKPTDB_RETURN_IF_ERROR(CheckCount("all_gather", turns.size()));
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
                    [&] { return group_.all_to_all(std::move(to_some)); }));
    CKPTDB_RETURN_IF_ERROR(CheckCount("all_to_all", packed.size()));
    for (uint32_t r = 0; r < packed.size(); ++r) {
      CKPTDB_RETURN_IF_ERROR(Unpack(r, packed[r], incoming));
    }
    return absl::OkStatus();
  }

  absl::Status CheckCount(absl::string_view function, size_t count) const {
    if (count == world_size()) return absl::OkStatus();
    return absl::InternalError(absl::StrCat(
        "Coordinator::Collectives::", function, " returned ", count,
        " values, expected one from each of the ", world_size(), " ranks"));
  }

  inline static const absl::Status kLate = absl::DeadlineExceededError(
      "a collective was aborted because not all ranks joined it in time");

  const Coordinator::Collectives group_;
  internal::Watchdog watchdog_;
  uint64_t turns_ = 0;
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
                     " is null; set all four functions of "
                     "Coordinator::Collectives"));
  }
  return MessageCoordinator(
      std::make_unique<CollectiveTransport>(std::move(collectives)));
}

}  // namespace ckptdb
