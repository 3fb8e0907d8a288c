// SPDX-License-Identifier: Apache-2.0
#include "manager/ranks/direct_exchange.h"

#include <utility>

#include "manager/coordinator.h"
#include "manager/ranks/message_codec.h"

namespace ckptdb::internal {

void DirectExchange::Begin(const CallMessage& message,
                           std::vector<std::string> values) {
  Call& call = CallAt(message.number);
  call.sent.resize(world_size_);
  Put(rank_, std::move(values[rank_]), &call);
  // Each rank begins with the next one, so that they do not all send to one.
  const auto send = [&](uint32_t to) {
    CallMessage one = message;
    one.type = CallMessage::Type::kValue;
    one.value = std::move(values[to]);
    call.sent[to] = outbox_->Send(to, std::move(one));
  };
  for (uint32_t distance = 1; distance < world_size_; ++distance) {
    const auto to =
        static_cast<uint32_t>((uint64_t{rank_} + distance) % world_size_);
    if (to != kOwnerRank) send(to);
  }
  if (rank_ != kOwnerRank) send(kOwnerRank);
}

void DirectExchange::OnValue(uint32_t from, CallMessage message) {
  Put(from, std::move(message.value), &CallAt(message.number));
}

// If the call has not begun here, Begin will send the value. If it is over, all
// ranks have it.
void DirectExchange::OnResend(uint32_t from, uint64_t number) {
  const auto found = calls_.find(number);
  if (found == calls_.end() || found->second.sent.empty()) return;
  const RankCalls::Outbox::Bytes& bytes = found->second.sent[from];
  if (bytes != nullptr) outbox_->SendAgain(from, bytes);
}

void DirectExchange::AskForMissing(const CallMessage& message) {
  const Call& call = CallAt(message.number);
  for (uint32_t rank = 0; rank < world_size_; ++rank) {
    if (call.values[rank].has_value()) continue;
    CallMessage ask = message;
    ask.type = CallMessage::Type::kResendValue;
    outbox_->Send(rank, std::move(ask));
  }
}

bool DirectExchange::IsComplete(uint64_t number) const {
  const auto found = calls_.find(number);
  return found != calls_.end() && found->second.here == world_size_;
}

std::vector<uint32_t> DirectExchange::Missing(uint64_t number) const {
  std::vector<uint32_t> missing;
  const auto found = calls_.find(number);
  if (found == calls_.end()) return missing;
  const auto& values = found->second.values;
  for (uint32_t r = 0; r < world_size_ && missing.size() < kMaxNamed; ++r) {
    if (!values[r].has_value()) missing.push_back(r);
  }
  return missing;
}

std::vector<std::string> DirectExchange::Take(uint64_t number) {
  std::vector<std::string> values;
  values.reserve(world_size_);
  for (auto& value : CallAt(number).values) {
    values.push_back(*std::move(value));
  }
  return values;
}

// Failed earlier calls, whose values were never taken, may still be here.
void DirectExchange::Forget(uint64_t number) {
  calls_.erase(calls_.begin(), calls_.upper_bound(number));
}

DirectExchange::Call& DirectExchange::CallAt(uint64_t number) {
  Call& call = calls_[number];
  if (call.values.empty()) call.values.resize(world_size_);
  return call;
}

void DirectExchange::Put(uint32_t from, std::string value, Call* call) {
  if (call->values[from].has_value()) return;  // sent twice, counted once
  call->values[from] = std::move(value);
  ++call->here;
}

std::string EncodeRanks(const std::vector<uint32_t>& ranks) {
  return EncodeMessage(ranks);
}

std::vector<uint32_t> DecodeRanks(absl::string_view bytes) {
  std::vector<uint32_t> ranks;
  if (!DecodeMessage(bytes, &ranks).ok()) ranks.clear();
  return ranks;
}

}  // namespace ckptdb::internal
