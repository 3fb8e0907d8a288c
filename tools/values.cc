// SPDX-License-Identifier: Apache-2.0
#include "tools/values.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <type_traits>

#include "absl/strings/str_cat.h"
#include "schema/types.h"

namespace ckptdb::tool {
namespace {

// Casts an element to a dtype that can represent all its values.
template <typename T>
T Widened(DType dtype, absl::string_view bytes, DType to) {
  T number = {};
  const absl::Status cast = CastElements(dtype, bytes.data(), to, &number, 1);
  return cast.ok() ? number : T();
}

// Calls `take` with the element, converted to a type that can represent all
// values of its dtype.
template <typename Take>
auto WithElement(DType dtype, absl::string_view bytes, const Take& take) {
  switch (dtype) {
    case DType::kF64:
      return take(Widened<double>(dtype, bytes, DType::kF64));
    case DType::kF32:
    case DType::kF16:
    case DType::kBf16:
    case DType::kF8E4M3:
    case DType::kF8E5M2:
      return take(Widened<float>(dtype, bytes, DType::kF32));
    case DType::kI64:
    case DType::kI32:
    case DType::kI16:
    case DType::kI8:
      return take(Widened<int64_t>(dtype, bytes, DType::kI64));
    case DType::kU64:
    case DType::kU32:
    case DType::kU16:
    case DType::kU8:
      return take(Widened<uint64_t>(dtype, bytes, DType::kU64));
    case DType::kBool:
      break;
  }
  return take(Widened<uint8_t>(dtype, bytes, DType::kBool) != 0);
}

template <typename T>
// Returns the shortest text that reads back as this number in its own type: as
// a double, an f32 would have too many digits.
std::string FloatText(T number) {
  std::array<char, 64> text = {};
  const auto end =
      std::to_chars(text.data(), text.data() + text.size(), number);
  return {text.data(), end.ptr};
}

}  // namespace

Json ElementJson(DType dtype, absl::string_view bytes) {
  return WithElement(dtype, bytes, [](auto number) -> Json {
    if constexpr (std::is_floating_point_v<decltype(number)>) {
      return NumberJson(static_cast<double>(number));
    } else {
      return number;
    }
  });
}

std::string ElementText(DType dtype, absl::string_view bytes) {
  return WithElement(dtype, bytes, [](auto number) -> std::string {
    using T = decltype(number);
    if constexpr (std::is_same_v<T, bool>) {
      return number ? "true" : "false";
    } else if constexpr (std::is_floating_point_v<T>) {
      return std::isnan(number) ? "nan" : FloatText(number);
    } else {
      return std::to_string(number);
    }
  });
}

Json ElementsJson(DType dtype, absl::string_view bytes) {
  Json elements = Json::array();
  const uint32_t element_bytes = DTypeBytes(dtype);
  for (size_t at = 0; at + element_bytes <= bytes.size(); at += element_bytes) {
    elements.push_back(ElementJson(dtype, bytes.substr(at, element_bytes)));
  }
  return elements;
}

std::string ElementsText(DType dtype, absl::string_view bytes, size_t limit) {
  const uint32_t element_bytes = DTypeBytes(dtype);
  const size_t elements = bytes.size() / element_bytes;
  std::string text;
  for (size_t i = 0; i < std::min(elements, limit); ++i) {
    absl::StrAppend(&text, i == 0 ? "" : " ",
                    ElementText(dtype, bytes.substr(i * element_bytes)));
  }
  if (elements > limit) {
    absl::StrAppend(&text, " ... ", elements - limit, " more");
  }
  return text;
}

Json ValuesJson(const std::vector<Slot>& slots,
                const std::vector<std::string>& values) {
  Json json = Json::array();
  for (size_t i = 0; i < values.size(); ++i) {
    json.push_back({{"name", slots[i].name},
                    {"dtype", Str(DTypeName(slots[i].dtype))},
                    {"elements", slots[i].elements},
                    {"values", ElementsJson(slots[i].dtype, values[i])}});
  }
  return json;
}

}  // namespace ckptdb::tool
