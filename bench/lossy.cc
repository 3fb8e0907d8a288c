// SPDX-License-Identifier: Apache-2.0
// How fast lossy codecs encode and decode a page.
#include <cstring>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "bench/cases.h"
#include "bench/measure.h"
#include "schema/bytes/limits.h"
#include "schema/bytes/lossy.h"
#include "schema/status.h"
#include "schema/types.h"

namespace ckptdb::bench {
namespace {

constexpr uint32_t kNumbers = 64;
constexpr double kLeastGbPerSecond = 2;

// A page of an embedding, which is encoded and decoded over and over.
class CodecSpeed {
 public:
  CodecSpeed(std::string name, Codec codec, uint32_t row_numbers, uint64_t seed)
      : name_(std::move(name)), codec_(codec), row_numbers_(row_numbers) {
    std::mt19937_64 random(seed);
    std::normal_distribution<float> normal(0, 0.05f);
    for (uint64_t at = 0; at < kChunkBytes; at += sizeof(float)) {
      const float number = normal(random);
      raw_.append(reinterpret_cast<const char*>(&number), sizeof(number));
    }
    back_ = copy_ = raw_;
  }

  absl::Status Run(const BenchOptions& options, Report* report) {
    const std::vector<Contestant> contestants = {
        {"encode",
         {},
         [this] { return Repeat([this] { return Encode(); }); },
         {}},
        {"memcpy",
         {},
         [this] { return Repeat([this] { return Copy(); }); },
         {}},
        {"decode",
         {},
         [this] { return Repeat([this] { return Decode(); }); },
         {}}};
    CKPTDB_ASSIGN_OR_RETURN(const std::vector<Outcome> outcomes,
                            TakeTurns(name_, contestants, options.repetitions));
    CaseResult result =
        Compare("lossy/" + name_, kPages * raw_.size(), {outcomes.data(), 2});
    const auto gb_per_second = [&](const Outcome& outcome) {
      return 1 / PerGb(CpuSecondsOf(outcome).median, result.bytes);
    };
    result.figures = {{"encode_gb_per_cpu_second", gb_per_second(outcomes[0])},
                      {"decode_gb_per_cpu_second", gb_per_second(outcomes[2])},
                      {"memcpy_gb_per_cpu_second", gb_per_second(outcomes[1])},
                      {"stored_part", static_cast<double>(stored_.size()) /
                                          static_cast<double>(raw_.size())}};
    result.goals = {{"encode_gb_per_cpu_second", gb_per_second(outcomes[0]),
                     kLeastGbPerSecond, /*at_least=*/true},
                    {"decode_gb_per_cpu_second", gb_per_second(outcomes[2]),
                     kLeastGbPerSecond, /*at_least=*/true}};
    report->Add(std::move(result));
    return absl::OkStatus();
  }

 private:
  static constexpr int kPages = 1000;

  template <typename Once>
  absl::Status Repeat(const Once& once) {
    for (int i = 0; i < kPages; ++i) CKPTDB_RETURN_IF_ERROR(once());
    return absl::OkStatus();
  }
  absl::Status Encode() {
    Item::Error error;
    if (Quantize(codec_, raw_, row_numbers_, Rounding::kNearest, &stored_,
                 &error)) {
      return absl::OkStatus();
    }
    return absl::InternalError("the codec does not take the page");
  }
  absl::Status Decode() {
    return Dequantize(codec_, stored_, back_.size(), back_.data());
  }
  absl::Status Copy() {
    std::memcpy(copy_.data(), raw_.data(), raw_.size());
    // The compiler must not leave out a copy that nobody reads.
    asm volatile("" : : "r"(copy_.data()) : "memory");
    return absl::OkStatus();
  }

  const std::string name_;
  const Codec codec_;
  const uint32_t row_numbers_;
  std::string raw_;
  std::string stored_;
  std::string back_;
  std::string copy_;
};

}  // namespace

absl::Status RunLossy(const BenchOptions& options, Report* report) {
  const auto run = [&](const std::string& name, Codec codec, uint32_t numbers) {
    return CodecSpeed(name, codec, numbers, options.seed).Run(options, report);
  };
  CKPTDB_RETURN_IF_ERROR(run("bf16", Codec::kBf16, kNumbers));
  CKPTDB_RETURN_IF_ERROR(run("int8", Codec::kInt8, kNumbers));
  for (const uint32_t numbers : {128, 32, 16, 8, 4}) {
    CKPTDB_RETURN_IF_ERROR(
        run(absl::StrCat("int8/", numbers), Codec::kInt8, numbers));
  }
  return absl::OkStatus();
}

}  // namespace ckptdb::bench
