// SPDX-License-Identifier: Apache-2.0
// Remembers recently marked ids; internal to db/.
#ifndef CKPTDB_DB_TRACK_MARK_FILTER_H_
#define CKPTDB_DB_TRACK_MARK_FILTER_H_

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/types/span.h"
#include "db/track/mark_hash.h"

namespace ckptdb::internal {

// Remembers some of the ids it was given, each in the single slot that its hash
// selects. It may forget any id, but never claims to know one it was not given.
// Repeated marks of hot rows therefore stay out of the log, and no row is lost.
//
// Fits into a second-level cache, because every mark accesses a random slot.
class MarkFilter {
 public:
  static constexpr size_t kMinSlots = size_t{1} << 10;
  static constexpr size_t kMaxSlots = size_t{1} << 17;

  // Lets the filter grow up to `bytes`, or up to kMaxSlots.
  void LimitBytes(uint64_t bytes) {
    max_slots_ =
        std::clamp<uint64_t>(bytes / sizeof(uint64_t), kMinSlots, kMaxSlots);
  }

  // Writes the hashes of unknown `ids` to `unknown`, remembers all, and returns
  // how many it wrote. If hardly any id is a repetition, looks up only some,
  // and treats the rest as unknown without remembering them.
  size_t Keep(absl::Span<const int64_t> ids, uint64_t* unknown) {
    if (unseen_ > 0) return Pass(ids, unknown);
    const size_t count = LookUp(ids, unknown);
    looked_up_ += ids.size();
    repeated_ += ids.size() - count;
    if (looked_up_ >= kProbe) {
      unseen_ = repeated_ < looked_up_ / kWorthwhile ? kPass : 0;
      looked_up_ = repeated_ = 0;
    }
    return count;
  }

  // Forgets `ids`, or everything if that is cheaper.
  void Forget(absl::Span<const int64_t> ids) {
    if (unknown_ == 0) return;
    forgotten_ += ids.size();
    if (forgotten_ > std::min(unknown_, slots_.size()) / 8) return Clear();
    for (const int64_t id : ids) {
      const uint64_t hash = SpreadId(id);
      uint64_t& slot = slots_[hash >> shift_];
      // No branch, because it could not be predicted.
      slot = slot == (hash << kTagBits | tag_) ? 0 : slot;
    }
  }

  // Forgets everything, in constant time except for one call in a thousand.
  void Clear() {
    unknown_ = forgotten_ = 0;
    if (++tag_ < kTags) return;
    slots_.assign(slots_.size(), 0);
    tag_ = 1;
  }

  size_t bytes() const { return slots_.capacity() * sizeof(uint64_t); }

 private:
  // The slot implies the high bits of a hash, so an entry has room for a tag.
  // Entries with another tag are older than the last Clear.
  static constexpr int kTagBits = 10;
  static constexpr uint64_t kTags = uint64_t{1} << kTagBits;
  static_assert(kMinSlots >= kTags);

  // If fewer than one in kWorthwhile of kProbe lookups finds its id, the next
  // kPass ids skip the lookup.
  static constexpr size_t kProbe = 2048;
  static constexpr size_t kWorthwhile = 16;
  static constexpr size_t kPass = 8 * kProbe;

  size_t Pass(absl::Span<const int64_t> ids, uint64_t* unknown) {
    std::transform(ids.begin(), ids.end(), unknown, SpreadId);
    unseen_ -= std::min(unseen_, ids.size());
    return ids.size();
  }

  size_t LookUp(absl::Span<const int64_t> ids, uint64_t* unknown) {
    if (slots_.empty() || unknown_ > 2 * slots_.size()) Grow();
    // Copies, because the compiler must assume that `unknown` overlaps the
    // members.
    uint64_t* const slots = slots_.data();
    const int shift = shift_;
    const uint64_t tag = tag_;
    size_t count = 0;
    for (const int64_t id : ids) {
      const uint64_t hash = SpreadId(id);
      const uint64_t entry = hash << kTagBits | tag;
      uint64_t& slot = slots[hash >> shift];
      unknown[count] = hash;
      count += slot != entry ? 1 : 0;
      slot = entry;
    }
    unknown_ += count;
    return count;
  }

  // Doubles the slots once twice as many ids were added; forgets everything.
  void Grow() {
    const size_t slots = slots_.empty() ? kMinSlots : 2 * slots_.size();
    if (slots > max_slots_) {
      unknown_ = slots_.size();  // all of them are in use
      return;
    }
    slots_ = std::vector<uint64_t>(slots);
    tag_ = 1;
    unknown_ = forgotten_ = 0;
    shift_ = 64 - std::countr_zero(slots);
  }

  size_t max_slots_ = kMaxSlots;
  std::vector<uint64_t> slots_;
  int shift_ = 0;
  uint64_t tag_ = 1;  // never 0, the value of empty slots
  // Ids since the last Clear or Grow; unknown_ is 0 only if no id is known.
  size_t unknown_ = 0;
  size_t forgotten_ = 0;
  // Lookups since the last decision whether to look up, and the number of ids
  // that still skip it.
  size_t looked_up_ = 0;
  size_t repeated_ = 0;
  size_t unseen_ = 0;
};

}  // namespace ckptdb::internal

#endif  // CKPTDB_DB_TRACK_MARK_FILTER_H_
