// SPDX-License-Identifier: Apache-2.0
// The environment variables and files that remote/s3 reads.
#ifndef CKPTDB_TESTS_REMOTE_AWS_ENVIRONMENT_H_
#define CKPTDB_TESTS_REMOTE_AWS_ENVIRONMENT_H_

#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "tests/support/temp_dir.h"

namespace ckptdb::testing {

inline constexpr char kTestKeyId[] = "AKIDTESTTESTTEST";
inline constexpr char kTestSecret[] = "SecretTestSecretTestSecret";

// The process has no AWS_* variable, and an empty home folder, until this is
// destroyed and the variables are as before. No other thread may use the
// environment meanwhile.
class AwsEnvironment {
 public:
  AwsEnvironment() {
    for (char** each = environ; *each != nullptr; ++each) {
      before_.emplace_back(*each);
    }
    for (const std::string& each : before_) {
      const std::string name = each.substr(0, each.find('='));
      const bool read = absl::StartsWith(name, "AWS_") ||
                        absl::EndsWithIgnoreCase(name, "_proxy") ||
                        name == "CURL_CA_BUNDLE" || name == "SSL_CERT_FILE";
      if (read) unsetenv(name.c_str());
    }
    Set("HOME", home_.path());
  }
  ~AwsEnvironment() {
    clearenv();
    for (const std::string& each : before_) {
      const size_t equals = each.find('=');
      Set(each.substr(0, equals), each.substr(equals + 1));
    }
  }
  AwsEnvironment(const AwsEnvironment&) = delete;
  AwsEnvironment& operator=(const AwsEnvironment&) = delete;

  void Set(const std::string& name, const std::string& value) {
    setenv(name.c_str(), value.c_str(), 1);
  }
  void SetKeys() {
    Set("AWS_ACCESS_KEY_ID", kTestKeyId);
    Set("AWS_SECRET_ACCESS_KEY", kTestSecret);
  }
  // Writes a file of ~/.aws, or another one below the home folder.
  std::string Write(const std::string& name, const std::string& text) {
    mkdir((home_.path() + "/.aws").c_str(), 0700);
    const std::string path = home_.path() + "/" + name;
    std::ofstream(path) << text;
    return path;
  }

 private:
  TempDir home_;
  std::vector<std::string> before_;
};

}  // namespace ckptdb::testing

#endif  // CKPTDB_TESTS_REMOTE_AWS_ENVIRONMENT_H_
