// SPDX-License-Identifier: Apache-2.0
// The messages between the ranks of a MessageCoordinator; internal to manager/.
// Encoded by message_codec.h.
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
  kAllGather,
};

// Returns the name of a call in messages and errors: "gather staged".
std::string DescribeCall(CallKind kind, absl::string_view tag);

struct CallMessage {
  enum class Type : uint8_t {
    // To the owner: the sender's `value` of the call. At an all-to-all: the
    // sender has received the values of all ranks.
    kBring,
    // The outcome of the call: `status`, and `value` if it is OK.
    kOutcome,
    // To the owner: the sender's deadline has passed. At an all-to-all, the
    // `value` of kExpired and kAsk lists the ranks whose values are missing.
    kExpired,
    // To any rank: asks for the outcome.
    kAsk,
    // From the owner: asks for a kBring that has not arrived.
    kResend,
    // To any rank: the sender's value for it at an all-to-all.
    kValue,
    // To any rank: asks for a kValue that has not arrived.
    kResendValue,
    // To the owner: the sender has returned from the call.
    kHeard,
  };
  Type type = Type::kBring;
  CallKind kind = CallKind::kBarrier;
  std::string channel;  // each duplicate of a coordinator has its own
  uint64_t number = 0;  // of the call, from 0 in each channel
  std::string call;     // from DescribeCall
  // How long the sender had been in the call when it sent this.
  absl::Duration waited;
  // The longest time between two messages of the sender while it waits.
  absl::Duration silence;
  absl::Status status;
  std::string value;
};

std::string Encode(const CallMessage& message);
// Returns Internal for bytes that are not such a message.
absl::Status Decode(absl::string_view bytes, CallMessage* message);

}  // namespace ckptdb::internal

#endif  // CKPTDB_MANAGER_RANKS_CALL_MESSAGE_H_
