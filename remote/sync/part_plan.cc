// SPDX-License-Identifier: Apache-2.0
#include "remote/sync/part_plan.h"

#include <algorithm>
#include <cstdint>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "schema/bytes/keys.h"
#include "schema/records/store_parts.h"
#include "schema/status.h"

namespace ckptdb::internal {

absl::StatusOr<PartPlan> PartPlan::Make(const Version& version,
                                        const RemoteVersion& records,
                                        const StoreParts& parts) {
  PartPlan plan;
  plan.all_ = false;
  for (const std::string& bytes : records.rank_records) {
    CKPTDB_ASSIGN_OR_RETURN(const StepRecord::Rank rank,
                            DecodeRankRecord(bytes));
    for (const Item& item : rank.items) {
      if (item.data_version == version) plan.AddItem(rank.rank, item, parts);
    }
  }
  std::sort(plan.streams_.begin(), plan.streams_.end(),
            [](const Stream& a, const Stream& b) {
              return a.range.begin < b.range.begin;
            });
  return plan;
}

void PartPlan::AddItem(uint32_t rank, const Item& item,
                       const StoreParts& parts) {
  if (item.kind == Item::Kind::kRows) {
    AddRows(rank, item, parts);
    return;
  }
  Stream stream;
  stream.range.begin = stream.range.from =
      ItemPrefix(item.data_version, rank, item.kind, item.name);
  stream.range.end = stream.end = PrefixEnd(stream.range.begin);
  stream.wanted = stream.all = HasItem(parts, item.kind, item.name);
  streams_.push_back(std::move(stream));
}

// The ids and the erased ids are part of each table.
void PartPlan::AddRows(uint32_t rank, const Item& item,
                       const StoreParts& parts) {
  const bool wanted = HasItem(parts, item.kind, item.name);
  const auto add = [&](uint16_t slot, bool has_slot) {
    Stream stream;
    stream.range.begin =
        ItemPrefix(item.data_version, rank, item.kind, item.name);
    AppendStream(item.run, slot, &stream.range.begin);
    stream.range.from = stream.range.begin;
    stream.range.end = stream.end = PrefixEnd(stream.range.begin);
    const SliceRange& slices = parts.slices;
    AppendPosition({static_cast<uint16_t>(slices.begin), 0},
                   &stream.range.from);
    if (slices.end < kSlices) {
      stream.range.end = stream.range.begin;
      AppendPosition({static_cast<uint16_t>(slices.end), 0}, &stream.range.end);
    }
    stream.wanted = wanted && has_slot;
    stream.all = stream.wanted && slices == SliceRange();
    streams_.push_back(std::move(stream));
  };
  add(kIdSlot, true);
  for (size_t i = 0; i < item.slots.size(); ++i) {
    add(static_cast<uint16_t>(i + 1), HasSlot(parts, item.slots[i].name));
  }
  if (item.run == Item::Run::kDelta) add(kErasedSlot, true);
}

std::vector<const PartPlan::Stream*> PartPlan::Overlapping(
    const RemoteFile& file) const {
  std::vector<const Stream*> found;
  for (const Stream& stream : streams_) {
    if (stream.range.begin <= file.last_key && file.first_key < stream.end) {
      found.push_back(&stream);
    }
  }
  return found;
}

PartPlan::Share PartPlan::ShareOf(const RemoteFile& file) const {
  if (all_) return Share::kAll;
  const std::vector<const Stream*> streams = Overlapping(file);
  const auto wanted = [](const Stream* stream) { return stream->wanted; };
  if (std::none_of(streams.begin(), streams.end(), wanted)) {
    return Share::kNone;
  }
  const auto all = [](const Stream* stream) { return stream->all; };
  return std::all_of(streams.begin(), streams.end(), all) ? Share::kAll
                                                          : Share::kSome;
}

std::vector<KeyRange> PartPlan::RangesOf(const RemoteFile& file) const {
  std::vector<KeyRange> ranges;
  for (const Stream* const stream : Overlapping(file)) {
    if (stream->wanted) ranges.push_back(stream->range);
  }
  return ranges;
}

bool PartPlan::Wants(absl::string_view key) const {
  if (all_) return true;
  const auto after =
      std::upper_bound(streams_.begin(), streams_.end(), key,
                       [](absl::string_view wanted, const Stream& stream) {
                         return wanted < stream.range.begin;
                       });
  return after != streams_.begin() && std::prev(after)->wanted &&
         key < std::prev(after)->end;
}

absl::Status CheckPartsExist(const StoreParts& parts,
                             const std::vector<std::string>& rank_records) {
  std::set<std::pair<Item::Kind, std::string>> names;
  std::set<std::string> slots;
  for (const std::string& bytes : rank_records) {
    CKPTDB_ASSIGN_OR_RETURN(const StepRecord::Rank rank,
                            DecodeRankRecord(bytes));
    for (const Item& item : rank.items) {
      names.emplace(item.kind, item.name);
      if (item.kind != Item::Kind::kRows) continue;
      if (!HasItem(parts, item.kind, item.name)) continue;
      for (const Slot& slot : item.slots) slots.insert(slot.name);
    }
  }
  const auto has = [&](const StoreParts& one) {
    return std::any_of(names.begin(), names.end(), [&](const auto& name) {
      return HasItem(one, name.first, name.second);
    });
  };
  for (const std::string& table : parts.tables) {
    if (has({{table}, {}, {}, {}})) continue;
    return absl::InvalidArgumentError(
        absl::StrCat("the step has no table \"", table, "\""));
  }
  for (const std::string& item : parts.items) {
    if (has({{}, {}, {}, {item}})) continue;
    return absl::InvalidArgumentError(
        absl::StrCat("the step has no tensor or blob \"", item, "\""));
  }
  for (const std::string& slot : parts.slots) {
    if (slots.contains(slot)) continue;
    return absl::InvalidArgumentError(
        absl::StrCat("the tables have no slot \"", slot, "\""));
  }
  return absl::OkStatus();
}

}  // namespace ckptdb::internal
