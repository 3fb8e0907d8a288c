// SPDX-License-Identifier: Apache-2.0
#include "tools/files/safetensors.h"

#include <algorithm>
#include <array>
#include <limits>
#include <unordered_set>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "nlohmann/json.hpp"
#include "schema/status.h"

namespace ckptdb::tool {
namespace {

// Sorted by key: finding a key of an ordered object takes linear time.
using FileJson = nlohmann::json;

constexpr size_t kLengthBytes = 8;
constexpr size_t kHeaderAlignment = 8;

// Indexed by dtype.
constexpr std::array<absl::string_view, kDTypes> kSafetensorsNames = {
    "F64", "F32", "F16", "BF16", "F8_E4M3", "F8_E5M2", "I64", "I32",
    "I16", "I8",  "U64", "U32",  "U16",     "U8",      "BOOL"};

std::string Shown(absl::string_view name) {
  constexpr size_t kShownBytes = 64;
  return absl::StrCat("\"", absl::CHexEscape(name.substr(0, kShownBytes)),
                      "\"");
}

absl::Status Bad(absl::string_view name, absl::string_view what) {
  return absl::InvalidArgumentError(absl::StrCat(
      "not a valid safetensors header: ", Shown(name), ": ", what));
}

// Finds duplicate keys, of which the parser keeps only the last, and limits the
// nesting. The parser's callback interface would take quadratic time.
class HeaderCheck : public nlohmann::json_sax<FileJson> {
 public:
  static constexpr size_t kMaxDepth = 64;

  bool null() override { return true; }
  bool boolean(bool /*value*/) override { return true; }
  bool number_integer(int64_t /*value*/) override { return true; }
  bool number_unsigned(uint64_t /*value*/) override { return true; }
  bool number_float(double /*value*/, const std::string& /*text*/) override {
    return true;
  }
  bool string(std::string& /*value*/) override { return true; }
  bool binary(FileJson::binary_t& /*value*/) override { return true; }
  bool start_object(size_t /*size*/) override { return Enter(); }
  bool key(std::string& value) override {
    if (keys_.back().insert(value).second) return true;
    status_ = Bad(value, "the name occurs twice");
    return false;
  }
  bool end_object() override { return Leave(); }
  bool start_array(size_t /*size*/) override { return Enter(); }
  bool end_array() override { return Leave(); }
  bool parse_error(size_t /*at*/, const std::string& /*token*/,
                   const nlohmann::detail::exception& /*error*/) override {
    return false;
  }

  // OK for text that is not JSON.
  const absl::Status& status() const { return status_; }

 private:
  bool Enter() {
    keys_.emplace_back();
    if (keys_.size() <= kMaxDepth) return true;
    status_ = absl::InvalidArgumentError(
        absl::StrCat("the JSON is nested more than ", kMaxDepth, " levels"));
    return false;
  }
  bool Leave() {
    keys_.pop_back();
    return true;
  }

