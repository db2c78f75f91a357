#include "tools/collect/skip_reason.h"

#include <doctest/doctest.h>

using namespace heapsnap;

namespace {

MachineState roomy() {
  MachineState state;
  state.memory_total = 1000;
  state.memory_available = 500;
  state.disk_total = 1000;
  state.disk_free = 500;
  state.pressure = {0.0, 0.0, 50.0};
  return state;
}

bool is_barred(const SkipRules& rules, const MachineState& state, const std::string& word) {
  const auto why = find_skip_reason(rules, state);
  return why && why->find(word) != std::string::npos;
}

}  // namespace

TEST_CASE("a machine with room bars nothing, nor does one that says nothing") {
  CHECK(!find_skip_reason({}, roomy()));
  CHECK(!find_skip_reason({}, {}));
}

TEST_CASE("memory, disk, inodes and pressures bar a snapshot") {
  MachineState state = roomy();
  state.memory_available = 49;
  CHECK(is_barred({}, state, "memory_below"));
  state = roomy();
  state.disk_free = 49;
  CHECK(is_barred({}, state, "disk_below"));
  state = roomy();
  state.has_free_files = false;
  CHECK(is_barred({}, state, "inodes"));
  state = roomy();
  state.pressure.memory = 20.5;
  CHECK(is_barred({}, state, "memory pressure is 20.5 %"));
  state = roomy();
  state.pressure.io = 61;
  CHECK(is_barred({}, state, "io_pressure_over"));
  state = roomy();
  state.pressure.processor = 100;
  CHECK(!find_skip_reason({}, state));
  SkipRules rules;
  rules.cpu_pressure_over = 90;
  CHECK(is_barred(rules, state, "cpu_pressure_over"));
}

TEST_CASE("limits in bytes need no total") {
  SkipRules rules;
  rules.disk_below = {std::nullopt, 501};
  MachineState state = roomy();
  state.disk_total.reset();
  CHECK(is_barred(rules, state, "disk_below"));
}
