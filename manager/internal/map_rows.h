// SPDX-License-Identifier: Apache-2.0
// The implementation of MapTable: fields and maps with their types erased. Not
// for users, who include manager/map_table.h.
#ifndef CKPTDB_MANAGER_INTERNAL_MAP_ROWS_H_
#define CKPTDB_MANAGER_INTERNAL_MAP_ROWS_H_

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "db/internal/dtype_of.h"
#include "db/row_tracker.h"
#include "db/state.h"
#include "manager/model_state.h"
#include "manager/tables.h"

namespace ckptdb::internal {

// The values of a field of type T.
template <typename T>
struct FieldType;
template <Element T>
struct FieldType<T> {
  using Value = T;
  static constexpr size_t kElements = 1;
  static T* Data(T& field) { return &field; }
};
template <Element T, size_t N>
struct FieldType<std::array<T, N>> {
  using Value = T;
  static constexpr size_t kElements = N;
  static T* Data(std::array<T, N>& field) { return field.data(); }
};
template <Element T, size_t N>
struct FieldType<T[N]> {
  using Value = T;
  static constexpr size_t kElements = N;
  static T* Data(T (&field)[N]) { return field; }
};
template <Element T, typename Allocator>
requires(!std::is_same_v<T, bool>) struct FieldType<std::vector<T, Allocator>> {
  using Value = T;
  static constexpr size_t kElements =
      0;  // the number is TableOptions::Field::dim
  static T* Data(std::vector<T, Allocator>& field) { return field.data(); }
};
template <typename T>
concept FieldTyped = requires {
  typename FieldType<T>::Value;
};

template <typename Row, typename Member>
struct MemberField {
  std::string name;
  Member Row::*member;
  TableOptions::Field options;
};
struct WholeRowField {
  std::string name;
  TableOptions::Field options;
};

// A field of a row with the types of both erased.
struct AnyField {
  Slot slot;
  absl::Status status;  // why it is not valid
  // True if the field is in the row itself, at the same place in each.
  bool in_row = true;
  // Returns the values of a row, or null if a vector has another size.
  std::function<const void*(const void* row)> find;
  // Returns the values to be written, and gives a vector its size.
  std::function<void*(void* row)> make;
};

AnyField NewField(std::string name, DType dtype, size_t type_elements,
                  const TableOptions::Field& options, bool is_null);

// A field of the rows of one type.
template <typename Row>
class RowField {
 public:
  // Not explicit, because MapTable takes a braced list.
  template <typename Owner, typename Member>
  // NOLINTNEXTLINE(google-explicit-constructor)
  requires std::is_base_of_v<Owner, Row> RowField(
      MemberField<Owner, Member> field)
      : field_(Make<Member>(std::move(field.name), field.options,
                            field.member == nullptr,
                            [member = field.member](Row& row) -> Member& {
                              return row.*member;
                            })) {}
  RowField(WholeRowField field)  // NOLINT: a braced list
      : field_(Make<Row>(std::move(field.name), field.options,
                         /*is_null=*/false,
                         [](Row& row) -> Row& { return row; })) {}

  const AnyField& any() const { return field_; }

 private:
  template <typename Member, typename Get>
  static AnyField Make(std::string name, const TableOptions::Field& options,
                       bool is_null, Get get) {
    static_assert(FieldTyped<Member>,
                  "a field is a number, a bool, or an array or a std::vector "
                  "of such, of a type that internal::DTypeOf has");
    using Type = FieldType<Member>;
    AnyField field = NewField(std::move(name),
                              internal::DTypeOf<typename Type::Value>::kValue,
                              Type::kElements, options, is_null);
    if constexpr (Type::kElements == 0) {
      const size_t dim = options.dim;
      field.in_row = false;
      field.find = [get, dim](const void* row) -> const void* {
        auto& values = get(*static_cast<Row*>(const_cast<void*>(row)));
        return values.size() == dim ? values.data() : nullptr;
      };
      field.make = [get, dim](void* row) -> void* {
        auto& values = get(*static_cast<Row*>(row));
        values.resize(dim);
        return values.data();
      };
    } else {
      field.find = [get](const void* row) -> const void* {
        return Type::Data(get(*static_cast<Row*>(const_cast<void*>(row))));
      };
      field.make = [get](void* row) -> void* {
        return Type::Data(get(*static_cast<Row*>(row)));
      };
    }
    return field;
  }

