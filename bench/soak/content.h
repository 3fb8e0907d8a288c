// SPDX-License-Identifier: Apache-2.0
// The content of each step of a soak, as a function of a seed and the step
// alone: so any process can tell what it has to find, however training came
// there.
//
//   const Content content(/*seed=*/7);
//   Rows expected = content.RowsAt(/*step=*/1200);
#ifndef CKPTDB_BENCH_SOAK_CONTENT_H_
#define CKPTDB_BENCH_SOAK_CONTENT_H_

#include <array>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "db/reader.h"
#include "manager/map_table.h"

namespace ckptdb::soak {

inline constexpr char kTable[] = "user";
inline constexpr char kDenseTensor[] = "layer";
inline constexpr char kFrozenTensor[] = "frozen";
inline constexpr char kReader[] = "reader";
inline constexpr char kMetric[] = "auc";

// Elements of the tensor that all ranks share out, f32, new in each step.
inline constexpr int64_t kDenseElements = 4096;
// Elements of the tensor that the owner saves, i64. It is new in one step of
// kFrozenSteps, and larger than what a rank may store inline: so that save
// writes files, and the next saves refer to them.
inline constexpr int64_t kFrozenElements = 576 << 10;
inline constexpr int64_t kFrozenSteps = 40;

struct Row {
  std::array<float, 8> embedding{};
  float adagrad_sum = 0;

  bool operator==(const Row&) const = default;
};
using Rows = std::map<int64_t, Row>;

// A table over the rows. Its slices are those of MixId.
class RowTable : public MapTable<Rows> {
 public:
  explicit RowTable(soak::Rows* rows);
};

// The rows that differ between a step and the one before.
struct RowChange {
  Rows upserted;
  std::vector<int64_t> erased;
};

// Returns a random number, the same for the same arguments, in whatever process
// and order they are drawn. `what` is the name of what is drawn.
uint64_t Draw(uint64_t seed, absl::string_view what, uint64_t a,
              uint64_t b = 0);
// Returns `least` times 2 to the power of a number drawn from 0 to `doublings`:
// short and long spans are as likely.
uint64_t DrawSpan(uint64_t drawn, uint64_t least, uint64_t doublings);

class Content {
 public:
  explicit Content(uint64_t seed) : seed_(seed) {}

  // Returns the rows of all ranks: about 3,750, of which about 95 change in
  // each step. Ids are erased and new ones added, so that most of them have
  // been replaced after a few hundred steps.
  Rows RowsAt(int64_t step) const;
  // Returns the rows that change from `step - 1` to `step`.
  RowChange ChangesOf(int64_t step) const;

  std::vector<float> Dense(int64_t step) const;
  std::vector<int64_t> Frozen(int64_t step) const;
  // The io state of a rank.
  std::string Position(int64_t step, uint32_t rank) const;
  // Returns a value in [0, 1) that does not rise or fall with the step.
  double Metric(int64_t step) const;

  // Compares rows, tensors and io states of all ranks, each element. DataLoss
  // that names the step and the first difference.
  absl::Status Check(const StepReader& step) const;

 private:
  // A place has at most one row at a time.
  struct Tenant {
    bool there = false;
    int64_t id = 0;
    uint64_t change = 0;  // how often the place has changed by then

    bool operator==(const Tenant&) const = default;
  };
  Tenant TenantOf(uint64_t place, int64_t step) const;
  Row RowOf(const Tenant& tenant) const;

  const uint64_t seed_;
};

// Returns DataLoss with `where` and the first id at which they differ.
absl::Status CompareRows(const Rows& found, const Rows& expected,
                         absl::string_view where);

}  // namespace ckptdb::soak

#endif  // CKPTDB_BENCH_SOAK_CONTENT_H_
