// SPDX-License-Identifier: Apache-2.0
// Loads the keys that sign requests; private to remote/s3.
#ifndef CKPTDB_REMOTE_S3_CREDENTIALS_H_
#define CKPTDB_REMOTE_S3_CREDENTIALS_H_

#include <functional>
#include <optional>
#include <string>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "db/base/mutex.h"
#include "remote/s3/aws_profile.h"
#include "remote/s3/http.h"

namespace ckptdb::internal::s3 {

struct Credentials {
  std::string access_key_id;
  std::string secret_access_key;
  std::string session_token = {};  // empty: none
  absl::Time expires = absl::InfiniteFuture();
  // Names the source in messages, such as "the environment".
  std::string source = {};
};

// Returns `text` with "***" in place of each part of the credentials: no error
// and no log may contain them.
std::string Redact(const std::string& text, const Credentials& credentials);

// Loads credentials from the first source that is configured:
//   1. AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY and AWS_SESSION_TOKEN
//   2. a web identity: AWS_WEB_IDENTITY_TOKEN_FILE and AWS_ROLE_ARN, or the
//      profile's web_identity_token_file and role_arn, exchanged at STS
//   3. the profile's aws_access_key_id and aws_secret_access_key
//   4. the profile's credential_process
// and loads them again before they expire, and after Reject. Thread-safe;
// threads that call Get while another one loads wait for it.
class CredentialSource {
 public:
  // `http`, with which it calls STS, must outlive it.
  CredentialSource(std::string region, HttpClient* http,
                   std::function<absl::Time()> clock = absl::Now)
      : region_(std::move(region)), http_(http), clock_(std::move(clock)) {}

  // Returns Unavailable if a source may answer later, and FailedPrecondition
  // if none is configured.
  absl::StatusOr<Credentials> Get();

  // The service did not accept these any more: unless others were loaded
  // meanwhile, the next Get loads them again.
  void Reject(const Credentials& rejected);

 private:
  absl::StatusOr<Credentials> Load() const;
  absl::StatusOr<Credentials> RunProcess(const AwsProfile& profile) const;
  absl::StatusOr<Credentials> CallSts(const std::string& token_file,
                                      const std::string& role,
                                      const std::string& session) const;

  const std::string region_;
  HttpClient* const http_;
  const std::function<absl::Time()> clock_;
  Mutex mutex_;
  std::optional<Credentials> loaded_ ABSL_GUARDED_BY(mutex_);
  absl::Time renew_at_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace ckptdb::internal::s3

#endif  // CKPTDB_REMOTE_S3_CREDENTIALS_H_
