// SPDX-License-Identifier: Apache-2.0
// The values that a rank sends to each other rank, and receives from each, in
// the all-to-alls of a channel; internal to manager/.
//
// Like RankCalls it uses no thread, no clock and no transport. A value is sent
// directly to its receiver. The owner does not see the values: it settles the
// call when every rank has reported that it has received all of its own.
#ifndef CKPTDB_MANAGER_RANKS_DIRECT_EXCHANGE_H_
#define CKPTDB_MANAGER_RANKS_DIRECT_EXCHANGE_H_

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "manager/ranks/call_message.h"
#include "manager/ranks/rank_calls.h"

namespace ckptdb::internal {

class DirectExchange {
 public:
  DirectExchange(uint32_t rank, uint32_t world_size, RankCalls::Outbox* outbox)
      : rank_(rank), world_size_(world_size), outbox_(outbox) {}

  // Sends values[r] to rank r, to the owner last, so that a rank whose message
  // has reached the owner has sent all. `message` has the number and the name
  // of the call. Sent values are kept, because they may be lost.
  void Begin(const CallMessage& message, std::vector<std::string> values);

  // Takes a value that may arrive before this rank begins the call: other ranks
  // are at most one all-to-all ahead, because it cannot end without this rank.
  void OnValue(uint32_t from, CallMessage message);
  // Sends the value to rank `from` again.
  void OnResend(uint32_t from, uint64_t number);
  // Asks the other ranks for the values that have not arrived.
  void AskForMissing(const CallMessage& message);

  bool IsComplete(uint64_t number) const;
  // Returns at most kMaxNamed ranks whose values have not arrived.
  std::vector<uint32_t> Missing(uint64_t number) const;

  // Returns the values of a complete call, by rank.
  std::vector<std::string> Take(uint64_t number);
  // Removes the values of all calls up to this one, which is over.
  void Forget(uint64_t number);

  static constexpr size_t kMaxNamed = 64;

 private:
  struct Call {
    std::vector<RankCalls::Outbox::Bytes> sent;
    std::vector<std::optional<std::string>> values;
    uint32_t here = 0;
  };

  Call& CallAt(uint64_t number);
  static void Put(uint32_t from, std::string value, Call* call);

  const uint32_t rank_;
  const uint32_t world_size_;
  RankCalls::Outbox* const outbox_;
  std::map<uint64_t, Call> calls_;
};

// Ranks as the value of a message. DecodeRanks returns none for other bytes.
std::string EncodeRanks(const std::vector<uint32_t>& ranks);
std::vector<uint32_t> DecodeRanks(absl::string_view bytes);

}  // namespace ckptdb::internal

#endif  // CKPTDB_MANAGER_RANKS_DIRECT_EXCHANGE_H_
