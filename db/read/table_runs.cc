// SPDX-License-Identifier: Apache-2.0
#include "db/read/table_runs.h"

#include <algorithm>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "schema/bytes/shape.h"
#include "schema/status.h"

namespace ckptdb::internal {
namespace {

SliceRange Intersect(const SliceRange& a, const SliceRange& b) {
  return {std::max(a.begin, b.begin), std::min(a.end, b.end)};
}

bool Empty(const SliceRange& range) { return range.begin >= range.end; }

// Returns the share of `whole`, a run's total, that `slices` have if spread
// evenly.
uint64_t ShareOf(uint64_t whole, const RankItem& run,
                 const SliceRange& slices) {
  const SliceRange all = run.slices();
  const SliceRange part = Intersect(all, slices);
  return static_cast<uint64_t>(static_cast<double>(whole) *
                               (part.end - part.begin) / (all.end - all.begin));
}

// Assumes that rows are spread evenly over slices. Used only to divide work and
// to forecast.
uint64_t EstimateRows(const RankItem& run, const SliceRange& slices) {
  return ShareOf(run.item->rows, run, slices);
}

// Returns the slices at which a rank's range begins or ends.
std::set<uint32_t> Borders(const std::vector<RankItem>& runs,
                           const SliceRange& asked) {
  std::set<uint32_t> borders = {asked.begin, asked.end};
  for (const RankItem& run : runs) {
    for (const uint32_t border : {run.slices().begin, run.slices().end}) {
      if (asked.begin < border && border < asked.end) borders.insert(border);
    }
  }
  return borders;
}

}  // namespace

void AppendRuns(const ChainMember& member, absl::string_view table,
                std::vector<RankItem>* runs) {
  constexpr auto kKind = Item::Kind::kRows;
  for (const StepRecord::Rank& rank : member.ranks) {
    // Items are sorted, and a step may have thousands of tables.
    const auto item = std::lower_bound(
        rank.items.begin(), rank.items.end(), table,
        [](const Item& each, absl::string_view name) {
          return each.kind < kKind || (each.kind == kKind && each.name < name);
        });
    if (item != rank.items.end() && item->kind == kKind &&
        item->name == table) {
      runs->push_back({rank.rank, &*item, &member.record});
    }
  }
}

// Returns the runs of a table, newest version first, back to its base run.
absl::StatusOr<std::vector<RankItem>> RunsOf(const StepReader::Impl& step,
                                             absl::string_view table) {
  CKPTDB_ASSIGN_OR_RETURN(std::vector<RankItem> runs,
                          step.Find(Item::Kind::kRows, table));
  const std::vector<ChainMember>& chain = step.chain();
  size_t member = chain.size() - 1;
  while (runs.back().item->run != Item::Run::kBase) {
    const size_t before = runs.size();
    if (member > 0) AppendRuns(chain[member - 1], table, &runs);
    if (runs.size() == before) {
      return absl::DataLossError(absl::StrCat(
          "chain of ", ToString(step.record().version), ": table \"", table,
          "\" has no run in ",
          member == 0 ? "any older version"
                      : ToString(chain[member - 1].record.version)));
    }
    --member;
  }
  return runs;
}

// Cuts the slices at all borders of ranks, so that each run of a group spans
// all of it. An interval without runs has no rows.
std::vector<RunGroup> GroupRuns(const std::vector<RankItem>& runs,
                                const SliceRange& asked) {
  std::vector<RunGroup> groups;
  const std::set<uint32_t> borders = Borders(runs, asked);
  for (auto begin = borders.begin(), end = std::next(begin);
       end != borders.end(); ++begin, ++end) {
    RunGroup group{{*begin, *end}, {}};
    for (size_t i = 0; i < runs.size(); ++i) {
      if (!Empty(Intersect(runs[i].slices(), group.slices))) {
        group.runs.push_back(i);
      }
    }
    if (!group.runs.empty()) groups.push_back(std::move(group));
  }
  return groups;
}

std::vector<RunGroup> OneGroupPerRun(const std::vector<RankItem>& runs,
                                     const SliceRange& asked) {
  std::vector<RunGroup> groups;
  for (size_t i = 0; i < runs.size(); ++i) {
    const SliceRange slices = Intersect(runs[i].slices(), asked);
    if (!Empty(slices)) groups.push_back({slices, {i}});
  }
  return groups;
}

uint64_t EstimateRows(const std::vector<RankItem>& runs,
                      const RunGroup& group) {
  uint64_t rows = 0;
  for (const size_t i : group.runs) rows += EstimateRows(runs[i], group.slices);
  return rows;
}

StepReader::ScanEstimate EstimateRuns(const std::vector<RankItem>& runs,
                                      const SliceRange& slices) {
  StepReader::ScanEstimate estimate;
  for (const RankItem& run : runs) {
    if (Empty(Intersect(run.slices(), slices))) continue;
    const Item& item = *run.item;
    const bool base = item.run == Item::Run::kBase;
    ++(base ? estimate.base_runs : estimate.delta_runs);
    estimate.rows += EstimateRows(run, slices);
    // Rows can only be in these runs, so their sum is an upper bound.
    estimate.max_rows += item.rows;
    estimate.erased_rows += ShareOf(item.erased_rows, run, slices);
    estimate.stored_bytes += ShareOf(item.stored_bytes, run, slices);
  }
  return estimate;
}

uint64_t EstimateRowsCut(const std::vector<RankItem>& runs,
                         const RunGroup& group) {
  uint64_t rows = 0;
  for (const size_t i : group.runs) {
    rows += std::min<uint64_t>(EstimateRows(runs[i], group.slices),
                               runs[i].item->rows_per_page);
  }
  return rows;
}

}  // namespace ckptdb::internal
