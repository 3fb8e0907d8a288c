// SPDX-License-Identifier: Apache-2.0
// Services with S3's interface as separate processes on this machine.
// tests/remote/setup_services.sh installs them from PyPI.
#ifndef CKPTDB_TESTS_REMOTE_REAL_SERVICE_H_
#define CKPTDB_TESTS_REMOTE_REAL_SERVICE_H_

#include <sys/types.h>

#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "tests/support/temp_dir.h"

namespace ckptdb::testing {

class RealService {
 public:
  static constexpr char kBucket[] = "bucket";

  // Start a service with a bucket, and wait until it answers. Its keys are
  // kTestKeyId and kTestSecret. Return Unavailable with the reason if it is not
  // installed and cannot be.
  static absl::StatusOr<std::unique_ptr<RealService>> SeaweedFs();
  static absl::StatusOr<std::unique_ptr<RealService>> Moto();
  // With a certificate of its own, the file `ca()`.
  static absl::StatusOr<std::unique_ptr<RealService>> MotoWithTls();
  static absl::StatusOr<std::unique_ptr<RealService>> Rclone();

  // Kills the process.
  ~RealService();
  RealService(const RealService&) = delete;
  RealService& operator=(const RealService&) = delete;

  // "http://127.0.0.1:PORT"
  const std::string& endpoint() const { return endpoint_; }
  std::string ca() const { return dir_.path() + "/cert.pem"; }
  // "s3://bucket/PREFIX?endpoint=..."
  std::string Url(const std::string& prefix) const;

 private:
  RealService() = default;
  static absl::StatusOr<std::unique_ptr<RealService>> StartSeaweedFs();
  absl::Status Start(std::vector<std::string> words);
  absl::Status AwaitBucket();
  int FreePort();
  std::string Log() const;

  TempDir dir_;
  std::string endpoint_;
  pid_t process_ = 0;
  std::vector<int> ports_;
};

}  // namespace ckptdb::testing

#endif  // CKPTDB_TESTS_REMOTE_REAL_SERVICE_H_