  AnyField field_;
};

// Rows of a map, and their ids.
struct FoundRows {
  std::vector<int64_t> ids;
  std::vector<const void*> rows;
};

// A walk over all rows of a map, in tasks that may run concurrently.
class RowWalk {
 public:
  virtual ~RowWalk() = default;
  virtual uint64_t tasks() const = 0;
  virtual void Run(uint64_t task, FoundRows* found) const = 0;
};

// The trainer's map with its type erased.
class RowMap {
 public:
  virtual ~RowMap() = default;
  virtual std::unique_ptr<RowWalk> Walk() const = 0;
  // Sets rows[i] to the row of ids[i], or to null if the map has no such id.
  virtual void Find(absl::Span<const int64_t> ids, const void** rows) const = 0;
  // Returns the row of the id, inserting it if it is missing.
  virtual void* Insert(int64_t id) = 0;
  virtual void Erase(int64_t id) = 0;
  virtual void Clear() = 0;
};

// The addresses at which a walk is cut, with a fast lookup.
class Cuts {
 public:
  void Add(const void* address);
  // Sorts the addresses. Call it after the last Add.
  void Sort();
  bool Has(const void* address) const {
    return filter_[Bit(address) / kWordBits] >> Bit(address) % kWordBits & 1 &&
           IsThere(address);
  }

 private:
  static constexpr size_t kWordBits = 64;
  static constexpr int kBitsLog2 = 16;
  static size_t Bit(const void* address) {
    constexpr uint64_t kGoldenRatio = 0x9e3779b97f4a7c15;  // 2^64 / phi
    return reinterpret_cast<uintptr_t>(address) * kGoldenRatio >>
           (64 - kBitsLog2);
  }
  bool IsThere(const void* address) const;

  std::vector<uint64_t> filter_ =
      std::vector<uint64_t>((size_t{1} << kBitsLog2) / kWordBits);
  std::vector<const void*> sorted_;
};

// The address of a list's next node is known only once the node before it has
// been read from memory. To overlap these reads, the list of a node map is
// walked from many places at once, by several threads and interleaved on each.
template <typename Map>
class WalkOf : public RowWalk {
 public:
  explicit WalkOf(const Map& map) : map_(map) {
    if (map.empty()) return;
    Begin(map.begin());
    const size_t pieces = std::min(map.size() / kRowsPerPiece, kMaxPieces);
    if (pieces > 1) Cut(pieces);
    cuts_.Sort();
  }

  uint64_t tasks() const override {
    return (beginnings_.size() + kPiecesPerTask - 1) / kPiecesPerTask;
  }

  void Run(uint64_t task, FoundRows* found) const override {
    const size_t first = task * kPiecesPerTask;
    const size_t last = std::min(first + kPiecesPerTask, beginnings_.size());
    std::vector<Iterator> pieces(beginnings_.begin() + first,
                                 beginnings_.begin() + last);
    const size_t about = map_.size() / beginnings_.size() * pieces.size();
    found->ids.reserve(about + about / 4);
    found->rows.reserve(about + about / 4);
    while (!pieces.empty()) {
      for (size_t p = 0; p < pieces.size();) {
        Iterator& at = pieces[p];
        found->ids.push_back(static_cast<int64_t>(at->first));
        found->rows.push_back(&at->second);
        ++at;
        if (at == map_.end() || cuts_.Has(&at->second)) {
          at = pieces.back();
          pieces.pop_back();
        } else {
          __builtin_prefetch(&at->first);
          ++p;
        }
      }
    }
  }

 private:
  using Iterator = typename Map::const_iterator;
  static constexpr size_t kRowsPerPiece = 1024;
  static constexpr size_t kMaxPieces = 2048;
  static constexpr size_t kPiecesPerTask = 64;

  void Begin(Iterator at) {
    beginnings_.push_back(at);
    cuts_.Add(&at->second);
  }

