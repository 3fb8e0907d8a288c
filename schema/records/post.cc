// SPDX-License-Identifier: Apache-2.0
#include "schema/records/post.h"

#include "absl/strings/str_cat.h"
#include "schema/records/checks.h"
#include "schema/records/flat.h"
#include "schema/records/metrics.h"
#include "schema/records/record_checks.h"
#include "schema/status.h"

namespace ckptdb {
namespace {

using internal::AddString;
using internal::Opened;
using internal::RecordKind;
using internal::ToStd;

constexpr RecordKind kPostKind = RecordKind::kPost;

}  // namespace

absl::Status internal::Check(const Post& post) {
  CKPTDB_RETURN_IF_ERROR(internal::CheckUuid(kPostKind, post.uuid));
  CKPTDB_RETURN_IF_ERROR(internal::CheckUuid(kPostKind, post.store_uuid));
  CKPTDB_RETURN_IF_ERROR(
      internal::CheckVersion(kPostKind, "version", post.version));
  CKPTDB_RETURN_IF_ERROR(internal::CheckMetrics(kPostKind, post.metrics));
  if (post.pin && post.unpin) {
    return internal::BadField(kPostKind, "unpin", "is set together with pin");
  }
  if (post.lifetime > Post::Lifetime::kEphemeral) {
    return internal::BadField(
        kPostKind, "lifetime",
        absl::StrCat(static_cast<int>(post.lifetime), " is unknown"));
  }
  // No reader makes a post without a request.
  if (post.pin || post.unpin || !post.metrics.empty() ||
      post.lifetime != Post::Lifetime::kUnchanged) {
    return absl::OkStatus();
  }
  return internal::BadField(kPostKind, "metrics",
                            "are empty, and no pin is requested");
}

// The number of metrics and their names are limited, so the size stays far
// below the limit of a record.
uint64_t internal::LeastBytes(const Post&) { return 0; }

std::string internal::EncodeUnchecked(const Post& post) {
  flatbuffers::FlatBufferBuilder builder;
  const auto uuid = AddString(post.uuid, &builder);
  const auto store_uuid = AddString(post.store_uuid, &builder);
  const auto metrics = internal::AddMetrics(post.metrics, &builder);
  builder.Finish(fbs::CreatePost(builder, uuid, store_uuid, post.version.step,
                                 post.version.attempt, post.posted_at_micros,
                                 post.pin, metrics, post.unpin,
                                 static_cast<uint8_t>(post.lifetime)));
  return Seal(kPostKind, builder);
}

absl::StatusOr<std::string> EncodePost(const Post& post) {
  return internal::EncodeChecked(kPostKind, post);
}

absl::StatusOr<Post> DecodePost(absl::string_view bytes) {
  CKPTDB_ASSIGN_OR_RETURN(const auto from,
                          Opened<fbs::Post>::Open(kPostKind, bytes));
  Post post;
  post.uuid = ToStd(from->uuid());
  post.store_uuid = ToStd(from->store_uuid());
  post.version = {from->step(), from->attempt()};
  post.posted_at_micros = from->posted_at_micros();
  post.pin = from->pin();
  post.unpin = from->unpin();
  post.lifetime = static_cast<Post::Lifetime>(from->lifetime());
  CKPTDB_ASSIGN_OR_RETURN(post.metrics,
                          internal::ReadMetrics(kPostKind, from->metrics()));
  CKPTDB_RETURN_IF_ERROR(internal::Check(post));
  return post;
}

}  // namespace ckptdb
