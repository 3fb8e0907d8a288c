// SPDX-License-Identifier: Apache-2.0
// ckptdb cat: the contents of a tensor or a blob.
#include <algorithm>
#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "CLI/App.hpp"
#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "schema/status.h"
#include "tools/command.h"
#include "tools/format.h"
#include "tools/json.h"
#include "tools/open_store.h"
#include "tools/progress_line.h"
#include "tools/slice_argument.h"
#include "tools/step_argument.h"
#include "tools/suggestion.h"
#include "tools/tensor_stats.h"
#include "tools/terminal.h"
#include "tools/text_table.h"
#include "tools/values.h"

namespace ckptdb::tool {
namespace {

constexpr size_t kBins = 16;
constexpr size_t kBarWidth = 40;
constexpr int64_t kMaxHeadExtent = 1000;
constexpr uint64_t kHexLineBytes = 16;

// The first elements in the last two dimensions.
struct TensorHead {
  Shape shape;
  std::string bytes;
};

absl::StatusOr<TensorHead> ReadHead(const StepReader& step,
                                    const TensorPart& part, int64_t extent) {
  TensorBox box = part.box;
  for (size_t i = 0; i < box.shape.size(); ++i) {
    const bool shown = i + 2 >= box.shape.size();
    box.shape[i] = std::min(box.shape[i], shown ? extent : 1);
  }
  TensorHead head = {box.shape, ""};
  const uint64_t bytes = BytesOf(box, part.spec.dtype);
  if (bytes == 0) return head;
  head.bytes.resize(bytes);
  CKPTDB_RETURN_IF_ERROR(step.ReadTensorPart(
      part.spec.name, box.offset, box.shape, head.bytes.data(), bytes));
  return head;
}

bool IsInteger(DType dtype) {
  return CanCast(dtype, DType::kI64) || CanCast(dtype, DType::kU64);
}

std::string ExactText(DType dtype, long double number) {
  if (!IsInteger(dtype)) {
    return absl::StrFormat("%.9g", static_cast<double>(number));
  }
  return number < 0 ? absl::StrCat(static_cast<int64_t>(number))
                    : absl::StrCat(static_cast<uint64_t>(number));
}

Json ExactJson(DType dtype, long double number) {
  if (!IsInteger(dtype)) return NumberJson(static_cast<double>(number));
  if (number < 0) return static_cast<int64_t>(number);
  return static_cast<uint64_t>(number);
}

// Returns the longest bar that fits the terminal beside these cells. Truncated
// bars would all look the same.
size_t BarWidth(const std::vector<std::array<std::string, 2>>& bins,
                const std::array<absl::string_view, 2>& titles) {
  const size_t columns = GetTerminalStyle().columns;
  if (columns == 0) return kBarWidth;
  size_t used = 2;  // the indent
  for (size_t i = 0; i < titles.size(); ++i) {
    size_t width = titles[i].size();
    for (const auto& cells : bins) width = std::max(width, cells[i].size());
    used += width + 2;
  }
  return std::clamp<size_t>(columns - std::min(columns, used), 1, kBarWidth);
}

std::string HistogramText(const TensorStats& stats) {
  uint64_t largest = 1;
  for (const uint64_t count : stats.histogram) {
    largest = std::max(largest, count);
  }
  const double width = static_cast<double>(stats.max - stats.min) /
                       static_cast<double>(stats.histogram.size());
  std::vector<std::array<std::string, 2>> bins;
  for (size_t i = 0; i < stats.histogram.size(); ++i) {
    bins.push_back({absl::StrFormat("%.5g", static_cast<double>(stats.min) +
                                                static_cast<double>(i) * width),
                    FormatCount(stats.histogram[i])});
  }
  const size_t bar_width = BarWidth(bins, {"FROM", "ELEMENTS"});
  TextTable table({">FROM", ">ELEMENTS", ""}, 2);
  for (size_t i = 0; i < bins.size(); ++i) {
    const uint64_t count = stats.histogram[i];
    // A bin that is not empty has a visible bar.
    const size_t bar =
        count == 0 ? 0 : std::max<size_t>(1, count * bar_width / largest);
    table.AddRow({bins[i][0], bins[i][1], std::string(bar, '#')});
  }
  return table.ToString();
}

void PrintTensorText(const Version& version, const TensorPart& part,
                     const TensorStats& stats, const TensorHead& head,
                     std::ostream* out) {
  const DType dtype = part.spec.dtype;
  *out << ToString(version) << ", tensor " << Printable(part.spec.name) << ", "
       << DTypeName(dtype) << ToString(part.spec.shape);
  if (part.box.shape != part.spec.shape) {
    *out << ", of it " << ToString(part.box.shape) << " at "
         << ToString(part.box.offset);
  }
  *out << '\n';
  TextTable table({"", ""}, 2);
  table.AddRow({"elements", FormatCount(stats.elements)});
  if (stats.finite() > 0) {
    table.AddRow({"min", ExactText(dtype, stats.min)});
    table.AddRow({"max", ExactText(dtype, stats.max)});
    table.AddRow({"mean", absl::StrFormat("%.9g", stats.mean)});
    table.AddRow({"std", absl::StrFormat("%.9g", stats.std)});
  }
  table.AddRow({"nan", FormatCount(stats.nan)});
  table.AddRow({"inf", FormatCount(stats.inf)});
  table.AddRow({"zeros", FormatCount(stats.zeros)});
  *out << table.ToString();
  if (!head.bytes.empty()) *out << "\nfirst elements\n";
  const size_t columns =
      head.shape.empty() ? 1 : static_cast<size_t>(head.shape.back());
  const size_t line = std::max<size_t>(1, columns * DTypeBytes(dtype));
  for (size_t at = 0; at < head.bytes.size(); at += line) {
    *out << "  "
         << ElementsText(dtype, absl::string_view(head.bytes).substr(at, line),
                         columns)
         << '\n';
  }
  if (!stats.histogram.empty()) *out << "\nhistogram\n" << HistogramText(stats);
}

Json HistogramJson(const TensorStats& stats) {
  Json json = Json::array();
  const double width = static_cast<double>(stats.max - stats.min) /
                       static_cast<double>(stats.histogram.size());
  for (size_t i = 0; i < stats.histogram.size(); ++i) {
    const double from =
        static_cast<double>(stats.min) + static_cast<double>(i) * width;
    json.push_back({{"from", NumberJson(from)},
                    {"to", NumberJson(from + width)},
                    {"elements", stats.histogram[i]}});
  }
  return json;
}

Json TensorStatsJson(DType dtype, const TensorStats& stats) {
  const bool any = stats.finite() > 0;
  return {{"elements", stats.elements},
          {"nan_elements", stats.nan},
          {"inf_elements", stats.inf},
          {"zero_elements", stats.zeros},
          {"min", any ? ExactJson(dtype, stats.min) : Json()},
          {"max", any ? ExactJson(dtype, stats.max) : Json()},
          {"mean", any ? NumberJson(stats.mean) : Json()},
          {"std", any ? NumberJson(stats.std) : Json()},
          {"histogram", HistogramJson(stats)}};
}

Json CatTensorJson(const TensorPart& part, const TensorStats& stats,
                   const TensorHead& head) {
  const DType dtype = part.spec.dtype;
  Json json = {{"kind", "tensor"},
               {"name", part.spec.name},
               {"dtype", Str(DTypeName(dtype))},
               {"shape", part.spec.shape},
               {"slice_offset", part.box.offset},
               {"slice_shape", part.box.shape}};
  json.update(TensorStatsJson(dtype, stats));
  json["first_shape"] = head.shape;
  json["first_values"] = ElementsJson(dtype, head.bytes);
  return json;
}

// Text has no control characters but white space, and is UTF-8.
bool IsText(const std::string& bytes) {
  std::string spaceless = bytes;
  std::replace_if(
      spaceless.begin(), spaceless.end(),
      [](char c) { return c == '\n' || c == '\t' || c == '\r' || c == '\\'; },
      ' ');
  return Printable(spaceless) == spaceless;
}

// Returns "00000010  70 6f 73 ...  pos..." lines.
std::string HexText(absl::string_view bytes) {
  std::string text;
  for (size_t at = 0; at < bytes.size(); at += kHexLineBytes) {
    const absl::string_view line = bytes.substr(at, kHexLineBytes);
    absl::StrAppendFormat(&text, "%08x ", at);
    for (size_t i = 0; i < kHexLineBytes; ++i) {
      if (i < line.size()) {
        absl::StrAppendFormat(&text, " %02x", static_cast<uint8_t>(line[i]));
      } else {
        text += "   ";
      }
    }
    text += "  ";
    for (const char c : line) text += ' ' <= c && c <= '~' ? c : '.';
    text += '\n';
  }
  return text;
}

constexpr char kCatNotes[] =
    "Of a tensor or a slice of it prints the smallest, the largest and\n"
    "the mean value, the standard deviation, how many elements are NaN,\n"
    "infinite and zero, the first elements in the last two dimensions,\n"
    "and a histogram. All but the counts are of finite elements. The\n"
    "elements are read twice. A blob is printed as text, or in hexadecimal\n"
    "if it is not UTF-8 or has control characters.\n";

class Cat : public Command {
 public:
  Cat()
      : Command(
            {.name = "cat",
             .summary = "Show the values of a tensor, or the bytes of a blob",
             .notes = kCatNotes,
             .examples =
                 "  ckptdb cat mlp.0.weight --store /checkpoints/ctr\n"
                 "  ckptdb cat mlp.0.weight --step 1000 --slice 0:10,5\n"
                 "  ckptdb cat reader --rank 3 --json\n",
             .paged = true}) {}
  void AddArguments(CLI::App* app) override {
    app->add_option("ITEM", name_, "a tensor or a blob")
        ->type_name("")
        ->required();
    AddStepOption(app, &step_);
    app->add_option("--slice", slice_,
                    "a part of a tensor: an index or BEGIN:END for each "
                    "dimension, such as 0:10,5")
        ->type_name("SLICE");
    app->add_option("--first", first_,
                    absl::StrCat("show so many elements in the last two "
                                 "dimensions; default: ",
                                 first_))
        ->type_name("N")
        ->check(CLI::Range(int64_t{0}, kMaxHeadExtent));
    app->add_option("-r,--rank", rank_, "a blob's rank; default: the first")
        ->type_name("RANK");
    app->add_option(
           "--bytes", bytes_,
           absl::StrCat("show so many bytes of a blob; default: ", bytes_))
        ->type_name("N");
    app->add_flag("--hex", hex_, "show a blob in hexadecimal");
  }
  absl::Status Run(const Context& context) override;

