#include "report/view_page.h"

#include <doctest/doctest.h>

#include <string>

#include "base/error.h"

using namespace heapsnap;

namespace {

std::string page_of(const std::string& page_template, const ViewPage& page) {
  std::string text;
  Writer out(text);
  print_view_page(out, page_template, page);
  out.flush();
  return text;
}

}  // namespace

TEST_CASE("base64, with padding") {
  CHECK(base64_text("").empty());
  CHECK(base64_text("f") == "Zg==");
  CHECK(base64_text("fo") == "Zm8=");
  CHECK(base64_text("foo") == "Zm9v");
  CHECK(base64_text("foobar") == "Zm9vYmFy");
  CHECK(base64_text(std::string("\xff\x00\xfe", 3)) == "/wD+");
}

TEST_CASE("nothing in JSON ends its script") {
  CHECK(script_json(R"({"a":"</script><!--"})") == R"({"a":"\u003c/script>\u003c!--"})");
}

TEST_CASE("parts stand where the marker was") {
  const ViewPage page{{{"report", R"({"comm":"<b>"})"}}, {{"cells", "foo"}}};
  CHECK(page_of("<head><!--heapsnap-data--></head>", page) ==
        "<head><script type=\"application/json\" id=\"report\">{\"comm\":\"\\u003cb>\"}</script>\n"
        "<script type=\"text/plain\" id=\"cells\">Zm9v</script>\n</head>");
}

TEST_CASE("a template without the marker is refused") {
  CHECK_THROWS_AS(page_of("<head></head>", {}), Error);
}
