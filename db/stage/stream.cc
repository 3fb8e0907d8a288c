// SPDX-License-Identifier: Apache-2.0
#include "db/stage/stream.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "db/base/row_block.h"
#include "schema/bytes/keys.h"
#include "schema/bytes/limits.h"
#include "schema/bytes/lossy.h"
#include "schema/status.h"
#include "schema/types.h"

namespace ckptdb::internal {
namespace {

// Bytes of a row's position in a key: its slice and its id.
constexpr uint64_t kPositionBytes = sizeof(uint16_t) + sizeof(uint64_t);

// The chunks of a tensor or a blob. Each entry is a range of its bytes.
class ChunkStream : public Stream {
 public:
  ChunkStream(std::string prefix, uint32_t first_chunk, absl::string_view bytes,
              uint32_t element_bytes, Codec codec)
      : Stream(bytes.size(), kChunkBytes, element_bytes, element_bytes, codec),
        prefix_(std::move(prefix)),
        first_chunk_(first_chunk),
        bytes_(bytes) {}

 private:
  uint64_t key_bytes() const override {
    return prefix_.size() + sizeof(uint32_t);
  }
  absl::Status Fill(uint64_t entry, std::string* key, char* raw) override {
    *key = prefix_;
    AppendChunk(static_cast<uint32_t>(first_chunk_ + entry), key);
    std::memcpy(raw, bytes_.data() + entry * kChunkBytes, BytesOf(entry));
    return absl::OkStatus();
  }

  const std::string prefix_;
  const uint32_t first_chunk_;
  const absl::string_view bytes_;
};

// The pages of a table's ids, or of the values of one slot.
class RowStream : public Stream {
 public:
  RowStream(std::string prefix, RowOrder* order, uint32_t rows_per_page,
            uint64_t row_bytes, uint32_t element_bytes, Codec codec)
      : Stream(order->rows() * row_bytes, rows_per_page * row_bytes,
               element_bytes, static_cast<uint32_t>(row_bytes), codec),
        prefix_(std::move(prefix)),
        order_(order),
        rows_per_page_(rows_per_page),
        row_bytes_(row_bytes) {}

 protected:
  virtual void Gather(absl::Span<const RowRef> rows, char* raw) const = 0;

  const RowOrder& order() const { return *order_; }
  uint64_t row_bytes() const { return row_bytes_; }

 private:
  uint64_t key_bytes() const override {
    return prefix_.size() + kPositionBytes;
  }
  absl::Status Fill(uint64_t entry, std::string* key, char* raw) override {
    const uint64_t begin = entry * rows_per_page_;
    CKPTDB_ASSIGN_OR_RETURN(
        const absl::Span<const RowRef> rows,
        order_->Sorted(begin, begin + BytesOf(entry) / row_bytes_));
    *key = prefix_;
    AppendPosition(order_->PositionOf(rows.front()), key);
    Gather(rows, raw);
    return absl::OkStatus();
  }

  const std::string prefix_;
  RowOrder* const order_;
  const uint32_t rows_per_page_;
  const uint64_t row_bytes_;
};

class IdStream : public RowStream {
 public:
  IdStream(std::string prefix, RowOrder* order, uint32_t rows_per_page)
      : RowStream(std::move(prefix), order, rows_per_page, sizeof(int64_t),
                  sizeof(int64_t), Codec::kAuto) {}

  // The order holds the ids, so the caller's memory may change before the ids
  // are written.
  bool reads_caller() const override { return false; }

 private:
  void Gather(absl::Span<const RowRef> rows, char* raw) const override {
    for (size_t i = 0; i < rows.size(); ++i) {
      std::memcpy(raw + i * sizeof(int64_t), &rows[i].id, sizeof(int64_t));
    }
  }
};

class SlotStream : public RowStream {
 public:
  SlotStream(std::string prefix, RowOrder* order, uint32_t rows_per_page,
             size_t slot, const Slot& spec)
      : RowStream(std::move(prefix), order, rows_per_page, spec.row_bytes(),
                  DTypeBytes(spec.dtype), spec.codec),
        slot_(slot) {}

 protected:
  void Gather(absl::Span<const RowRef> rows, char* raw) const override {
    GatherPieces(
        rows, row_bytes(),
        [](const RowBlock::SlotValues& values, uint64_t row) {
          return values.At(row);
        },
        raw);
  }

  // Copies `bytes` bytes of each row, consecutively, from address_of(values,
  // row).
  template <typename AddressOf>
  void GatherPieces(absl::Span<const RowRef> rows, uint64_t bytes,
                    const AddressOf& address_of, char* to) const {
    const absl::Span<const RowBlock> blocks = order().blocks();
    // Most tables are one block, whose slot is looked up once instead of once
    // per row.
    if (blocks.size() == 1) {
      const RowBlock::SlotValues& values = blocks[0].slots[slot_];
      GatherRows(
          rows.size(), bytes,
          [&](uint64_t i) { return address_of(values, rows[i].row); }, to);
    } else {
      GatherRows(
          rows.size(), bytes,
          [&](uint64_t i) {
            return address_of(blocks[rows[i].block].slots[slot_], rows[i].row);
          },
          to);
    }
  }

 private:
  const size_t slot_;
};

// The same for rows that a device has encoded.
class EncodedSlotStream : public SlotStream {
 public:
  EncodedSlotStream(std::string prefix, RowOrder* order, uint32_t rows_per_page,
                    size_t slot, const Slot& spec)
      : SlotStream(std::move(prefix), order, rows_per_page, slot, spec),
        elements_(spec.elements) {
    for (const RowBlock& block : order->blocks()) {
      if (block.ids.empty()) continue;
      const EncodedRows& rows = *EncodedOf(block.slots[slot]);
      all_.error = std::max(all_.error, rows.error);
      all_.magnitude = std::max(all_.magnitude, rows.magnitude);
    }
  }