  std::vector<std::unordered_set<std::string>> keys_;  // of open objects
  absl::Status status_;
};

// Parses an object, and rejects duplicate keys.
absl::StatusOr<FileJson> ParseObject(absl::string_view text, uint64_t at) {
  HeaderCheck check;
  const bool valid = FileJson::sax_parse(text.begin(), text.end(), &check);
  CKPTDB_RETURN_IF_ERROR(check.status());
  FileJson json;
  if (valid) json = FileJson::parse(text.begin(), text.end());
  if (json.is_object()) return json;
  return absl::InvalidArgumentError(absl::StrCat(
      "expected a JSON object of ", text.size(), " bytes at byte ", at));
}

absl::StatusOr<DType> SafetensorsDType(const std::string& name,
                                       const FileJson& array) {
  const auto found = array.find("dtype");
  if (found == array.end() || !found->is_string()) {
    return Bad(name, "has no dtype");
  }
  // RecIS writes "bool".
  const std::string dtype = absl::AsciiStrToUpper(found->get<std::string>());
  for (size_t i = 0; i < kDTypes; ++i) {
    if (dtype == kSafetensorsNames[i]) return static_cast<DType>(i);
  }
  return Bad(name, absl::StrCat("dtype ", Shown(dtype),
                                " has no counterpart in a store"));
}

// Returns the numbers of a list, each 0 to 2^63 - 1.
absl::StatusOr<Shape> Numbers(const std::string& name, const FileJson& array,
                              const char* key) {
  const auto found = array.find(key);
  if (found == array.end() || !found->is_array()) {
    return Bad(name, absl::StrCat("has no ", key));
  }
  Shape numbers;
  for (const FileJson& each : *found) {
    constexpr auto kLast = std::numeric_limits<int64_t>::max();
    if (!each.is_number_unsigned() || each.get<uint64_t>() > uint64_t{kLast}) {
      return Bad(name,
                 absl::StrCat("a number of ", key, " is not 0 to 2^63 - 1"));
    }
    numbers.push_back(each.get<int64_t>());
  }
  return numbers;
}

absl::StatusOr<FileArray> ParseArray(const std::string& name,
                                     const FileJson& json,
                                     absl::string_view data) {
  if (!json.is_object()) return Bad(name, "is not an object");
  CKPTDB_ASSIGN_OR_RETURN(const DType dtype, SafetensorsDType(name, json));
  CKPTDB_ASSIGN_OR_RETURN(Shape shape, Numbers(name, json, "shape"));
  CKPTDB_ASSIGN_OR_RETURN(const Shape range,
                          Numbers(name, json, "data_offsets"));
  FileArray array;
  CKPTDB_ASSIGN_OR_RETURN(array.spec,
                          MakeArraySpec(name, dtype, std::move(shape)));
  if (range.size() != 2 || range[0] > range[1] ||
      static_cast<uint64_t>(range[1] - range[0]) != array.spec.bytes) {
    return Bad(name,
               absl::StrCat("data_offsets ", ToString(range),
                            " are not those of ", array.spec.bytes, " bytes"));
  }
  if (static_cast<uint64_t>(range[1]) > data.size()) {
    return absl::DataLossError(absl::StrCat(
        Shown(name), " ends at byte ", range[1], " of the data, which has ",
        data.size(), " bytes: the file is truncated"));
  }
  array.data = data.data() + range[0];
  return array;
}

absl::Status ParseMetadata(const FileJson& json,
                           std::map<std::string, std::string>* metadata) {
  if (!json.is_object())
    return Bad(kSafetensorsMetadataKey, "is not an object");
  for (const auto& [key, value] : json.items()) {
    if (!value.is_string()) return Bad(key, "metadata that is not a string");
    (*metadata)[key] = value.get<std::string>();
  }
  return absl::OkStatus();
}

// The arrays must be sorted by their data. The format forbids gaps, in which
// anything could hide.
absl::Status CheckCovered(const std::vector<FileArray>& arrays,
                          absl::string_view data) {
  const char* at = data.data();
  for (const FileArray& array : arrays) {
    if (array.data != at) {
      return Bad(array.spec.name,
                 absl::StrCat("begins at byte ", array.data - data.data(),
                              " of the data, but the array before it ends at ",
                              at - data.data()));
    }
    at += array.spec.bytes;
  }
  if (at == data.data() + data.size()) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("the data has ", data.size(),
                   " bytes, of which the header names ", at - data.data()));
}

absl::StatusOr<absl::string_view> HeaderText(absl::string_view file) {
  uint64_t bytes = 0;
  if (file.size() < kLengthBytes) {
    return absl::DataLossError(
        absl::StrCat("has ", file.size(), " bytes: the file is truncated"));
  }
  for (size_t i = kLengthBytes; i-- > 0;) {
    bytes = bytes << 8 | static_cast<uint8_t>(file[i]);
  }
  if (bytes > kMaxSafetensorsHeaderBytes) {
    return absl::InvalidArgumentError(
        absl::StrCat("not a safetensors file: its header has ", bytes,
                     " bytes; the limit is ", kMaxSafetensorsHeaderBytes));
  }
  if (bytes > file.size() - kLengthBytes) {
    return absl::DataLossError(absl::StrCat("its header of ", bytes,
                                            " bytes is longer than the file: "
                                            "the file is truncated"));
  }
  return file.substr(kLengthBytes, bytes);
}

}  // namespace

