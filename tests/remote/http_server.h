// SPDX-License-Identifier: Apache-2.0
// An HTTP server on a free port of this machine, whose answers a test chooses.
//
//   HttpServer server([](const ServerRequest& request) {
//     return ServerResponse{.status = 404};
//   });
//   server.Intercept([](const ServerRequest& request)
//                        -> std::optional<ServerResponse> {
//     if (request.method != "PUT") return std::nullopt;
//     return ServerResponse{.status = 503};
//   });
#ifndef CKPTDB_TESTS_REMOTE_HTTP_SERVER_H_
#define CKPTDB_TESTS_REMOTE_HTTP_SERVER_H_

#include <atomic>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <vector>

namespace ckptdb::testing {

struct ServerRequest {
  std::string method;
  std::string path;   // "/bucket/key", decoded
  std::string query;  // as it was sent: "list-type=2&prefix=a%2F"
  std::map<std::string, std::string> headers = {};  // names in lower case
  std::string body = {};

  std::string Header(const std::string& name) const;
  // Returns the value of a parameter of the query, decoded.
  std::string Parameter(const std::string& name) const;
  bool HasParameter(const std::string& name) const;
};

// The end of an answer.
enum class AnswerEnd {
  kWhole,
  kNothing,  // the connection is closed without an answer
  kCut,      // it is closed after half of the body
  kStall,    // nothing is sent, and the connection stays open
};

struct ServerResponse {
  int status = 200;
  std::map<std::string, std::string> headers = {};
  std::string body = {};
  // The value of Content-Length; for HEAD, whose answer has no body.
  std::optional<uint64_t> length = std::nullopt;
  AnswerEnd end = AnswerEnd::kWhole;
};

// Returns the answer with which S3 refuses a request.
ServerResponse S3ErrorAnswer(int status, const std::string& code,
                             const std::string& message = "refused");

class HttpServer {
 public:
  using Handler = std::function<ServerResponse(const ServerRequest&)>;
  using Interceptor =
      std::function<std::optional<ServerResponse>(const ServerRequest&)>;

  // Calls `handler` on several threads.
  explicit HttpServer(Handler handler);
  ~HttpServer();
  HttpServer(const HttpServer&) = delete;
  HttpServer& operator=(const HttpServer&) = delete;

  int port() const { return port_; }
  std::string url() const;

  // Calls `interceptor`, one request at a time, before the handler: an answer
  // that it returns is sent instead of the handler's.
  void Intercept(Interceptor interceptor);
  // Returns the handler's answer, for interceptors that change it.
  ServerResponse Handle(const ServerRequest& request) const {
    return handler_(request);
  }

  // Returns "PUT /bucket/key?query" for each request so far.
  std::vector<std::string> Requests() const;
  // Returns how many requests so far begin with a text.
  int Count(const std::string& prefix) const;
  void ForgetRequests();
  // Returns the most requests that were answered at the same time.
  int most_at_once() const { return most_at_once_; }

 private:
  void Accept();
  void Serve(int connection);
  ServerResponse Answer(const ServerRequest& request);
  // Returns whether the connection may be used again.
  bool Send(int connection, const ServerRequest& request,
            const ServerResponse& response);

  const Handler handler_;
  int listener_ = -1;
  int port_ = 0;
  mutable std::mutex mutex_;
  std::mutex interceptor_mutex_;
  Interceptor interceptor_;
  std::vector<std::string> requests_;
  std::set<int> connections_;
  std::vector<std::thread> threads_;
  bool stopped_ = false;
  std::atomic<int> at_once_ = 0;
  std::atomic<int> most_at_once_ = 0;
  std::thread accepter_;
};

}  // namespace ckptdb::testing

#endif  // CKPTDB_TESTS_REMOTE_HTTP_SERVER_H_
