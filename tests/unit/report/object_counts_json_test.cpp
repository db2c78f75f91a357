#include "report/object_counts_json.h"

#include <doctest/doctest.h>

#include <string>

using namespace heapsnap;

TEST_CASE("counts of Ruby's objects are laid out as heap_dump does") {
  std::string text;
  Writer out(text);
  SUBCASE("some") {
    print_object_counts(out, {56, 12, {{"T_OBJECT", 19}, {"T_STRING", 25}}, {{"Sho\"p", 3}}});
    out.flush();
    CHECK(text == R"({
    "total_slots": 56,
    "free_slots": 12,
    "basic_types": {
        "T_OBJECT": 19,
        "T_STRING": 25
    },
    "user_types": {
        "Sho\"p": 3
    }
}
)");
  }
  SUBCASE("none") {
    print_object_counts(out, {});
    out.flush();
    CHECK(text ==
          "{\n    \"total_slots\": 0,\n    \"free_slots\": 0,\n    \"basic_types\": {},\n    "
          "\"user_types\": {}\n}\n");
  }
}
