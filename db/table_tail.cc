#include "ckptdb/db/table_tail.h"

#include <xxhash.h>

#include <cstdint>
#include <cstring>
#include <optional>
#include <string>

#include "absl/strings/string_view.h"

namespace ckptdb::internal {
namespace {

using rocksdb::IOStatus;

// Block-based tables of format version 5 with kxxHash64, as rocks_options.cc
// has them. Footer: checksum type, handles of the metaindex and of the index,
// zeros up to 41 bytes, version:4, magic:8. A block is followed by the type of
// its compression and the low half of XXH64 of both.
constexpr uint64_t kFooterBytes = 53;
constexpr uint64_t kTrailerBytes = 5;
constexpr uint64_t kTableMagic = 0x88e241b785f4cff7;
constexpr uint64_t kMostBytes = uint64_t{1} << 20;
constexpr char kXxHash64 = 3;
constexpr absl::string_view kProperties = "rocksdb.properties";

struct Handle {
  uint64_t offset = 0;
  uint64_t bytes = 0;
};

std::optional<uint64_t> TakeVarint(absl::string_view* bytes) {
  constexpr int kBits = 7;
  constexpr int kMostBits = 64;
  uint64_t value = 0;
  for (int shift = 0; shift < kMostBits && !bytes->empty(); shift += kBits) {
    const auto byte = static_cast<uint8_t>(bytes->front());
    bytes->remove_prefix(1);
    value |= static_cast<uint64_t>(byte & 0x7f) << shift;
    if ((byte & 0x80) == 0) return value;
  }
  return std::nullopt;
}

std::optional<Handle> TakeHandle(absl::string_view bytes) {
  const auto offset = TakeVarint(&bytes);
  const auto size = TakeVarint(&bytes);
  if (!offset.has_value() || !size.has_value()) return std::nullopt;
  return Handle{*offset, *size};
}

class Tail {
 public:
  Tail(const rocksdb::FSRandomAccessFile& file, uint64_t file_bytes)
      : file_(file), file_bytes_(file_bytes) {}

  // RocksDB blames the MANIFEST for a table that was cut.
  bool HasMagic() {
    if (file_bytes_ < kFooterBytes) return false;
    const auto magic =
        Read(file_bytes_ - sizeof(kTableMagic), sizeof(kTableMagic));
    return !magic.has_value() ||
           std::memcmp(magic->data(), &kTableMagic, sizeof(kTableMagic)) == 0;
  }

  // The handle of the properties, where there is one to be found.
  std::optional<Handle> FindProperties() {
    if (file_bytes_ < kFooterBytes) return std::nullopt;
    const auto footer = Read(file_bytes_ - kFooterBytes, kFooterBytes);
    if (!footer.has_value() || footer->front() != kXxHash64) {
      return std::nullopt;
    }
    const auto metaindex = TakeHandle(absl::string_view(*footer).substr(1));
    if (!metaindex.has_value()) return std::nullopt;
    const auto block = ReadBlock(*metaindex);
    if (!block.has_value() || !HasChecksum(*block)) return std::nullopt;
    // Keys of this block are written out, each followed by its value.
    const size_t key = block->find(kProperties.data(), 0, kProperties.size());
    if (key == std::string::npos) return std::nullopt;
    return TakeHandle(
        absl::string_view(*block).substr(key + kProperties.size()));
  }

  // With its trailer.
  std::optional<std::string> ReadBlock(const Handle& handle) {
    if (handle.bytes > kMostBytes || handle.offset > file_bytes_ ||
        handle.bytes + kTrailerBytes > file_bytes_ - handle.offset) {
      return std::nullopt;
    }
    return Read(handle.offset, handle.bytes + kTrailerBytes);
  }

  static bool HasChecksum(const std::string& block) {
    constexpr size_t kChecksumBytes = sizeof(uint32_t);
    const size_t bytes = block.size() - kChecksumBytes;
    uint32_t stored = 0;
    std::memcpy(&stored, block.data() + bytes, kChecksumBytes);
    return static_cast<uint32_t>(XXH64(block.data(), bytes, 0)) == stored;
  }

 private:
  std::optional<std::string> Read(uint64_t offset, uint64_t bytes) {
    std::string memory(bytes, '\0');
    rocksdb::Slice result;
    const IOStatus status = file_.Read(offset, bytes, rocksdb::IOOptions(),
                                       &result, memory.data(), nullptr);
    if (!status.ok() || result.size() != bytes) return std::nullopt;
    if (result.data() != memory.data()) return result.ToString();
    return memory;
  }

  const rocksdb::FSRandomAccessFile& file_;
  const uint64_t file_bytes_;
};

}  // namespace

IOStatus CheckTableTail(const std::string& path,
                        const rocksdb::FSRandomAccessFile& file,
                        uint64_t file_bytes) {
  Tail tail(file, file_bytes);
  if (!tail.HasMagic()) {
    return IOStatus::Corruption("it does not end as a table does", path);
  }
  const std::optional<Handle> properties = tail.FindProperties();
  if (!properties.has_value()) return IOStatus::OK();
  const std::optional<std::string> block = tail.ReadBlock(*properties);
  if (!block.has_value() || Tail::HasChecksum(*block)) return IOStatus::OK();
  return IOStatus::Corruption("block checksum mismatch in the properties of",
                              path);
}

}  // namespace ckptdb::internal
