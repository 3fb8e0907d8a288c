// SPDX-License-Identifier: Apache-2.0
#include "tests/remote/real_service.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <fstream>
#include <initializer_list>
#include <iterator>
#include <random>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "remote/s3/http.h"
#include "schema/status.h"
#include "tests/remote/aws_environment.h"
#include "tests/support/long_run.h"
#include "tests/support/source_folder.h"

namespace ckptdb::testing {
namespace {

using internal::s3::HttpClient;
using internal::s3::HttpResponse;

constexpr std::chrono::seconds kStartLimit(60);
constexpr char kSetUpScript[] = "tests/remote/setup_services.sh";
// Below the ports that the kernel gives to clients. SeaweedFS listens for gRPC
// 10,000 above each port.
constexpr int kFirstPort = 12'000;
constexpr int kGrpcDistance = 10'000;

bool IsFree(int port) {
  const int probe = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  address.sin_port = htons(static_cast<uint16_t>(port));
  const bool free =
      bind(probe, reinterpret_cast<sockaddr*>(&address), sizeof(address)) == 0;
  close(probe);
  return free;
}

std::string TextOfFile(const std::string& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

// Returns the path of an installed program.
absl::StatusOr<std::string> Installed(const std::string& name) {
  // 370 MB: only long runs install them.
  static const int kSetUp =
      IsLongRun() ? std::system(absl::StrCat(SourcePath(kSetUpScript),
                                             " > /dev/null 2>&1 < /dev/null")
                                    .c_str())
                  : 0;
  const std::string path = SourcePath("build/services/bin/" + name);
  if (kSetUp == 0 && access(path.c_str(), X_OK) == 0) return path;
  return absl::UnavailableError(absl::StrCat(
      name, " is not installed; run ", kSetUpScript, ", or set CKPTDB_LONG=1"));
}

[[noreturn]] void BecomeService(const std::vector<std::string>& words,
                                const std::string& log) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  const int file = open(log.c_str(), O_WRONLY | O_CREAT | O_APPEND, 0600);
  dup2(open("/dev/null", O_RDONLY), STDIN_FILENO);
  dup2(file, STDOUT_FILENO);
  dup2(file, STDERR_FILENO);
  setenv("TMPDIR", log.substr(0, log.rfind('/')).c_str(), 1);
  std::vector<char*> pointers;
  for (const std::string& word : words) {
    pointers.push_back(const_cast<char*>(word.c_str()));
  }
  pointers.push_back(nullptr);
  execv(pointers[0], pointers.data());
  _exit(127);
}

}  // namespace

RealService::~RealService() {
  if (process_ > 0) {
    kill(-process_, SIGKILL);
    waitpid(process_, nullptr, 0);
  }
  // SeaweedFS puts these there whatever it is told.
  for (const int port : ports_) {
    for (const char* name : {"filer", "master", "s3", "volume"}) {
      unlink(absl::StrCat("/tmp/seaweedfs-", name, "-grpc-",
                          port + kGrpcDistance, ".sock")
                 .c_str());
    }
  }
}

std::string RealService::Url(const std::string& prefix) const {
  return absl::StrCat("s3://", kBucket, "/", prefix, "?endpoint=", endpoint_);
}

std::string RealService::Log() const {
  // Without the stacks of goroutines.
  std::string log = TextOfFile(dir_.path() + "/log");
  log = log.substr(0, log.find("\ngoroutine "));
  return log.substr(log.size() - std::min<size_t>(log.size(), 1000));
}

int RealService::FreePort() {
  std::random_device random;
  std::uniform_int_distribution<int> ports(kFirstPort,
                                           kFirstPort + kGrpcDistance - 1);
  for (;;) {
    const int port = ports(random);
    const bool used =
        std::find(ports_.begin(), ports_.end(), port) != ports_.end();
    if (used || !IsFree(port) || !IsFree(port + kGrpcDistance)) continue;
    ports_.push_back(port);
    return port;
  }
}

absl::Status RealService::Start(std::vector<std::string> words) {
  CKPTDB_ASSIGN_OR_RETURN(words[0], Installed(words[0]));
  const std::string log = dir_.path() + "/log";
  process_ = fork();
  if (process_ == 0) {
    setpgid(0, 0);
    BecomeService(words, log);
  }
  setpgid(process_, process_);
  return AwaitBucket();
}

// Puts the bucket until that succeeds.
absl::Status RealService::AwaitBucket() {
  if (absl::StartsWith(endpoint_, "https")) {
    setenv("AWS_CA_BUNDLE", ca().c_str(), 1);
  }
  HttpClient http({});
  const auto end = std::chrono::steady_clock::now() + kStartLimit;
  std::string last;
  while (std::chrono::steady_clock::now() < end) {
    const absl::StatusOr<HttpResponse> response =
        http.Send({.method = "PUT",
                   .url = absl::StrCat(endpoint_, "/", kBucket),
                   .headers = {"x-amz-content-sha256: UNSIGNED-PAYLOAD"},
                   .signature = {.user = kTestKeyId,
                                 .password = kTestSecret,
                                 .scope = "aws:amz:us-east-1:s3"}});
    if (response.ok() && (response->status == 200 || response->status == 409)) {
      return absl::OkStatus();
    }
    last = response.ok() ? absl::StrCat(response->status, response->body)
                         : response.status().ToString();
    if (waitpid(process_, nullptr, WNOHANG) == process_) {
      process_ = 0;
      return absl::InternalError("the service ended: " + Log());
    }
    CKPTDB_RETURN_IF_ERROR(internal::s3::Pause(
        std::chrono::milliseconds(50), [] { return absl::OkStatus(); }));
  }
  return absl::InternalError(
      absl::StrCat("the service did not begin: ", last, ": ", Log()));
}

// Another process may have taken a port since it was free.
absl::StatusOr<std::unique_ptr<RealService>> RealService::SeaweedFs() {
  absl::StatusOr<std::unique_ptr<RealService>> started = StartSeaweedFs();
  if (absl::IsInternal(started.status())) started = StartSeaweedFs();
  return started;
}

absl::StatusOr<std::unique_ptr<RealService>> RealService::StartSeaweedFs() {
  std::unique_ptr<RealService> service(new RealService);
  const std::string& dir = service->dir_.path();
  std::ofstream(dir + "/s3.json")
      << R"({"identities": [{"name": "test", "credentials": [{"accessKey": ")"
      << kTestKeyId << R"(", "secretKey": ")" << kTestSecret
      << R"("}], "actions": ["Admin", "Read", "Write", "List", "Tagging"]}]})";
  mkdir((dir + "/data").c_str(), 0700);
  const int s3_port = service->FreePort();
  service->endpoint_ = absl::StrCat("http://127.0.0.1:", s3_port);
  CKPTDB_RETURN_IF_ERROR(service->Start(
      {"weed", "server", "-s3", "-ip=127.0.0.1", "-ip.bind=127.0.0.1",
       "-master.telemetry=false", "-volume.max=100", "-volume.preStopSeconds=1",
       "-s3.port.iceberg=0", "-s3.port.lance=0",
       absl::StrCat("-s3.localSocket=", dir, "/s3.sock"),
       absl::StrCat("-filer.localSocket=", dir, "/filer.sock"),
       absl::StrCat("-dir=", dir, "/data"),
       absl::StrCat("-s3.config=", dir, "/s3.json"),
       absl::StrCat("-s3.port=", s3_port),
       absl::StrCat("-master.port=", service->FreePort()),
       absl::StrCat("-volume.port=", service->FreePort()),
       absl::StrCat("-filer.port=", service->FreePort())}));
  return service;
}

