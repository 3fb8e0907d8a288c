#include <rocksdb/slice.h>

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "ckptdb/db/rocks_status.h"
#include "ckptdb/db/step_reader_impl.h"
#include "ckptdb/schema/limits.h"
#include "ckptdb/schema/page.h"
#include "ckptdb/schema/status.h"

namespace ckptdb::internal {
namespace {

// The header of a chunk against what the record says of it.
absl::Status CheckChunk(const PageView& page, const Item& item, uint32_t chunk,
                        uint32_t element_bytes) {
  const uint64_t bytes = ChunkRawBytes(item, chunk);
  if (page.raw_bytes != bytes || page.count != bytes / element_bytes) {
    return absl::DataLossError(
        absl::StrCat("chunk has ", page.count, " elements in ", page.raw_bytes,
                     " bytes, not ", bytes / element_bytes, " in ", bytes));
  }
  if (page.raw_hash == item.chunk_hashes[chunk]) return absl::OkStatus();
  return absl::DataLossError(absl::StrCat(
      "chunk hash ", absl::Hex(page.raw_hash), " is not the record's ",
      absl::Hex(item.chunk_hashes[chunk])));
}

}  // namespace

uint64_t ChunkRawBytes(const Item& item, uint32_t chunk) {
  return std::min<uint64_t>(kChunkBytes, item.raw_bytes - chunk * kChunkBytes);
}

absl::Status ReadChunk(const StepReader::Impl& step, const RankItem& part,
                       uint32_t chunk, char* raw) {
  const Item& item = *part.item;
  std::string key = ItemPrefix(item.data, part.rank, item.kind, item.name);
  AppendChunk(chunk, &key);
  const std::string place =
      absl::StrCat(PlaceOf(part), ", key of ", DescribeDataKey(key));
  rocksdb::ReadOptions options;
  options.verify_checksums = true;
  rocksdb::PinnableSlice entry;
  const Database& database = step.database();
  const rocksdb::Status found = database.rocks()->Get(
      options, database.family(item.placement), key, &entry);
  CKPTDB_RETURN_IF_ERROR(FromRocksRead(found, place));
  const uint32_t element_bytes =
      item.kind == ItemKind::kBlob ? 1 : DTypeBytes(item.dtype);
  absl::StatusOr<PageView> page = ParsePage(FromSlice(entry));
  CKPTDB_RETURN_IF_ERROR(Annotate(page.status(), place));
  CKPTDB_RETURN_IF_ERROR(
      Annotate(CheckChunk(*page, item, chunk, element_bytes), place));
  return Annotate(ReadPageTo(*page, element_bytes, raw), place);
}

}  // namespace ckptdb::internal
