// SPDX-License-Identifier: Apache-2.0
#include "tools/step_chain.h"

#include <set>
#include <utility>

namespace ckptdb::tool {
namespace {

// Loads a version whose step was removed. The changes from it to the step
// contain its record.
ChainLink LoadKept(Reader* reader, const Version& version, int64_t step) {
  ChainLink link;
  link.version = version;
  // On error the command continues, and prints unknown values as "-".
  const auto changes = reader->OpenChanges(version, step);
  if (changes.ok()) link.record = (*changes)->from();
  return link;
}

ChainLink LinkOf(const StepReader& step) {
  return {step.record().version, /*is_step=*/true, step.record(), step.ranks()};
}

// Loads a version of the chain as a step if it still is one, and otherwise from
// the remaining records.
ChainLink LoadLink(Reader* reader, const Version& version, int64_t step) {
  const auto found = reader->FindStep(version.step);
  if (found.ok() && found->version == version) {
    const auto opened = reader->OpenStep(version.step);
    // The step may have been overwritten in the meantime.
    if (opened.ok() && (*opened)->record().version == version) {
      return LinkOf(**opened);
    }
  }
  return LoadKept(reader, version, step);
}

const Item* FindTable(const ChainLink& link, const std::string& name) {
  for (const StepRecord::Rank& rank : link.ranks) {
    for (const Item& item : rank.items) {
      if (item.kind == Item::Kind::kRows && item.name == name) return &item;
    }
  }
  return nullptr;
}

// Searches backwards from the step to the table's base run. A removed version
// has a step record but no rank records, so the search ends there: the base may
// be that version or an earlier one.
TableStart StartOf(const StepChain& chain, const std::string& table) {
  TableStart start;
  start.table = table;
  for (size_t i = chain.links.size(); i > 0; --i) {
    const ChainLink& link = chain.links[i - 1];
    const Item* const item = FindTable(link, table);
    start.base = link.version;
    // A chain is only as long as its tables need, so a table whose base was not
    // found begins in the first version.
    start.base_known =
        i == 1 || (item != nullptr && item->run == Item::Run::kBase);
    if (start.base_known && item != nullptr) {
      start.base_reason = item->base_reason;
    }
    if (start.base_known || item == nullptr) return start;
    ++start.deltas;
  }
  return start;
}

}  // namespace

std::optional<Totals> ChainLink::tables() const {
  if (ranks.empty()) return std::nullopt;
  return TotalsOfKind(ranks, Item::Kind::kRows);
}

StepChain LoadChain(Reader* reader, const StepReader& step) {
  StepChain chain;
  const StepRecord& record = step.record();
  const int64_t number = record.version.step;
  for (const Version& version : record.chain) {
    chain.links.push_back(version == record.version
                              ? LinkOf(step)
                              : LoadLink(reader, version, number));
  }
  if (record.folded) {
    chain.increment = LoadKept(reader, record.folded_from, number);
  }
  return chain;
}

std::vector<TableStart> TableStarts(const StepChain& chain) {
  std::set<std::string> tables;
  for (const StepRecord::Rank& rank : chain.links.back().ranks) {
    for (const Item& item : rank.items) {
      if (item.kind == Item::Kind::kRows) tables.insert(item.name);
    }
  }
  std::vector<TableStart> starts;
  for (const std::string& table : tables) {
    starts.push_back(StartOf(chain, table));
  }
  return starts;
}

}  // namespace ckptdb::tool
