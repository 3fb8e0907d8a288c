#include "ckptdb/tools/step_chain.h"

#include <set>
#include <utility>

namespace ckptdb::tool {
namespace {

// Loads a version whose step was removed. The changes from it to the step have
// its record.
ChainLink LoadKept(Reader* reader, const Version& version, int64_t step) {
  ChainLink link;
  link.version = version;
  // An error is no error of the command: what is not known is printed as "-".
  const auto changes = reader->OpenChanges(version, step);
  if (changes.ok()) link.record = (*changes)->from();
  return link;
}

ChainLink LinkOf(const StepReader& step) {
  return {step.record().version, /*is_step=*/true, step.record(), step.ranks()};
}

// Loads a version of the chain: as a step if it still is one, and otherwise
// what the records tell of it.
ChainLink LoadLink(Reader* reader, const Version& version, int64_t step) {
  const auto found = reader->FindStep(version.step);
  if (found.ok() && found->version == version) {
    const auto opened = reader->OpenStep(version.step);
    // The step may have been overwritten since.
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

// Goes back from the step to the base run of the table. Of a removed version
// only the step record is there, not those of its ranks, so the search ends at
// one: the base may be in it or before it.
TableStart StartOf(const StepChain& chain, const std::string& table) {
  TableStart start;
  start.table = table;
  for (size_t i = chain.links.size(); i > 0; --i) {
    const ChainLink& link = chain.links[i - 1];
    const Item* const item = FindTable(link, table);
    start.base = link.version;
    // A chain is no longer than its tables need, so a table that begins nowhere
    // else begins in the first version.
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
