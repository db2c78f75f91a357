#include "references/local_name.h"

#include <doctest/doctest.h>

using namespace heapsnap;

TEST_CASE("the name of a local variable comes apart into what it was made of") {
  const std::string name = local_name({"orders", "handle()", "app.py", 42});
  CHECK(name == "orders in handle() at app.py:42");
  const LocalName parts = split_local(name);
  CHECK(parts.variable == "orders");
  CHECK(parts.function == "handle()");
  CHECK(parts.file == "app.py");
  CHECK(parts.line == 42);
  CHECK(local_without_line(name) == "orders in handle() at app.py");
  CHECK(call_of_local(name) == "handle() at app.py:42");
  CHECK_FALSE(is_temporary(name));
  CHECK(is_temporary(local_name({kTemporary, "handle()", "app.py", 42})));
}

TEST_CASE("what is not known is not in the name") {
  CHECK(local_name({"x", "f()", "a.py", 0}) == "x in f() at a.py");
  CHECK(local_name({"x", "f()", "", 7}) == "x in f()");
  CHECK(local_name({"x", "", "", 0}) == "x");
  CHECK(split_local("x in f()").function == "f()");
  CHECK(split_local("x in f() at a.py").line == 0);
}

TEST_CASE("any text is a name") {
  for (const char* text : {"", " in ", " in  at ", "x", "x in ", ":", "x in f() at :", ":7",
                           "x in f() at a:99999999999999999999", " at a.py:3"}) {
    const LocalName parts = split_local(text);
    CHECK(parts.variable.size() <= std::string_view(text).size());
    CHECK(local_without_line(text).size() <= std::string_view(text).size());
  }
}