absl::StatusOr<std::unique_ptr<RealService>> RealService::Moto() {
  std::unique_ptr<RealService> service(new RealService);
  const int port = service->FreePort();
  service->endpoint_ = absl::StrCat("http://127.0.0.1:", port);
  CKPTDB_RETURN_IF_ERROR(service->Start(
      {"moto_server", "-H", "127.0.0.1", "-p", absl::StrCat(port)}));
  return service;
}

absl::StatusOr<std::unique_ptr<RealService>> RealService::MotoWithTls() {
  std::unique_ptr<RealService> service(new RealService);
  const std::string& dir = service->dir_.path();
  const std::string made = absl::StrCat(
      "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 "
      "-nodes -days 2 -subj /CN=127.0.0.1 -addext subjectAltName=IP:127.0.0.1 "
      "-keyout ",
      dir, "/key.pem -out ", dir, "/cert.pem > ", dir, "/log 2>&1");
  if (std::system(made.c_str()) != 0) {
    return absl::UnavailableError("openssl makes no certificate: " +
                                  service->Log());
  }
  const int port = service->FreePort();
  service->endpoint_ = absl::StrCat("https://127.0.0.1:", port);
  CKPTDB_RETURN_IF_ERROR(service->Start(
      {"moto_server", "-H", "127.0.0.1", "-p", absl::StrCat(port), "-s", "-c",
       dir + "/cert.pem", "-k", dir + "/key.pem"}));
  return service;
}

absl::StatusOr<std::unique_ptr<RealService>> RealService::Rclone() {
  std::unique_ptr<RealService> service(new RealService);
  const std::string data = service->dir_.path() + "/data";
  mkdir(data.c_str(), 0700);
  mkdir(absl::StrCat(data, "/", kBucket).c_str(), 0700);
  const int port = service->FreePort();
  service->endpoint_ = absl::StrCat("http://127.0.0.1:", port);
  CKPTDB_RETURN_IF_ERROR(
      service->Start({"rclone", "serve", "s3", "--config", "/dev/null",
                      "--addr", absl::StrCat("127.0.0.1:", port), "--auth-key",
                      absl::StrCat(kTestKeyId, ",", kTestSecret), data}));
  return service;
}

}  // namespace ckptdb::testing
