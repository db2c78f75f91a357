#include "base/byte_size.h"

#include <doctest/doctest.h>

#include <functional>

#include "base/error.h"

using namespace heapsnap;

namespace {

std::string why_not(const std::function<void()>& parse) {
  try {
    parse();
  } catch (const Error& error) {
    CHECK(error.kind() == ErrorKind::kUsage);
    CHECK(error.remedy().starts_with("for example: --x "));
    return error.why();
  }
  return {};
}

std::string why_no_size(const std::string& text) {
  return why_not([&] { parse_byte_size("--x", text); });
}

std::string why_no_time(const std::string& text) {
  return why_not([&] { parse_duration_ms("--x", text); });
}

}  // namespace

TEST_CASE("sizes in bytes, in powers of 1024") {
  CHECK(parse_byte_size("--x", "4096") == 4096);
  CHECK(parse_byte_size("--x", "512 KiB") == 512 << 10);
  CHECK(parse_byte_size("--x", "1g") == 1 << 30);
  CHECK(parse_byte_size("--x", "18446744073709551615") == UINT64_MAX);
  CHECK(parse_byte_size("--x", "16777215tib") == 16777215ULL << 40);
}

TEST_CASE("times in milliseconds; without a unit in seconds") {
  CHECK(parse_duration_ms("--x", "10") == 10'000);
  CHECK(parse_duration_ms("--x", "500ms") == 500);
  CHECK(parse_duration_ms("--x", "2 Min") == 120'000);
  CHECK(parse_duration_ms("--x", "2w") == 14ULL * 86'400'000);
}

TEST_CASE("what cannot be taken says why") {
  for (const char* const text : {"", "x", "-1s", "1.5s", "10 parsecs", "s", " "}) {
    CAPTURE(text);
    CHECK(why_no_size(text) == "not a size in bytes");
    CHECK(why_no_time(text) == "not a time");
  }
  for (const char* const text : {"0", "0s", "0 ms", "00"}) {
    CHECK(why_no_time(text) == "it must be more than 0");
  }
  CHECK(why_no_size("0") == "it must be more than 0");
  CHECK(why_no_size("0k") == "it must be more than 0");
  for (const char* const text : {"18446744073709551616", "16777216t", "99999999999999999999 GiB"}) {
    CHECK(why_no_size(text) == "it is too large");
  }
  CHECK(why_no_time("1000w").empty());
  CHECK(why_no_time("99999999w") == "it is too large");
}
