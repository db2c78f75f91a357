// One HTTP request, by libcurl, which is loaded only when it is asked for: linked in, it would
// bring some thirty libraries into every run of the command. The server may be hostile or broken:
// what is kept of its answer is bounded, and so is the time.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace heapsnap {

struct HttpRequest {
  std::string url;                   // http:// or https://
  std::vector<std::string> headers;  // "Name: value"
  std::string body;
  uint64_t timeout_ms = 30'000;  // from the first look-up of the name to the end of the answer
  std::string ca_file;           // certificates to trust, PEM; empty: the system's
};

struct HttpAnswer {
  int status = 0;                         // 0: there was no answer
  std::string body;                       // its first kAnswerKept bytes
  std::optional<uint64_t> retry_after_s;  // by the answer's Retry-After, seconds from now
  std::string failure;                    // of a request without an answer: why; else empty
  bool may_pass = false;                  // a failure of the connection, not of what was asked

  static constexpr size_t kAnswerKept = 1024;
};

// POSTs. The server's certificate is verified; redirects are not followed; an answer longer than
// 64 KiB is cut off there. Throws Error{kUnsupported} where there is no libcurl.
HttpAnswer http_post(const HttpRequest& request);

}  // namespace heapsnap