 private:
  absl::Status RunTensor(const Context& context, const StepReader& step,
                         Item spec);
  absl::Status RunBlob(const Context& context, const StepReader& step,
                       uint32_t rank);
  // Returns InvalidArgument if an option for blobs is given.
  absl::Status CheckTensorOptions() const;
  // Returns the rank whose blob is shown, or an error that says what the step
  // has.
  absl::StatusOr<uint32_t> FindBlob(const StepReader& step) const;

  std::string name_;
  std::string step_ = "latest";
  std::string slice_;
  int64_t first_ = 8;
  std::optional<uint32_t> rank_;
  uint64_t bytes_ = 1024;
  bool hex_ = false;
};

absl::Status Cat::CheckTensorOptions() const {
  if (!rank_.has_value() && !hex_) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      "\"", name_, "\" is a tensor, and ",
      rank_.has_value() ? "--rank" : "--hex", " is an option for blobs"));
}

absl::StatusOr<uint32_t> Cat::FindBlob(const StepReader& step) const {
  const std::string place = StepName(step.record().version.step);
  bool other_rank = false;
  for (const StepRecord::Rank& rank : step.ranks()) {
    for (const Item& item : rank.items) {
      if (item.name != name_) continue;
      if (item.kind == Item::Kind::kRows) {
        return absl::InvalidArgumentError(absl::StrCat(
            "\"", name_, "\" is a table; run \"ckptdb rows ", name_, "\""));
      }
      if (item.kind != Item::Kind::kBlob) continue;
      if (!rank_.has_value() || *rank_ == rank.rank) return rank.rank;
      other_rank = true;
    }
  }
  if (other_rank) {
    return absl::NotFoundError(
        absl::StrCat(place, " has no blob \"", name_, "\" on rank ", *rank_));
  }
  return absl::NotFoundError(absl::StrCat(place, " has no tensor or blob \"",
                                          name_, "\"",
                                          DidYouMean(name_, ItemNames(step))));
}

