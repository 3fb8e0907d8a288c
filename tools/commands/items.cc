// SPDX-License-Identifier: Apache-2.0
// ckptdb items: every item of every rank of a step.
#include <fnmatch.h>

#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "CLI/App.hpp"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "schema/status.h"
#include "tools/command.h"
#include "tools/format.h"
#include "tools/json.h"
#include "tools/open_store.h"
#include "tools/step_argument.h"
#include "tools/suggestion.h"
#include "tools/text_table.h"

namespace ckptdb::tool {
namespace {

struct Filter {
  std::optional<uint32_t> rank;
  std::string glob;  // empty: all names
  std::string sort;  // empty: by rank, kind and name

  bool Takes(uint32_t r, const Item& item) const {
    if (rank && *rank != r) return false;
    return glob.empty() || fnmatch(glob.c_str(), item.name.c_str(), 0) == 0;
  }
};

bool TakesAny(const StepReader& step, const Filter& filter) {
  for (const StepRecord::Rank& rank : step.ranks()) {
    for (const Item& item : rank.items) {
      if (filter.Takes(rank.rank, item)) return true;
    }
  }
  return false;
}

// Returns "embedding:f32x16 freq:u32", with "... 248 more" after so many slots.
std::string SlotsText(const std::vector<Slot>& slots) {
  constexpr size_t kMaxSlots = 8;
  const auto shown = absl::MakeConstSpan(slots).first(
      slots.size() > kMaxSlots ? kMaxSlots : slots.size());
  std::string text =
      absl::StrJoin(shown, " ", [](std::string* out, const Slot& slot) {
        absl::StrAppend(out, Printable(slot.name), ":", DTypeName(slot.dtype));
        if (slot.elements != 1) absl::StrAppend(out, "x", slot.elements);
      });
  if (shown.size() < slots.size()) {
    absl::StrAppend(&text, " ... ", slots.size() - shown.size(), " more");
  }
  return text;
}

// Returns the codecs of a table's slots, each once, or the item's codec.
std::string CodecText(const Item& item) {
  if (item.kind != Item::Kind::kRows) return Str(CodecName(item.codec));
  std::set<std::string> names;
  for (const Slot& slot : item.slots) names.insert(Str(CodecName(slot.codec)));
  return names.empty() ? "-" : absl::StrJoin(names, ",");
}

// Returns "f32[3, 4]", "f32[3, 4] at [0, 4] of [3, 8]" or the slots.
std::string LayoutText(const Item& item) {
  if (item.kind == Item::Kind::kRows) return SlotsText(item.slots);
  if (item.kind == Item::Kind::kBlob) return "-";
  std::string text = absl::StrCat(DTypeName(item.dtype), ToString(item.shape));
  if (!item.global_shape.empty() && item.shape != item.global_shape) {
    absl::StrAppend(&text, " at ", ToString(item.offset), " of ",
                    ToString(item.global_shape));
  }
  return text;
}

std::string RunText(const Item& item) {
  if (item.kind != Item::Kind::kRows) return "-";
  return item.run == Item::Run::kBase ? "base" : "delta";
}

// Upserted rows of a delta run have a plus sign.
std::string RowsText(const Item& item) {
  if (item.kind != Item::Kind::kRows) return "-";
  return absl::StrCat(item.run == Item::Run::kBase ? "" : "+",
                      FormatCount(item.rows));
}

std::string ErasedText(const Item& item) {
  const bool delta =
      item.kind == Item::Kind::kRows && item.run == Item::Run::kDelta;
  return delta ? FormatCount(item.erased_rows) : "-";
}

std::string ShardingText(const Item& item) {
  if (item.kind != Item::Kind::kRows) return "-";
  std::string text = DescribeSharding(item.sharding, item.sharding_name);
  if (item.sharding == Item::Sharding::kByRange) {
    absl::StrAppend(&text, " [", item.first_id, ", ", item.end_id, ")");
  }
  return text;
}

struct ListedItem {
  const StepRecord::Rank* rank = nullptr;
  const Item* item = nullptr;
};

// Returns the items in the order of the list: the largest first if sorted.
std::vector<ListedItem> ListItems(const StepReader& step,
                                  const Filter& filter) {
  std::vector<ListedItem> items;
  for (const StepRecord::Rank& rank : step.ranks()) {
    for (const Item& item : rank.items) {
      if (filter.Takes(rank.rank, item)) items.push_back({&rank, &item});
    }
  }
  const auto sort_by = [&](uint64_t Item::*field) {
    std::stable_sort(items.begin(), items.end(),
                     [&](const ListedItem& a, const ListedItem& b) {
                       return a.item->*field > b.item->*field;
                     });
  };
  if (filter.sort == "bytes") sort_by(&Item::raw_bytes);
  if (filter.sort == "stored") sort_by(&Item::stored_bytes);
  if (filter.sort == "rows") sort_by(&Item::rows);
  return items;
}

void PrintTable(const StepReader& step, const Filter& filter,
                std::ostream* out) {
  TextTable table({">RANK", "KIND", "NAME", "LAYOUT", "SHARDING", "RUN",
                   ">ROWS", ">ERASED", ">BYTES", ">STORED", "CODEC", "DATA OF",
                   "BASE REASON"});
  for (const auto& [rank, item] : ListItems(step, filter)) {
    table.AddRow({absl::StrCat(rank->rank), Str(ItemKindName(item->kind)),
                  Printable(item->name), LayoutText(*item), ShardingText(*item),
                  RunText(*item), RowsText(*item), ErasedText(*item),
                  FormatBytes(item->raw_bytes), FormatBytes(item->stored_bytes),
                  CodecText(*item), ToString(item->data_version),
                  Printable(item->base_reason)});
  }
  *out << table.ToString();
}

Json ItemsJson(const std::string& store, const StepReader& step,
               const Filter& filter) {
  Json document = {{"store", store}};
  document.update(ToJson(step.record().version));
  document["items"] = Json::array();
  for (const auto& [rank, item] : ListItems(step, filter)) {
    Json json = {{"rank", rank->rank}};
    json.update(ToJson(*item, rank->version));
    document["items"].push_back(std::move(json));
  }
  return document;
}

constexpr char kItemsNotes[] =
    "RUN is \"base\" for a table with all its rows, and \"delta\" for\n"
    "changed rows and erased ids. BASE REASON is why all rows were\n"
    "saved although changed rows were given. LAYOUT lists the first 8\n"
    "slots of a table; --json has all.\n";

class Items : public Command {
 public:
  Items()
      : Command({.name = "items",
                 .summary = "List the items of every rank of a step",
                 .notes = kItemsNotes,
                 .examples = "  ckptdb items 1000 --store /checkpoints/ctr\n"
                             "  ckptdb items latest 'mlp.*' --rank 0 --json\n"
                             "  ckptdb items latest --sort bytes\n",
                 .paged = true}) {}
  void AddArguments(CLI::App* app) override {
    AddStep(app, &step_);
    app->add_option("GLOB", filter_.glob,
                    "only items whose name matches; * ? [...] as in a shell")
        ->type_name("");
    app->add_option("-r,--rank", filter_.rank, "only this rank's items")
        ->type_name("RANK");
    app->add_option("--sort", filter_.sort,
                    "largest first by \"bytes\", \"stored\" bytes or \"rows\"")
        ->type_name("BY")
        ->check(CLI::IsMember({"bytes", "stored", "rows"}));
  }
  absl::Status Run(const Context& context) override {
    CKPTDB_ASSIGN_OR_RETURN(auto reader, OpenReader(context));
    CKPTDB_ASSIGN_OR_RETURN(auto step, OpenStep(context, reader.get(), step_));
    const uint32_t world_size = step->record().world_size;
    // A missing rank or name is NotFound, so that a script does not mistake a
    // misspelt name for an empty step.
    if (filter_.rank && *filter_.rank >= world_size) {
      return absl::NotFoundError(
          absl::StrCat(StepName(step->record().version.step), " has no rank ",
                       *filter_.rank, ": its world size is ", world_size));
    }
    if (!filter_.glob.empty() && !TakesAny(*step, filter_)) {
      return NoMatchError(*step, filter_.glob);
    }
    if (context.json) {
      PrintJson(ItemsJson(context.store, *step, filter_), context.out);
    } else {
      PrintTable(*step, filter_, context.out);
    }
    return absl::OkStatus();
  }

 private:
  std::string step_;
  Filter filter_;
};

}  // namespace

std::unique_ptr<Command> NewItems() { return std::make_unique<Items>(); }

}  // namespace ckptdb::tool
