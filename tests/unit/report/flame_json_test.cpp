#include "report/flame_json.h"

#include <doctest/doctest.h>

#include <string>

using namespace heapsnap;

namespace {

std::string json_of(const FlameInput& input) {
  std::string text;
  Writer out(text);
  print_json_flame(out, input);
  out.flush();
  return text;
}

std::string nodes_of(const FlameInput& input) {
  const std::string text = json_of(input);
  const size_t begin = text.find("\"nodes\":");
  return text.substr(begin, text.find("\"frames\":") - begin);
}

StackProfile profile_with(uint64_t parse_bytes, uint64_t store_bytes) {
  StackProfile profile(StackProfile::Kind::kCallStacks);
  const uint32_t main = profile.child(0, {"main", "/src/a.cpp", 3, "/bin/a"});
  profile.add(profile.child(main, {"parse", "", 0, ""}), 2, parse_bytes);
  profile.add(profile.child(main, {"store", "", 0, ""}), 1, store_bytes);
  return profile;
}

}  // namespace

TEST_CASE("a flame graph has the bytes and blocks of each node itself") {
  const StackProfile profile = profile_with(40, 8);
  CHECK(json_of({profile, nullptr, {0, 2}}) ==
        R"({"kind":"flame","version":1,"by":"stack","bytes":48,"blocks":3,)"
        R"("nodes":[[0,0,0,0],[0,0,0,0],[1,1,40,2],[1,2,8,1]],)"
        R"("frames":[{"name":"main","file":"/src/a.cpp","line":3,"module":"/bin/a"},)"
        R"({"name":"parse"},{"name":"store"}],"stacks":[0,2]})");
}

TEST_CASE("two profiles are one tree, also where only the earlier one has a node") {
  StackProfile before(StackProfile::Kind::kCallStacks);
  before.add(before.child(0, {"gone", "", 0, ""}), 4, 100);
  const uint32_t main = before.child(0, {"main", "/src/a.cpp", 3, "/bin/a"});
  before.add(before.child(main, {"parse", "", 0, ""}), 1, 30);
  const StackProfile profile = profile_with(40, 8);
  CHECK(nodes_of({profile, &before, {}}) ==
        R"("nodes":[[0,0,0,0,0,0],[0,0,0,0,0,0],[1,1,40,2,30,1],[1,2,8,1,0,0],[0,3,0,0,100,4]],)");
}

TEST_CASE("what is too small for the page is added to the node above") {
  const StackProfile profile = profile_with(40, 8);
  CHECK(nodes_of({profile, nullptr, {}, 3}) == R"("nodes":[[0,0,0,0],[0,0,8,1],[1,1,40,2]],)");
  // With the node that stands for a stack.
  CHECK(json_of({profile, nullptr, {3}, 3}).ends_with(R"("stacks":[1]})"));
}
