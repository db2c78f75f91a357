#include <doctest/doctest.h>

#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

#include "report/stack_report.h"
#include "tests/unit/report/sample_stacks.h"

using namespace heapsnap;
using Sample = test::SampleStacks;

TEST_CASE("of objects in an interpreter's own pages no stack is known, and that is said") {
  Sample sample;
  const auto remarks_hold = [&](std::string_view part) {
    const std::vector<std::string> all = stack_remarks(sample.metadata, sample.census);
    return std::any_of(all.begin(), all.end(), [&](const std::string& remark) {
      return remark.find(part) != std::string::npos;
    });
  };
  Runtime python;
  python.kind = RuntimeKind::kPython;
  sample.metadata.runtimes.runtimes = {python};  // with malloc for everything
  CHECK_FALSE(remarks_hold("Python"));
  sample.metadata.runtimes.runtimes[0].areas = 1;
  CHECK(remarks_hold("of Python's objects of up to 512 bytes no stack is known"));
  sample.metadata.runtimes.runtimes[0].areas = 0;
  sample.metadata.runtimes.runtimes[0].why_not = kRuntimeNotAsked;
  CHECK(remarks_hold("unless it was started with PYTHONMALLOC=malloc"));
  sample.metadata.runtimes.runtimes[0].kind = RuntimeKind::kRuby;
  CHECK(remarks_hold("heapsnap objects lists them by class"));
}

TEST_CASE("where a second inject changed the sampling, the head of the listing says so") {
  Sample sample;
  const auto tracked = [&sample] {
    std::string text;
    Writer out(text);
    print_stacks(out, sample.input(), {false, 140});
    out.flush();
    const size_t begin = text.find("  tracked   ") + 12;
    return text.substr(begin, text.find('\n', begin) - begin);
  };
  CHECK(tracked() == "every allocation recorded for 2.0 s");
  sample.recorded.stacks.sites.back().sample_bytes = 4096;
  CHECK(tracked() == "every allocation recorded for 2.0 s, part of the time with another --sample");
}
