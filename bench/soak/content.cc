// SPDX-License-Identifier: Apache-2.0
#include "bench/soak/content.h"

#include "absl/strings/str_cat.h"
#include "bench/soak/draw.h"

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

}  // namespace

Content::Tenant Content::TenantOf(uint64_t place, int64_t step) const {
  const uint64_t drawn = Draw(seed_, DrawKind::kPlace, place);
  const uint64_t period = kLeastPeriod + drawn % kPeriods;
  const uint64_t phase = (drawn >> 32) % period;
  Tenant tenant;
  tenant.change = (static_cast<uint64_t>(step) + phase) / period;
  const uint64_t id = place + kPlaces * (tenant.change / kChangesPerId);
  tenant.id = static_cast<int64_t>(id);
  tenant.there =
      Draw(seed_, DrawKind::kAbsent, place, tenant.change) % kOneInAbsent != 0;
  return tenant;
}

Row Content::RowOf(const Tenant& tenant) const {
  const auto id = static_cast<uint64_t>(tenant.id);
  uint64_t drawn = Draw(seed_, DrawKind::kRow, id, tenant.change);
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
  uint64_t drawn = Draw(seed_, DrawKind::kDense, static_cast<uint64_t>(step));
  for (float& element : elements) element = ToFloat(drawn = MixId(drawn + 1));
  return elements;
}

std::vector<int64_t> Content::Frozen(int64_t step) const {
  std::vector<int64_t> elements(kFrozenElements);
  const auto change = static_cast<uint64_t>(step / kFrozenSteps);
  uint64_t drawn = Draw(seed_, DrawKind::kFrozen, change);
  for (int64_t& element : elements) {
    element = static_cast<int64_t>(MixId(++drawn));
  }
  return elements;
}

std::string Content::Position(int64_t step, uint32_t rank) const {
  return absl::StrCat("seed ", seed_, " step ", step, " rank ", rank);
}

std::string Content::Meters(int64_t step, uint64_t processed,
                            uint32_t rank) const {
  return absl::StrCat("seed ", seed_, " step ", step, " batch ", processed,
                      " rank ", rank);
}

double Content::Metric(int64_t step) const {
  return ToFloat(
      Draw(seed_, DrawKind::kMetricValue, static_cast<uint64_t>(step)));
}

}  // namespace ckptdb::soak
