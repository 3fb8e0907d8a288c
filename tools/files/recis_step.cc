// SPDX-License-Identifier: Apache-2.0
#include "tools/files/recis_step.h"

#include <set>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "nlohmann/json.hpp"
#include "schema/status.h"
#include "tools/files/file_name.h"
#include "tools/files/recis_names.h"

namespace ckptdb::tool {
namespace {

// RecIS separates names with these.
absl::Status CheckName(absl::string_view what, const std::string& name) {
  if (name.find_first_of("@^") == std::string::npos) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      what, " \"", Printable(name),
      "\" contains @ or ^, which RecIS reserves; exclude it by a GLOB or "
      "--slots, or export another format"));
}

using RecisJson = nlohmann::json;

// Returns a JSON blob of rank 0; an empty array or object if it is missing.
absl::StatusOr<RecisJson> ReadNotes(const StepReader& step, const char* blob,
                                    const ReadOptions& options) {
  const auto text = step.ReadBlob(0, blob, options);
  if (absl::IsNotFound(text.status())) return RecisJson::object();
  CKPTDB_RETURN_IF_ERROR(text.status());
  return RecisJson::parse(*text, nullptr, /*allow_exceptions=*/false);
}

// Returns the shape of a slot's array: the noted one if it fits.
Shape SlotShape(int64_t rows, const std::string& table, const Slot& slot,
                const RecisJson& shapes) {
  const auto slots = shapes.find(table);
  if (slots != shapes.end() && slots->is_object() &&
      slots->contains(slot.name)) {
    Shape shape = {rows};
    uint64_t elements = 1;
    for (const RecisJson& extent : (*slots)[slot.name]) {
      if (!extent.is_number_unsigned() ||
          extent.get<uint64_t>() > slot.elements) {
        break;
      }
      shape.push_back(extent.get<int64_t>());
      elements *= extent.get<uint64_t>();
      if (elements > slot.elements) break;
    }
    if (elements == slot.elements) return shape;
  }
  return {rows, slot.elements};
}

absl::Status AddPart(StepTable table, uint32_t rank, uint32_t world,
                     const RecisJson& shapes, RecisStep* recis) {
  std::vector<ArraySpec>& arrays = recis->arrays.arrays;
  table.first_array = arrays.size();
  const auto rows = static_cast<int64_t>(table.rows);
  const auto add = [&](const std::string& slot, DType dtype,
                       Shape shape) -> absl::Status {
    recis->blocks.push_back({table.name, slot, rank, table.slices, false});
    CKPTDB_ASSIGN_OR_RETURN(
        arrays.emplace_back(),
        MakeArraySpec(RecisBlockName(recis->blocks.back(), "", world), dtype,
                      std::move(shape)));
    return absl::OkStatus();
  };
  CKPTDB_RETURN_IF_ERROR(CheckName("table", table.name));
  CKPTDB_RETURN_IF_ERROR(add(kRecisIds, DType::kI64, {rows}));
  for (const Slot& slot : table.slots) {
    if (slot.name == kRecisIds) {
      return absl::InvalidArgumentError(
          absl::StrCat("table \"", table.name, "\" has a slot \"", kRecisIds,
                       "\", as RecIS names the ids; choose others by --slots"));
    }
    CKPTDB_RETURN_IF_ERROR(CheckName("slot", slot.name));
    CKPTDB_RETURN_IF_ERROR(
        add(slot.name, slot.dtype, SlotShape(rows, table.name, slot, shapes)));
  }
  recis->arrays.tables.push_back(std::move(table));
  return absl::OkStatus();
}

absl::Status AddTables(const StepReader& step, const StepSelection& selection,
                       uint32_t world, const ReadOptions& options,
                       RecisStep* recis) {
  CKPTDB_ASSIGN_OR_RETURN(const std::vector<StepTable> tables,
                          SelectTables(step, selection));
  CKPTDB_ASSIGN_OR_RETURN(const RecisJson shapes,
                          ReadNotes(step, kRecisSlots, options));
  const std::vector<uint32_t> bounds = EvenSliceBounds(world);
  for (uint32_t rank = 0; rank < world; ++rank) {
    for (StepTable part : tables) {
      part.slices = {bounds[rank], bounds[rank + 1]};
      RowSelection rows = selection.rows;
      rows.slices = part.slices;
      CKPTDB_ASSIGN_OR_RETURN(
          part.rows, CountSelectedRows(step, part.name, rows, options));
      CKPTDB_RETURN_IF_ERROR(
          AddPart(std::move(part), rank, world, shapes, recis));
    }
  }
  return absl::OkStatus();
}

absl::Status AddExtra(const StepReader& step, const StepSelection& selection,
                      const ReadOptions& options, RecisStep* recis) {
  for (const StepRecord::Rank& rank : step.ranks()) {
    for (const Item& item : rank.items) {
      absl::string_view name = item.name;
      if (item.kind != Item::Kind::kBlob || name == kRecisTensors ||
          name == kRecisSlots || !absl::ConsumePrefix(&name, kRecisPrefix)) {
        continue;
      }
      const std::string file(name);
      if (file.empty() || EscapeFileName(file) != file || IsRecisFile(file)) {
        return absl::InvalidArgumentError(absl::StrCat(
            "blob \"", Printable(item.name),
            "\" does not name a file that can be added to a checkpoint"));
      }
      CKPTDB_ASSIGN_OR_RETURN(recis->extra[file],
                              step.ReadBlob(rank.rank, item.name, options));
    }
  }
  const std::set<std::string> blobs =
      SelectNames(step, selection, Item::Kind::kBlob);
  for (const std::string& name : blobs) {
    if (!absl::StartsWith(name, kRecisPrefix)) ++recis->arrays.blobs;
  }
  return absl::OkStatus();
}

// The tensors that a checkpoint had outside of model.pt.
absl::StatusOr<std::set<std::string>> TensorsOfBlocks(
    const StepReader& step, const ReadOptions& options) {
  std::set<std::string> names;
  CKPTDB_ASSIGN_OR_RETURN(const RecisJson json,
                          ReadNotes(step, kRecisTensors, options));
  for (const auto& name : json) {
    if (name.is_string()) names.insert(name.get<std::string>());
  }
  return names;
}

}  // namespace

absl::StatusOr<RecisStep> ListRecis(const StepReader& step,
                                    const StepSelection& selection,
                                    uint32_t world,
                                    const ReadOptions& options) {
  RecisStep recis;
  CKPTDB_RETURN_IF_ERROR(AddTables(step, selection, world, options, &recis));
  CKPTDB_RETURN_IF_ERROR(AddTensors(step, selection, &recis.arrays));
  CKPTDB_ASSIGN_OR_RETURN(const std::set<std::string> in_blocks,
                          TensorsOfBlocks(step, options));
  recis.blocks.resize(recis.arrays.arrays.size());
  for (const size_t i : recis.arrays.tensors) {
    recis.blocks[i].in_model = !in_blocks.contains(recis.arrays.arrays[i].name);
  }
  CKPTDB_RETURN_IF_ERROR(AddExtra(step, selection, options, &recis));
  if (!recis.arrays.arrays.empty() || !recis.extra.empty()) return recis;
  return absl::NotFoundError(absl::StrCat("step ", step.record().version.step,
                                          " has no item that matches \"",
                                          selection.glob, "\""));
}

}  // namespace ckptdb::tool
