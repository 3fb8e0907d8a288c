// SPDX-License-Identifier: Apache-2.0
#include "schema/records/parts_codec.h"

#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "schema/records/checks.h"
#include "schema/records/envelope.h"
#include "schema/status.h"
#include "schema/types.h"

namespace ckptdb::internal {
namespace {

using flatbuffers::FlatBufferBuilder;
using flatbuffers::Offset;
using PartNames = flatbuffers::Vector<Offset<flatbuffers::String>>;

Offset<PartNames> AddPartNames(const std::vector<std::string>& strings,
                               FlatBufferBuilder* builder) {
  std::vector<Offset<flatbuffers::String>> added;
  for (const std::string& each : strings) {
    added.push_back(AddString(each, builder));
  }
  return builder->CreateVector(added);
}

std::vector<std::string> ToPartNames(const PartNames* strings) {
  std::vector<std::string> out;
  for (uint32_t i = 0; i < SizeOf(strings); ++i) {
    out.push_back(ToStd(strings->Get(i)));
  }
  return out;
}

}  // namespace

absl::Status CheckParts(const StoreParts& parts) {
  constexpr RecordKind kKind = RecordKind::kRoot;
  for (const auto* names : {&parts.tables, &parts.slots, &parts.items}) {
    for (const std::string& name : *names) {
      CKPTDB_RETURN_IF_ERROR(CheckNameField(kKind, "part", name));
    }
  }
  const SliceRange& slices = parts.slices;
  if (slices.begin < slices.end && slices.end <= kSlices) {
    return absl::OkStatus();
  }
  return BadField(kKind, "parts",
                  absl::StrCat("slices from ", slices.begin, " to before ",
                               slices.end, " are invalid"));
}

Offset<fbs::StoreParts> AddParts(const std::optional<StoreParts>& parts,
                                 FlatBufferBuilder* builder) {
  if (!parts.has_value()) return 0;
  const auto tables = AddPartNames(parts->tables, builder);
  const auto slots = AddPartNames(parts->slots, builder);
  const auto items = AddPartNames(parts->items, builder);
  return fbs::CreateStoreParts(*builder, tables, slots, parts->slices.begin,
                               parts->slices.end - 1, items);
}

std::optional<StoreParts> ToParts(const fbs::StoreParts* parts) {
  if (parts == nullptr) return std::nullopt;
  StoreParts out;
  out.tables = ToPartNames(parts->tables());
  out.slots = ToPartNames(parts->slots());
  out.slices = {parts->first_slice(), parts->last_slice() + 1};
  out.items = ToPartNames(parts->items());
  return out;
}

}  // namespace ckptdb::internal
