// What the ranks of a MessageCoordinator send each other, as bytes; internal to
// manager/. All ranks run the same build, and the bytes are not stored.
#ifndef CKPTDB_MANAGER_RANKS_CALL_MESSAGE_H_
#define CKPTDB_MANAGER_RANKS_CALL_MESSAGE_H_

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"

namespace ckptdb::internal {

enum class CallKind : uint8_t {
  kBarrier,
  kBroadcast,
  kGather,
  kTell,
  kAllToAll,
  kTellEach,
};

// A call as ranks name it to each other and in errors: "gather staged".
std::string DescribeCall(CallKind kind, absl::string_view tag);

struct CallMessage {
  enum class Type : uint8_t {
    // To the owner: this rank is at the call, with `value`; at an all-to-all,
    // that it has the values of all ranks.
    kBring,
    // How the call has ended: `status`, and `value` when it is OK.
    kOutcome,
    // To the owner: the deadline of this rank has passed. At an all-to-all the
    // value of this one and of the next is which ranks' values it has not got.
    kExpired,
    // To any rank: what has the outcome been?
    kAsk,
    // From the owner: what was brought has not arrived.
    kResend,
    // To any rank: the `value` of an all-to-all that is for it.
    kValue,
    // To any rank: its kValue has not arrived.
    kResendValue,
    // To the owner: this rank has returned from the call.
    kHeard,
  };
  Type type = Type::kBring;
  CallKind kind = CallKind::kBarrier;
  std::string channel;  // of the coordinator: each duplicate has its own
  uint64_t number = 0;  // of the call, from 0 in each channel
  std::string call;     // by DescribeCall
  // How long the sender had been at the call when it sent this.
  absl::Duration waited;
  // How long the sender is silent at most while it waits.
  absl::Duration silence;
  absl::Status status;
  std::string value;
};

std::string Encode(const CallMessage& message);
// Returns Internal for bytes that are not such a message.
absl::Status Decode(absl::string_view bytes, CallMessage* message);

}  // namespace ckptdb::internal

#endif  // CKPTDB_MANAGER_RANKS_CALL_MESSAGE_H_