 private:
  bool encoded() const override { return true; }

  EncodedPage PageOf(uint64_t rows) const {
    return EncodedPage(codec(), rows, elements_);
  }

  void Gather(absl::Span<const RowRef> rows, char* stored) const override {
    const EncodedPage page = PageOf(rows.size());
    page.WriteHead(stored);
    if (codec() == Codec::kInt8) {
      GatherPieces(
          rows, sizeof(Int8Bounds),
          [](const RowBlock::SlotValues& values, uint64_t row) {
            return reinterpret_cast<const char*>(EncodedOf(values)->bounds +
                                                 row);
          },
          stored + page.bounds_at());
    }
    GatherPieces(
        rows, page.code_bytes(),
        [](const RowBlock::SlotValues& values, uint64_t row) {
          return EncodedOf(values)->CodesAt(row);
        },
        stored + page.codes_at());
  }

  void FinishEncoded(uint32_t count, const char* stored,
                     PageBuilder* page) const override {
    const EncodedPage rows = PageOf(count);
    page->FinishEncoded(codec(), count, rows.bytes(),
                        rows.ErrorOf(stored, all_));
  }

  const uint32_t elements_;
  EncodedRows all_;  // the errors of all blocks
};

// All blocks are encoded or none is: RowOrder has checked that.
bool IsEncoded(const RowOrder& order, size_t slot) {
  const absl::Span<const RowBlock> blocks = order.blocks();
  return std::any_of(blocks.begin(), blocks.end(), [&](const RowBlock& block) {
    return !block.ids.empty() && EncodedOf(block.slots[slot]) != nullptr;
  });
}

}  // namespace

Stream::Stream(uint64_t raw_bytes, uint64_t entry_bytes, uint32_t element_bytes,
               uint32_t count_bytes, Codec codec)
    : raw_bytes_(raw_bytes),
      entry_bytes_(entry_bytes),
      element_bytes_(element_bytes),
      count_bytes_(count_bytes),
      codec_(codec),
      hashes_((raw_bytes + entry_bytes - 1) / entry_bytes) {}

uint64_t Stream::BytesOf(uint64_t entry) const {
  return std::min(entry_bytes_, raw_bytes_ - entry * entry_bytes_);
}

absl::Status Stream::ChooseCodec() {
  // The first entry represents the others: choosing a codec for each entry
  // would compress every entry several times.
  if (codec_ != Codec::kAuto) return absl::OkStatus();
  if (entries() == 0) {
    codec_ = Codec::kNone;
    return absl::OkStatus();
  }
  std::string key;
  std::string sample(BytesOf(0), '\0');
  CKPTDB_RETURN_IF_ERROR(Fill(0, &key, sample.data()));
  codec_ = ckptdb::ChooseCodec(sample, element_bytes_);
  return absl::OkStatus();
}

void Stream::HoldFrom(uint64_t first, char* memory) {
  first_held_ = first;
  held_ = memory;
  held_keys_.resize(entries() - first);
}

absl::Status Stream::CopyHeld(uint64_t entry) {
  const uint64_t at = entry - first_held_;
  return Fill(entry, &held_keys_[at], held_ + at * entry_bytes_);
}

absl::Status Stream::Make(uint64_t entry, std::string* key, PageBuilder* page) {
  const uint64_t bytes = BytesOf(entry);
  char* const raw = page->Reset(bytes);
  // A held entry was copied while the training waited. Its source may have
  // changed since.
  if (IsHeld(entry)) {
    const uint64_t at = entry - first_held_;
    *key = held_keys_[at];
    std::memcpy(raw, held_ + at * entry_bytes_, bytes);
  } else {
    CKPTDB_RETURN_IF_ERROR(Fill(entry, key, raw));
  }
  const auto count = static_cast<uint32_t>(bytes / count_bytes_);
  if (encoded()) {
    FinishEncoded(count, raw, page);
  } else {
    page->Finish(codec_, count, element_bytes_);
  }
  // Each entry is made once, by one thread, so its hash needs no lock.
  hashes_[entry] = page->raw_hash();
  if (IsLossy(codec_)) {
    const MutexLock lock(&mutex_);
    error_ = Larger(error_, page->error());
  }
  stored_bytes_ += page->entry().size();
  return absl::OkStatus();
}

void Stream::FinishEncoded(uint32_t /*count*/, const char* /*stored*/,
                           PageBuilder* /*page*/) const {}

Item::Error Stream::error() const {
  const MutexLock lock(&mutex_);
  return error_;
}

std::unique_ptr<Stream> MakeChunkStream(std::string prefix,
                                        uint32_t first_chunk,
                                        absl::string_view bytes,
                                        uint32_t element_bytes, Codec codec) {
  return std::make_unique<ChunkStream>(std::move(prefix), first_chunk, bytes,
                                       element_bytes, codec);
}

std::unique_ptr<Stream> MakeIdStream(std::string prefix, RowOrder* order,
                                     uint32_t rows_per_page) {
  return std::make_unique<IdStream>(std::move(prefix), order, rows_per_page);
}

std::unique_ptr<Stream> MakeSlotStream(std::string prefix, RowOrder* order,
                                       uint32_t rows_per_page, size_t slot,
                                       const Slot& spec) {
  if (IsEncoded(*order, slot)) {
    return std::make_unique<EncodedSlotStream>(std::move(prefix), order,
                                               rows_per_page, slot, spec);
  }
  return std::make_unique<SlotStream>(std::move(prefix), order, rows_per_page,
                                      slot, spec);
}

}  // namespace ckptdb::internal
