#include "layout_fixture.h"

struct fixture_plain* fixture_plain_pointer;
struct fixture_nested fixture_nested_object;
fixture_alias fixture_alias_object;
struct fixture_declared_only* fixture_declared_pointer;

long fixture_code(void) {
  return fixture_nested_object.as_long;
}
