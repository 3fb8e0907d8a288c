// SPDX-License-Identifier: Apache-2.0
#include "tests/support/sim_content.h"

#include <xxhash.h>

#include <algorithm>
#include <cstring>
#include <utility>

namespace ckptdb::testing {

SimContent::SimContent() : body_(std::make_shared<Body>()) {}

SimContent::SimContent(const SimContent& other) : body_(other.body_) {
  body_->shared = true;
}

SimContent& SimContent::operator=(const SimContent& other) {
  if (this == &other) return *this;
  body_ = other.body_;
  body_->shared = true;
  return *this;
}

uint64_t SimContent::size() const {
  return body_->extents.empty() ? 0 : body_->extents.back().end;
}

SimContent::Body& SimContent::Mutable() {
  if (body_->shared) {
    auto own = std::make_shared<Body>();
    own->extents = body_->extents;
    body_ = std::move(own);
  }
  body_->digest = 0;
  return *body_;
}

void SimContent::Push(SharedBytes bytes, size_t begin, size_t length) {
  if (length == 0) return;
  const uint64_t end = size() + length;
  Mutable().extents.push_back({std::move(bytes), begin, length, end});
}

void SimContent::Write(uint64_t offset, SharedBytes bytes) {
  const uint64_t end = offset + bytes->size();
  if (offset > size()) Resize(offset);
  if (offset == size()) {
    const size_t length = bytes->size();
    Push(std::move(bytes), 0, length);
    return;
  }
  SimContent changed = Slice(0, offset);
  const size_t length = bytes->size();
  changed.Push(std::move(bytes), 0, length);
  if (end < size()) changed.Append(Slice(end, size()));
  body_ = std::move(changed.body_);
}

void SimContent::Resize(uint64_t new_size) {
  if (new_size < size()) {
    body_ = std::move(Slice(0, new_size).body_);
  } else if (new_size > size()) {
    const size_t gap = new_size - size();
    Push(std::make_shared<const std::string>(gap, '\0'), 0, gap);
  }
}

void SimContent::Append(const SimContent& other) {
  for (const Extent& extent : other.body_->extents) {
    Push(extent.bytes, extent.begin, extent.length);
  }
}

SimContent SimContent::Slice(uint64_t begin, uint64_t end) const {
  SimContent slice;
  uint64_t at = 0;
  for (const Extent& extent : body_->extents) {
    const uint64_t from = std::max(begin, at);
    const uint64_t to = std::min(end, extent.end);
    if (from < to) {
      slice.Push(extent.bytes, extent.begin + (from - at), to - from);
    }
    at = extent.end;
    if (at >= end) break;
  }
  return slice;
}

size_t SimContent::Read(uint64_t offset, size_t n, char* out) const {
  const auto& extents = body_->extents;
  auto extent = std::upper_bound(
      extents.begin(), extents.end(), offset,
      [](uint64_t position, const Extent& e) { return position < e.end; });
  size_t done = 0;
  for (; extent != extents.end() && done < n; ++extent) {
    const size_t skip = offset + done - (extent->end - extent->length);
    const size_t length = std::min(extent->length - skip, n - done);
    std::memcpy(out + done, extent->bytes->data() + extent->begin + skip,
                length);
    done += length;
  }
  return done;
}

std::string SimContent::ToString() const {
  std::string bytes(size(), '\0');
  Read(0, bytes.size(), bytes.data());
  return bytes;
}

uint64_t SimContent::Digest() const {
  if (const uint64_t known = body_->digest; known != 0) return known;
  XXH3_state_t* state = XXH3_createState();
  XXH3_64bits_reset(state);
  for (const Extent& extent : body_->extents) {
    XXH3_64bits_update(state, extent.bytes->data() + extent.begin,
                       extent.length);
  }
  const uint64_t digest = std::max<uint64_t>(1, XXH3_64bits_digest(state));
  XXH3_freeState(state);
  body_->digest = digest;
  return digest;
}

}  // namespace ckptdb::testing
