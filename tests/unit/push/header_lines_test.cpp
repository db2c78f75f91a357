#include "tools/push/header_lines.h"

#include <doctest/doctest.h>

#include "base/error.h"

using namespace heapsnap;

TEST_CASE("a header a line; blank lines and comments are passed over") {
  CHECK(parse_header_lines("# secret\nAuthorization: Bearer x\r\n\nX-Scope-OrgID: a", "f") ==
        std::vector<std::string>{"Authorization: Bearer x", "X-Scope-OrgID: a"});
  CHECK(parse_header_lines("", "f").empty());
}

TEST_CASE("what is no header is refused by its line, and not quoted") {
  for (const char* text : {"Bearer secret", ": secret", "A b: secret", "A: secret\x01",
                           "A: secret\rB: c", "content-type: secret", "Host: secret"}) {
    CAPTURE(text);
    try {
      parse_header_lines(std::string("X: y\n") + text, "/etc/push");
      FAIL("taken");
    } catch (const Error& error) {
      CHECK(error.kind() == ErrorKind::kUsage);
      CHECK(error.subject() == "line 2 of /etc/push");
      CHECK(std::string(error.what()).find("secret") == std::string::npos);
    }
  }
}
