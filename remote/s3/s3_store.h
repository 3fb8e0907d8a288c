// SPDX-License-Identifier: Apache-2.0
// An ObjectStore in a bucket; private to remote/s3.
#ifndef CKPTDB_REMOTE_S3_S3_STORE_H_
#define CKPTDB_REMOTE_S3_S3_STORE_H_

#include <string>
#include <vector>

#include "remote/object_store.h"
#include "remote/s3/s3_client.h"

namespace ckptdb::internal::s3 {

// Stores an object's token as metadata "ckptdb-token". If a put finds that the
// object exists, the token shows whether this put wrote it and lost the
// response, or another put wrote it.
class S3Store : public ObjectStore {
 public:
  S3Store(const S3Location& location, const RemoteOptions& options)
      : options_(options), client_(location, options) {}

  std::string Name() const override { return client_.location().name; }
  absl::Status PutIfAbsent(absl::string_view key, absl::string_view bytes,
                           absl::string_view token) override;
  absl::Status PutFileIfAbsent(absl::string_view key, const std::string& path,
                               absl::string_view token) override;
  absl::Status Get(absl::string_view key, uint64_t offset,
                   absl::Span<char> out) override;
  absl::StatusOr<ObjectInfo> Head(absl::string_view key) override;
  absl::StatusOr<std::vector<ObjectInfo>> List(absl::string_view prefix,
                                               absl::string_view after,
                                               uint64_t limit) override;
  absl::Status Delete(absl::string_view key) override;
  absl::Status AbortUploads(absl::string_view prefix,
                            absl::Time before) override;

  int connection_limit() const { return client_.connection_limit(); }

 private:
  std::string PathOf(absl::string_view key) const;
  absl::Status PutOnce(absl::string_view key, absl::string_view token,
                       S3Request request, const Budget& budget);
  absl::Status PutLarge(absl::string_view key, absl::string_view token,
                        const FilePart& file);
  // Returns OK if `key` was written by the put with this token, AlreadyExists
  // if by another, and NotFound if it does not exist.
  absl::Status CompareToken(absl::string_view key, absl::string_view token,
                            const Budget& budget);
  absl::StatusOr<ObjectInfo> HeadOf(absl::string_view key,
                                    const Budget& budget);
  absl::StatusOr<S3Answer> SendHead(const S3Request& request,
                                    const Budget& budget);
  absl::StatusOr<ObjectPage> ListPage(absl::string_view prefix,
                                      absl::string_view after, uint64_t limit,
                                      const Budget& budget);
  absl::Status AbortUpload(const UploadInfo& upload);

  const RemoteOptions options_;
  S3Client client_;
};

}  // namespace ckptdb::internal::s3

#endif  // CKPTDB_REMOTE_S3_S3_STORE_H_
