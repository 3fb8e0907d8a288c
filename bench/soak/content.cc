// SPDX-License-Identifier: Apache-2.0
#include "bench/soak/content.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "manager/model_state.h"
#include "schema/status.h"
#include "schema/types.h"

namespace ckptdb::soak {
namespace {

constexpr uint64_t kPlaces = 4096;
constexpr uint64_t kLeastPeriod = 8;  // steps between two changes of a place
constexpr uint64_t kPeriods = 120;
constexpr uint64_t kChangesPerId = 6;
constexpr uint64_t kOneInAbsent = 12;

float ToFloat(uint64_t drawn) {
  constexpr uint64_t kMantissa = uint64_t{1} << 24;
  return static_cast<float>(drawn % kMantissa) / kMantissa;
}

absl::Status Differs(absl::string_view where, int64_t id,
                     absl::string_view what) {
  return absl::DataLossError(
      absl::StrCat(where, ": table \"", kTable, "\", id ", id, ": ", what));
}

template <typename T>
absl::Status CheckTensor(const StepReader& step, absl::string_view name,
                         const std::vector<T>& expected) {
  std::vector<T> found(expected.size());
  CKPTDB_RETURN_IF_ERROR(
      step.ReadTensor(name, found.data(), found.size() * sizeof(T)));
  if (found == expected) return absl::OkStatus();
  size_t at = 0;
  while (found[at] == expected[at]) ++at;
  return absl::DataLossError(absl::StrCat(
      ToString(step.record().version), ": tensor \"", name, "\", element ", at,
      ": ", found[at], " instead of ", expected[at]));
}

}  // namespace

RowTable::RowTable(soak::Rows* rows)
    : MapTable(rows,
               {Field("embedding", &Row::embedding),
                Field("adagrad_sum", &Row::adagrad_sum)},
               {.slice_hash = SliceHash::kMix}) {}

uint64_t Draw(uint64_t seed, absl::string_view what, uint64_t a, uint64_t b) {
  constexpr uint64_t kStep = 0x9e3779b97f4a7c15;  // odd, of SplitMix64
  uint64_t drawn = MixId(seed + kStep);
  for (const char letter : what) {
    drawn = MixId(drawn + static_cast<unsigned char>(letter));
  }
  drawn = MixId(drawn + (a + 1) * kStep);
  return MixId(drawn + (b + 1) * kStep);
}

uint64_t DrawSpan(uint64_t drawn, uint64_t least, uint64_t doublings) {
  const uint64_t low = least << drawn % doublings;
  return low + (drawn >> 32) % low;
}

Content::Tenant Content::TenantOf(uint64_t place, int64_t step) const {
  const uint64_t drawn = Draw(seed_, "place", place);
  const uint64_t period = kLeastPeriod + drawn % kPeriods;
  const uint64_t phase = (drawn >> 32) % period;
  Tenant tenant;
  tenant.change = (static_cast<uint64_t>(step) + phase) / period;
  const uint64_t id = place + kPlaces * (tenant.change / kChangesPerId);
  tenant.id = static_cast<int64_t>(id);
  tenant.there =
      Draw(seed_, "absent", place, tenant.change) % kOneInAbsent != 0;
  return tenant;
}

Row Content::RowOf(const Tenant& tenant) const {
  const auto id = static_cast<uint64_t>(tenant.id);
  uint64_t drawn = Draw(seed_, "row", id, tenant.change);
  Row row;
  for (float& element : row.embedding) element = ToFloat(drawn = MixId(drawn));
  row.adagrad_sum = ToFloat(MixId(drawn));
  return row;
}

Rows Content::RowsAt(int64_t step) const {
  Rows rows;
  for (uint64_t place = 0; place < kPlaces; ++place) {
    const Tenant tenant = TenantOf(place, step);
    if (tenant.there) rows[tenant.id] = RowOf(tenant);
  }
  return rows;
}

RowChange Content::ChangesOf(int64_t step) const {
  RowChange change;
  for (uint64_t place = 0; place < kPlaces; ++place) {
    const Tenant was = TenantOf(place, step - 1);
    const Tenant is = TenantOf(place, step);
    if (was == is) continue;
    if (was.there && (!is.there || was.id != is.id)) {
      change.erased.push_back(was.id);
    }
    if (is.there) change.upserted[is.id] = RowOf(is);
  }
  return change;
}

std::vector<float> Content::Dense(int64_t step) const {
  std::vector<float> elements(kDenseElements);
  uint64_t drawn = Draw(seed_, "dense", static_cast<uint64_t>(step));
  for (float& element : elements) element = ToFloat(drawn = MixId(drawn + 1));
  return elements;
}

std::vector<int64_t> Content::Frozen(int64_t step) const {
  std::vector<int64_t> elements(kFrozenElements);
  const auto change = static_cast<uint64_t>(step / kFrozenSteps);
  uint64_t drawn = Draw(seed_, "frozen", change);
  for (int64_t& element : elements) {
    element = static_cast<int64_t>(MixId(++drawn));
  }
  return elements;
}

std::string Content::Position(int64_t step, uint32_t rank) const {
  return absl::StrCat("seed ", seed_, " step ", step, " rank ", rank);
}

double Content::Metric(int64_t step) const {
  return ToFloat(Draw(seed_, "metric", static_cast<uint64_t>(step)));
}

absl::Status Content::Check(const StepReader& step) const {
  const StepRecord& record = step.record();
  const int64_t number = record.version.step;
  Rows held;
  RowTable table(&held);
  const std::vector<std::string> slots = {"embedding", "adagrad_sum"};
  CKPTDB_RETURN_IF_ERROR(step.RestoreTable(
      kTable, LiveTable::RestoreMode::kClear, {}, table.Live(slots)));
  CKPTDB_RETURN_IF_ERROR(
      CompareRows(held, RowsAt(number), ToString(record.version)));
  CKPTDB_RETURN_IF_ERROR(CheckTensor(step, kDenseTensor, Dense(number)));
  CKPTDB_RETURN_IF_ERROR(CheckTensor(step, kFrozenTensor, Frozen(number)));
  for (uint32_t rank = 0; rank < record.world_size; ++rank) {
    CKPTDB_ASSIGN_OR_RETURN(const std::string found,
                            step.ReadBlob(rank, IoStateBlob(kReader)));
    const std::string expected = Position(number, rank);
    if (found == expected) continue;
    return absl::DataLossError(
        absl::StrCat(ToString(record.version), ": io state \"", found,
                     "\" instead of \"", expected, "\""));
  }
  return absl::OkStatus();
}

absl::Status CompareRows(const Rows& found, const Rows& expected,
                         absl::string_view where) {
  const auto [is, should] = std::mismatch(found.begin(), found.end(),
                                          expected.begin(), expected.end());
  if (is == found.end() && should == expected.end()) return absl::OkStatus();
  if (should == expected.end() ||
      (is != found.end() && is->first < should->first)) {
    return Differs(where, is->first, "the row should not be there");
  }
  if (is == found.end() || should->first < is->first) {
    return Differs(where, should->first, "the row is missing");
  }
  return Differs(where, is->first, "the row has other values");
}

}  // namespace ckptdb::soak
