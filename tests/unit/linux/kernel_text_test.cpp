#include "platform/linux/proc/kernel_text.h"

#include <doctest/doctest.h>

using namespace heapsnap;

TEST_CASE("fields of a status text") {
  const std::string_view text =
      "Name:\tsleep: 3\nVmRSS:\t     712 kB\nThreads:\t1\nVmRSSx: 9\nBig:\t99999999999999999999 "
      "kB\n"
      "Wide:\t18446744073709551615 kB\nEmpty:\nx86_Thread_features:\tshstk \nlast:\t5";
  CHECK(status_field(text, "Name") == "sleep: 3");
  CHECK(status_number(text, "Threads") == 1);
  CHECK(status_number(text, "VmRSS") == 712);
  CHECK(status_bytes(text, "VmRSS") == 712 * 1024);
  CHECK(status_field(text, "x86_Thread_features") == "shstk");
  CHECK(status_field(text, "Empty") == "");
  CHECK(status_number(text, "Empty") == std::nullopt);
  CHECK(status_number(text, "Name") == std::nullopt);
  CHECK(status_number(text, "Big") == std::nullopt);
  CHECK(status_bytes(text, "Wide") == std::nullopt);
  CHECK(status_number(text, "last") == 5);
  CHECK(status_field(text, "Thread") == std::nullopt);
  CHECK(status_field("", "Name") == std::nullopt);
}

TEST_CASE("numbers are whole or nothing") {
  CHECK(parse_number(" 12\n") == 12);
  CHECK(parse_number("000001fffeffffff", 16) == 0x1fffeffffff);
  CHECK(parse_number("max") == std::nullopt);
  CHECK(parse_number("-1") == std::nullopt);
  CHECK(parse_number("12x") == std::nullopt);
  CHECK(parse_number("") == std::nullopt);
  CHECK(parse_number("18446744073709551616") == std::nullopt);
}

TEST_CASE("files are read whole, or not at all when they are too long") {
  const auto status = read_kernel_text("/proc/self/status");
  REQUIRE(status.has_value());
  CHECK(status_number(*status, "Threads").has_value());
  CHECK(read_kernel_text("/proc/self/status", 10) == std::nullopt);
  CHECK(read_kernel_text("/proc/self/no-such-file") == std::nullopt);
  CHECK(read_kernel_text("/proc/self") == std::nullopt);
}

TEST_CASE("lines are taken off one by one") {
  std::string_view text = "a\n\nb";
  CHECK(take_line(text) == "a");
  CHECK(take_line(text) == "");
  CHECK(take_line(text) == "b");
  CHECK(take_line(text) == std::nullopt);
}