absl::StatusOr<Safetensors> ParseSafetensors(absl::string_view file) {
  CKPTDB_ASSIGN_OR_RETURN(const absl::string_view text, HeaderText(file));
  CKPTDB_ASSIGN_OR_RETURN(const FileJson json, ParseObject(text, kLengthBytes));
  const absl::string_view data = file.substr(kLengthBytes + text.size());
  Safetensors parsed;
  for (const auto& [name, value] : json.items()) {
    if (name == kSafetensorsMetadataKey) {
      CKPTDB_RETURN_IF_ERROR(ParseMetadata(value, &parsed.metadata));
      continue;
    }
    CKPTDB_ASSIGN_OR_RETURN(parsed.arrays.emplace_back(),
                            ParseArray(name, value, data));
  }
  std::stable_sort(parsed.arrays.begin(), parsed.arrays.end(),
                   [](const FileArray& a, const FileArray& b) {
                     return std::pair(a.data, a.spec.bytes) <
                            std::pair(b.data, b.spec.bytes);
                   });
  CKPTDB_RETURN_IF_ERROR(CheckCovered(parsed.arrays, data));
  return parsed;
}

std::string SafetensorsHeader(
    absl::Span<const ArraySpec> arrays,
    const std::map<std::string, std::string>& metadata) {
  FileJson json = FileJson::object();
  if (!metadata.empty()) json[std::string(kSafetensorsMetadataKey)] = metadata;
  uint64_t at = 0;
  for (const ArraySpec& array : arrays) {
    json[array.name] = {
        {"dtype", kSafetensorsNames[static_cast<size_t>(array.dtype)]},
        {"shape", array.shape},
        {"data_offsets", {at, at + array.bytes}}};
    at += array.bytes;
  }
  std::string text = json.dump(-1, ' ', /*ensure_ascii=*/false,
                               FileJson::error_handler_t::replace);
  text.append(
      (kHeaderAlignment - text.size() % kHeaderAlignment) % kHeaderAlignment,
      ' ');
  std::string header;
  for (size_t i = 0; i < kLengthBytes; ++i) {
    header += static_cast<char>(uint64_t{text.size()} >> (8 * i) & 0xff);
  }
  return header + text;
}

absl::StatusOr<SafetensorsIndex> ParseSafetensorsIndex(absl::string_view json) {
  if (json.size() > kMaxSafetensorsHeaderBytes) {
    return absl::InvalidArgumentError(
        absl::StrCat("the index has ", json.size(), " bytes; the limit is ",
                     kMaxSafetensorsHeaderBytes));
  }
  CKPTDB_ASSIGN_OR_RETURN(const FileJson index, ParseObject(json, 0));
  const auto map = index.find("weight_map");
  if (map == index.end() || !map->is_object()) {
    return absl::InvalidArgumentError("the index has no object \"weight_map\"");
  }
  SafetensorsIndex parsed;
  for (const auto& [name, file] : map->items()) {
    const std::string text = file.is_string() ? file.get<std::string>() : "";
    if (text.empty() || text == "." || text == ".." ||
        absl::StrContains(text, '/') || absl::StrContains(text, '\0')) {
      return absl::InvalidArgumentError(absl::StrCat(
          "the file of ", Shown(name), " in the index is ", Shown(text),
          ", not a name of a file in the index's folder"));
    }
    parsed.files[name] = text;
  }
  const auto metadata = index.find("metadata");
  if (metadata == index.end() || !metadata->is_object()) return parsed;
  for (const auto& [key, value] : metadata->items()) {
    if (key == "total_size") continue;  // follows from the arrays
    parsed.metadata[key] =
        value.is_string()
            ? value.get<std::string>()
            : value.dump(-1, ' ', false, FileJson::error_handler_t::replace);
  }
  return parsed;
}

std::string SafetensorsIndexJson(
    const std::map<std::string, std::string>& files, uint64_t bytes) {
  const FileJson json = {{"metadata", {{"total_size", bytes}}},
                         {"weight_map", files}};
  return json.dump(2, ' ', /*ensure_ascii=*/false,
                   FileJson::error_handler_t::replace) +
         "\n";
}

}  // namespace ckptdb::tool
