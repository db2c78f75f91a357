#include "platform/linux/proc/pressure.h"

#include <doctest/doctest.h>

#include "fixture_tree.h"

using namespace heapsnap;

TEST_CASE("pressure of the last ten seconds") {
  CHECK(parse_pressure("some avg10=1.53 avg60=0.40 avg300=0.10 total=123456\n"
                       "full avg10=0.25 avg60=0.00 avg300=0.00 total=1\n") == 1.53);
  CHECK(parse_pressure("full avg10=0.25\nsome avg60=1 avg10=100.00\n") == 100.0);
  for (const char* text : {"", "some", "some avg10=", "some avg10=x", "some avg10=101",
                           "some avg10=-1", "some avg10=1.5x", "full avg10=1.00"}) {
    CAPTURE(text);
    CHECK(!parse_pressure(text));
  }
}

TEST_CASE("a kernel without pressure information says nothing") {
  const FixtureTree tree;
  tree.write("proc/pressure/io", "some avg10=3.00 avg60=0.00 avg300=0.00 total=0\n");
  const Pressure pressure = read_pressure({tree.path("proc"), tree.path("sys")});
  CHECK(pressure.io == 3.0);
  CHECK(!pressure.memory);
  CHECK(!pressure.processor);
}