  void Cut(size_t pieces) {
    if constexpr (requires { map_.begin(size_t{0}); }) {
      for (size_t piece = 0; piece < pieces; ++piece) {
        BeginInBuckets(map_.bucket_count() * piece / pieces,
                       map_.bucket_count() * (piece + 1) / pieces);
      }
    } else if constexpr (requires { typename Map::hasher; }) {
      // Such a map is one array, which is fast to iterate.
      const size_t share = map_.size() / pieces;
      size_t row = 0;
      for (Iterator at = map_.begin(); at != map_.end(); ++at, ++row) {
        if (row != 0 && row % share == 0) Begin(at);
      }
    }
  }

  // The rows of a bucket are adjacent in the list.
  void BeginInBuckets(size_t first, size_t end) {
    for (size_t bucket = first; bucket < end; ++bucket) {
      const auto row = map_.begin(bucket);
      if (row == map_.end(bucket)) continue;
      const Iterator at = map_.find(row->first);
      if (at != map_.begin()) Begin(at);
      return;
    }
  }

  const Map& map_;
  std::vector<Iterator> beginnings_;
  Cuts cuts_;
};

template <typename Map>
class RowMapOf : public RowMap {
 public:
  using Key = typename Map::key_type;
  static_assert(std::is_integral_v<Key> && sizeof(Key) == sizeof(int64_t),
                "the key of a map of rows is an id of 64 bits");

  explicit RowMapOf(Map* map) : map_(*map) {}

  std::unique_ptr<RowWalk> Walk() const override {
    return std::make_unique<WalkOf<Map>>(map_);
  }
  void Find(absl::Span<const int64_t> ids, const void** rows) const override {
    constexpr size_t kAhead = 16;
    for (size_t i = 0; i < ids.size(); ++i) {
      if constexpr (requires { map_.prefetch(Key()); }) {
        if (i + kAhead < ids.size()) {
          map_.prefetch(static_cast<Key>(ids[i + kAhead]));
        }
      }
      const auto found = map_.find(static_cast<Key>(ids[i]));
      rows[i] = found == map_.end() ? nullptr : &found->second;
    }
  }
  void* Insert(int64_t id) override {
    return &map_.try_emplace(static_cast<Key>(id)).first->second;
  }
  void Erase(int64_t id) override { map_.erase(static_cast<Key>(id)); }
  void Clear() override { map_.clear(); }

 private:
  Map& map_;
};

// A MapTable of any map.
class AnyMapTable : public AdaptedTable {
 public:
  ~AnyMapTable() override;

  // Mark ids, from any thread at any time. The later of two marks of the same
  // id counts.
  void MarkUpserted(absl::Span<const int64_t> ids);
  void MarkErased(absl::Span<const int64_t> ids);
  // Returns the tracker that holds the marks; other consumers may use it too.
  RowTracker* tracker() final;

  absl::StatusOr<std::unique_ptr<RowSource>> AllRows() const final;
  absl::StatusOr<std::unique_ptr<RowSource>> RowsOf(
      absl::Span<const int64_t> ids) const final;
  LiveTable* Live(absl::Span<const std::string> slots) final;

 protected:
  AnyMapTable(std::unique_ptr<RowMap> map, std::vector<AnyField> fields,
              TableOptions options);

 private:
  class Rows;
  class LiveRows;
  const std::vector<AnyField> fields_;
  const std::unique_ptr<RowMap> map_;  // null if the trainer passed null
  RowTracker tracker_;
  std::unique_ptr<LiveRows> live_;
};

// Returns null for a null map.
template <typename Map>
std::unique_ptr<RowMap> EraseMap(Map* map) {
  if (map == nullptr) return nullptr;
  return std::make_unique<RowMapOf<Map>>(map);
}

template <typename Row>
std::vector<AnyField> EraseRows(const std::vector<RowField<Row>>& fields) {
  std::vector<AnyField> erased;
  for (const RowField<Row>& field : fields) erased.push_back(field.any());
  return erased;
}

}  // namespace ckptdb::internal

#endif  // CKPTDB_MANAGER_INTERNAL_MAP_ROWS_H_
