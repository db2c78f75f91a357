#include "tools/inject/ruby_dump_text.h"

#include <doctest/doctest.h>

#include <string>
#include <string_view>

#include "base/error.h"

using namespace heapsnap;

namespace {

struct Taken {
  std::string text;
  std::string version;
  uint64_t lines = 0;
  bool has_ended = false;
};

// `answer` in parts of so many bytes.
Taken take(std::string_view answer, size_t part) {
  Taken taken;
  RubyDumpAnswer reader(
      [&taken](std::span<const char> text) { taken.text.append(text.begin(), text.end()); });
  for (size_t at = 0; at < answer.size(); at += part) {
    const std::string_view bytes = answer.substr(at, part);
    reader.take(std::span(bytes.data(), bytes.size()));
  }
  taken.version = reader.version();
  taken.lines = reader.lines();
  taken.has_ended = reader.has_ended();
  CHECK(reader.bytes() == taken.text.size());
  return taken;
}

}  // namespace

TEST_CASE("an answer is what lies between its first and its last line, whatever its parts") {
  const std::string lines =
      "{\"type\":\"ROOT\"}\n{\"address\":\"0x1\", \"value\":\"heapsnap-ruby end\"}\n";
  const std::string answer =
      "heapsnap-ruby begin 3.1.2\n" + lines + "heapsnap-ruby end\n{\"late\"}\n";
  for (size_t part = 1; part <= answer.size(); ++part) {
    const Taken taken = take(answer, part);
    CHECK(taken.text == lines);
    CHECK(taken.version == "3.1.2");
    CHECK(taken.lines == 2);
    CHECK(taken.has_ended);
  }
}

TEST_CASE("an answer that breaks off has not ended") {
  const std::string answer = "heapsnap-ruby begin 3.1.2\n{\"type\":\"ROOT\"}\n{\"address\":";
  const Taken taken = take(answer, 7);
  CHECK(!taken.has_ended);
  CHECK(taken.lines == 1);
  CHECK(taken.text == "{\"type\":\"ROOT\"}\n{\"address\":");
}

TEST_CASE("what is no answer is refused, and a failure is told in its words") {
  CHECK_THROWS_AS(take("{\"type\":\"ROOT\"}\n", 100), Error);  // before the first line
  CHECK_THROWS_AS(take("heapsnap-rust\n", 3), Error);
  CHECK_THROWS_AS(take("\n", 1), Error);
  CHECK_THROWS_AS(take("heapsnap-ruby begin 3.1.2\nwords\n", 5), Error);
  CHECK_THROWS_AS(take("heapsnap-ruby begin " + std::string(1000, '3'), 64), Error);
  try {
    take("heapsnap-ruby begin 3.1.2\nheapsnap-ruby failed LoadError: objspace\n", 9);
    FAIL("it was taken");
  } catch (const Error& error) {
    CHECK(error.why() == "its child says: LoadError: objspace");
  }
}

TEST_CASE("the text names the FIFO, and none of the braces of its format") {
  const std::string text = ruby_dump_text(".heapsnap-ruby-1-2");
  CHECK(text.find("folder + \"/.heapsnap-ruby-1-2\"") != std::string::npos);
  CHECK(text.find("[\"/dev/shm\", \"/run\", \"/tmp\", \"/var/tmp\"].map { |folder|") !=
        std::string::npos);
  CHECK(text.find("#{RUBY_VERSION}") != std::string::npos);
  CHECK(text.find("{{") == std::string::npos);
}