absl::Status Cat::RunTensor(const Context& context, const StepReader& step,
                            Item spec) {
  CKPTDB_ASSIGN_OR_RETURN(TensorBox box, ParseSlice(slice_, spec.shape));
  const TensorPart part = {std::move(spec), std::move(box)};
  ProgressLine progress(context.terminal, "cat: reading");
  ReadOptions options;
  options.progress = [&](uint64_t done_bytes, uint64_t all_bytes) {
    progress.Update(done_bytes, all_bytes);
  };
  CKPTDB_ASSIGN_OR_RETURN(const auto stats,
                          MeasureTensors(step, {&part, 1}, kBins, options));
  CKPTDB_ASSIGN_OR_RETURN(const TensorHead head, ReadHead(step, part, first_));
  const Version& version = step.record().version;
  if (!context.json) {
    PrintTensorText(version, part, stats[0], head, context.out);
    return absl::OkStatus();
  }
  Json json = {{"store", context.store}};
  json.update(ToJson(version));
  json.update(CatTensorJson(part, stats[0], head));
  PrintJson(json, context.out);
  return absl::OkStatus();
}

absl::Status Cat::RunBlob(const Context& context, const StepReader& step,
                          uint32_t rank) {
  CKPTDB_ASSIGN_OR_RETURN(std::string bytes, step.ReadBlob(rank, name_));
  const uint64_t size = bytes.size();
  bytes.resize(std::min(bytes_, size));
  const bool text = !hex_ && IsText(bytes);
  const Version& version = step.record().version;
  if (context.json) {
    Json json = {{"store", context.store}};
    json.update(ToJson(version));
    json["kind"] = "blob";
    json["name"] = name_;
    json["rank"] = rank;
    json["raw_bytes"] = size;
    json["text"] = text ? Json(bytes) : Json();
    json["hex"] = text ? Json() : Json(absl::BytesToHexString(bytes));
    PrintJson(json, context.out);
    return absl::OkStatus();
  }
  *context.out << ToString(version) << ", blob " << Printable(name_)
               << ", rank " << rank << ", " << FormatBytes(size) << '\n'
               << (text ? bytes : HexText(bytes));
  if (text && !absl::EndsWith(bytes, "\n")) *context.out << '\n';
  if (bytes.size() < size) {
    *context.out << "... " << FormatCount(size - bytes.size())
                 << " more bytes\n";
  }
  return absl::OkStatus();
}

absl::Status Cat::Run(const Context& context) {
  CKPTDB_ASSIGN_OR_RETURN(auto reader, OpenReader(context));
  CKPTDB_ASSIGN_OR_RETURN(auto step, OpenStep(context, reader.get(), step_));
  auto spec = step->FindTensor(name_);
  if (spec.ok()) {
    CKPTDB_RETURN_IF_ERROR(CheckTensorOptions());
    return ReadingStatus(RunTensor(context, *step, *std::move(spec)));
  }
  if (!absl::IsNotFound(spec.status())) return ReadingStatus(spec.status());
  CKPTDB_ASSIGN_OR_RETURN(const uint32_t rank, FindBlob(*step));
  if (!slice_.empty()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "\"", name_, "\" is a blob, and --slice is an option for tensors"));
  }
  return ReadingStatus(RunBlob(context, *step, rank));
}

}  // namespace

std::unique_ptr<Command> NewCat() { return std::make_unique<Cat>(); }

}  // namespace ckptdb::tool
